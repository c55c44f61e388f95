"""`firstdiff golden`: run the reference and keep its traces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from firstdiff.cli.compare import MISMATCH

if TYPE_CHECKING:
    from firstdiff.workflows.digests import Digests
    from firstdiff.workflows.project import InputSet, Project


def golden(
    input_set: Annotated[
        str | None, typer.Option("--input", metavar="SET", help="One input set; all if left out.")
    ] = None,
    floor: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Run the reference N more times to measure its noise floor.")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Run nothing; say which goldens are stale, exit code 1.")
    ] = False,
) -> None:
    """Run the reference on every input set and store its traces, with digests of what they were made from."""
    from firstdiff.cli.console import command_output, say
    from firstdiff.reports.terminal import shown
    from firstdiff.workflows.digests import Digests
    from firstdiff.workflows.golden import make_golden
    from firstdiff.workflows.project import load_project

    project = load_project()
    sets = project.input_sets(input_set)
    digests = Digests(project.state / "digests.json")
    if check:
        _check(project, sets, digests)
        return
    for inputs in sets:
        done = make_golden(project, inputs, digests, floor=floor, on_line=command_output("reference"))
        floors = "" if done.floors is None else f", {done.floors:,} with a noise floor"
        made = f"{done.tensors:,} tensors{floors} in {done.seconds:.1f} s"
        say(f"golden {shown(inputs.name)}: {made}, {shown(project.shown(done.path))}")


def _check(project: Project, sets: list[InputSet], digests: Digests) -> None:
    from firstdiff.cli.console import say
    from firstdiff.cli.main import BAD_INPUT
    from firstdiff.errors import ReadError
    from firstdiff.reports.terminal import shown
    from firstdiff.workflows.golden import changes_since, golden_trace, states_origin

    stale = unusable = False
    for inputs in sets:
        path = project.golden.folder / inputs.name
        try:
            header = golden_trace(path).header
        except ReadError as error:
            unusable = True
            say(f"golden {shown(inputs.name)}: {shown(str(error))}")
            continue
        changes = changes_since(header, project, inputs, digests)
        stale = stale or bool(changes)
        said = "; ".join(change.text for change in changes)
        state = f"stale: {said}" if said else "up to date"
        if not states_origin(header):
            state = "unknown, for its trace.json does not say what it was made from; `firstdiff golden` makes it again"
        say(f"golden {shown(inputs.name)}: {shown(state)}")
    if stale or unusable:
        raise typer.Exit(BAD_INPUT if unusable else MISMATCH)
