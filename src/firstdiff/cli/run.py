"""`firstdiff run`: both commands on many inputs."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from firstdiff.cli.compare import MISMATCH

if TYPE_CHECKING:
    from firstdiff.workflows.differential import CaseResult, DifferentialRun
    from firstdiff.workflows.project import Project

_STATES = {"pass": "PASS", "fail": "FAIL", "error": "ERROR", "rejected": "REJECTED"}
_MOST_PASSING = 20
_MOST_FAILING = 40
_MOST_KEPT = 5


def run(
    input_set: Annotated[
        str | None, typer.Option("--input", metavar="SET", help="One input set; all if left out.")
    ] = None,
    random: Annotated[
        int, typer.Option(min=0, metavar="N", help="Also run N generated inputs, made from [random].")
    ] = 0,
    seed: Annotated[int, typer.Option(min=0, help="Other generated inputs.")] = 0,
    shrink: Annotated[
        bool, typer.Option("--shrink", help="Make the first generated input that fails smaller.")
    ] = False,
    jobs: Annotated[int, typer.Option(min=1, help="How many inputs to run at a time.")] = 1,
    format_: Annotated[Literal["text", "json"], typer.Option("--format", help="The form of the report.")] = "text",
) -> None:
    """Run reference and candidate on every input set and on generated ones; name the inputs on which they differ."""
    from firstdiff.cli.console import progress_bar, say, warn
    from firstdiff.errors import FirstdiffError
    from firstdiff.json_text import to_json
    from firstdiff.workflows.differential import DifferentialRun
    from firstdiff.workflows.project import load_project

    project = load_project()
    sets = project.input_sets(input_set) if project.inputs or not random or input_set else []
    runner = DifferentialRun(project, seed=seed, jobs=jobs)
    results: list[CaseResult] = []
    ended: BaseException | None = None
    total = len(sets) + random
    try:
        with progress_bar("inputs") as show:
            for result in runner.cases(sets, random):
                results.append(result)
                show(len(results), total)
            if shrink:
                results = _shrunk(runner, results)
    except (KeyboardInterrupt, FirstdiffError) as error:
        if not results:
            raise
        ended = error  # hours of runs are not thrown away
    if format_ == "json":
        say(to_json({"results": results}, indent=1))
    else:
        _print(project, results)
    if ended is not None:
        if len(results) < total:
            warn(f"{len(results):,} of {total:,} inputs were run")
        raise ended
    compared = [result for result in results if result.state != "rejected"]
    if not compared or any(result.state != "pass" for result in compared):
        raise typer.Exit(MISMATCH)


def _shrunk(runner: DifferentialRun, results: list[CaseResult]) -> list[CaseResult]:
    """Make the first random case that failed smaller."""
    for place, result in enumerate(results):
        if result.state in ("fail", "error") and result.generated:
            return [*results[:place], runner.shrink(result), *results[place + 1 :]]
    return results


def _print(project: Project, results: list[CaseResult]) -> None:
    from firstdiff.cli.console import say
    from firstdiff.reports.terminal import columns, paint, shown
    from firstdiff.workflows.project import FILE

    failing = [result for result in results if result.state != "pass"]
    passing = [result for result in results if result.state == "pass"]
    shown_passing = [result for result in passing if len(results) <= _MOST_PASSING or not result.generated]
    shown_failing = failing[:_MOST_FAILING]
    listed = shown_failing + shown_passing
    rows = [("input", "state", "tensors", "first divergence", "component", "cause", "")]
    rows += [
        (
            shown(result.name),
            _STATES[result.state],
            f"{result.tensors:,}",
            shown(result.first or ""),
            shown(result.component or ""),
            result.cause or "",
            shown(result.text),
        )
        for result in listed
    ]
    for line, result in zip(columns(rows, frozenset({2}), shrinks=6), (None, *listed), strict=True):
        say(line if result is None or result.state == "pass" else paint(line, "red"))
    if len(passing) > len(shown_passing):
        say(f"{len(passing) - len(shown_passing):,} generated inputs pass", "dim")
    if len(failing) > len(shown_failing):
        say(f"… and {len(failing) - len(shown_failing):,} more that fail (--format json lists all)", "dim")
    kept = [result for result in failing if result.kept]
    if len(kept) > _MOST_KEPT:
        say(f"{len(kept):,} inputs are kept, such as {shown(kept[0].kept or '')}")
    else:
        for result in kept:
            say(f"{shown(result.name)} is kept in {shown(result.kept or '')}")
    for result in failing:
        if result.shrunk:
            say(f"{shown(result.name)} was shrunk to {shown(result.shrunk)}")
    generated = next((result for result in kept if result.generated), None)
    if generated is not None:
        say(f"to run {shown(generated.name)} again, add this to {FILE}:", "dim")
        say(_input_table(project, generated), "dim")
    say(_verdict(results), "bold")


def _input_table(project: Project, result: CaseResult) -> str:
    """Return the lines that make an input set of a generated input that was kept."""
    folder = project.root / (result.kept or "")
    files = {path.stem: project.shown(path) for path in sorted(folder.iterdir()) if path.is_file()}
    fixed = next((dict(found.values) for found in project.inputs.values()), {})
    values = fixed | {name: path for name, path in files.items() if name in project.random}
    lines = [f"{name} = {json.dumps(value)}" for name, value in values.items()]
    return "\n".join((f"[inputs.{result.name}]", *lines))


def _verdict(results: list[CaseResult]) -> str:
    counts = Counter(result.state for result in results)
    compared = len(results) - counts["rejected"]
    said = [f"{counts['fail']:,} of {compared:,} inputs differ"]
    if counts["error"]:
        said.append(f"{counts['error']:,} end in an error of the candidate")
    if counts["rejected"]:
        said.append(f"{counts['rejected']:,} rejected by the reference")
    return f"{'PASS' if counts['pass'] and counts['pass'] == compared else 'FAIL'}: {', '.join(said)}"
