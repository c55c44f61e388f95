"""`firstdiff validate`: a port against golden data, component by component."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from firstdiff.cli.compare import MISMATCH

if TYPE_CHECKING:
    from collections.abc import Callable

    from firstdiff.errors import FirstdiffError
    from firstdiff.judge.rules import Rules
    from firstdiff.workflows.project import Project
    from firstdiff.workflows.validate import ValidateOptions, ValidationRun


def validate(
    candidate: Annotated[
        Path | None, typer.Argument(metavar="[CANDIDATE]", help="A trace to check; the candidate command is not run.")
    ] = None,
    golden: Annotated[Path | None, typer.Option(metavar="DIR", help="Golden data; the project's if left out.")] = None,
    component: Annotated[str, typer.Option(metavar="NAME|full", help="One component, or all.")] = "full",
    input_set: Annotated[
        str | None, typer.Option("--input", metavar="SET", help="One input set; all if left out.")
    ] = None,
    isolate: Annotated[
        bool, typer.Option("--isolate", help="Judge components on golden inputs, operations on their own.")
    ] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Again whenever the candidate's files change.")] = False,
    require_all: Annotated[bool, typer.Option("--require-all", help="Every golden tensor must be checked.")] = False,
    atol: Annotated[float | None, typer.Option(help="Allow |c - r| <= atol + rtol * |r| for every tensor.")] = None,
    rtol: Annotated[float | None, typer.Option(help="See --atol; one alone leaves the other at 0.")] = None,
    tolerances: Annotated[
        str | None, typer.Option(metavar="FILE|torch", help="A TOML file with [[tolerances]], or torch's table.")
    ] = None,
    every_row: Annotated[bool, typer.Option("--all", help="Print every tensor, those that pass as well.")] = False,
    format_: Annotated[
        str, typer.Option("--format", metavar="text|json|md|github", help="The form of the report.")
    ] = "text",
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the report to a file.")] = None,
) -> None:
    """Run the candidate and check what it recorded against golden data.

    Exit code 0: every component passes.
    """
    from firstdiff.cli.console import command_output, comparison_progress, write_report
    from firstdiff.cli.validation_report import check_format, render
    from firstdiff.workflows.validate import ValidateOptions

    check_format(format_)  # before the candidate runs

    def once() -> bool:
        with comparison_progress() as on_progress:
            options = ValidateOptions(
                scope=component,
                isolate=isolate,
                require_all=require_all,
                rules=_rules(atol, rtol, tolerances),
                on_line=command_output("candidate"),
                on_progress=on_progress,
            )
            runs, failure = _runs(candidate, golden, input_set, options)
        pieces = render(runs, format_, every_row=every_row) if runs else ()
        if output is None:
            for piece in pieces:
                sys.stdout.write(piece)
        elif runs:
            write_report(output, pieces)
        if failure is not None:
            raise failure
        return all(run.validation.passed for run in runs)

    if watch:
        _again_and_again(once)
    elif not once():
        raise typer.Exit(MISMATCH)


def _again_and_again(once: Callable[[], bool]) -> None:
    """Validate now and whenever the candidate's files change, until Ctrl-C; mistakes are said and waited out."""
    from firstdiff.cli.console import say, warn
    from firstdiff.errors import FirstdiffError
    from firstdiff.reports.terminal import shown
    from firstdiff.workflows.project import load_project
    from firstdiff.workflows.watch import CandidateWatch

    files = CandidateWatch(load_project())
    while True:
        try:
            once()
        except FirstdiffError as error:
            warn(str(error))
        say("waiting for a change of the candidate's files; Ctrl-C ends", "dim")
        sys.stdout.flush()
        changed = files.wait()
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        say(f"\n{shown(changed[0])}{more} changed", "bold")


def _runs(
    candidate: Path | None, golden: Path | None, input_set: str | None, options: ValidateOptions
) -> tuple[list[ValidationRun], FirstdiffError | None]:
    """Validate every input set; returns also the first failure of a candidate that recorded nothing on one of them."""
    from firstdiff.errors import UsageError
    from firstdiff.workflows.command import CommandError
    from firstdiff.workflows.project import FILE, find_project, load_project
    from firstdiff.workflows.validate import validate_project, validate_traces

    found = find_project()
    if found is None:
        if golden is None or candidate is None:
            raise UsageError(
                f"there is no {FILE} here or above; `firstdiff init` writes one, or name both: "
                "firstdiff validate --golden DIR CANDIDATE"
            )
        return [validate_traces(golden, candidate, options)], None
    project = load_project(found)
    sets = project.input_sets(input_set)
    if candidate is not None and len(sets) > 1:
        if golden is not None:
            return [validate_traces(golden, candidate, options)], None
        raise UsageError(f"name the input set of {candidate} with --input: {', '.join(item.name for item in sets)}")
    _say_order(project)
    runs: list[ValidationRun] = []
    failures: list[CommandError] = []
    for inputs in sets:
        try:
            runs.append(validate_project(project, inputs, options, golden=golden, candidate=candidate))
        except CommandError as error:
            if not error.started:
                raise
            failures.append(CommandError(f"{inputs.name}: {error}") if len(sets) > 1 else error)
    return runs, next(iter(failures), None)


def _say_order(project: Project) -> None:
    from firstdiff.cli.console import warn

    if not project.components:
        warn(f"{project.path.name} names no [components]; tensors are grouped by the first part of their names")


def _rules(atol: float | None, rtol: float | None, tolerances: str | None) -> Rules | None:
    """Return the tolerances of the command line; None where it states none and the project's hold."""
    if atol is None and rtol is None and tolerances is None:
        return None
    from firstdiff.comparing import Options

    return Options.of(atol=atol, rtol=rtol, tolerances=tolerances).rules
