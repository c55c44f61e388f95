"""`firstdiff weights`: two checkpoints, weight by weight."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from firstdiff.cli.compare import MISMATCH

if TYPE_CHECKING:
    from firstdiff.workflows.weights import WeightResult, WeightsReport

_MOST_ROWS = 40
_VERDICTS = {"match": "MATCH", "mismatch": "MISMATCH", "not_compared": "NOTHING COMPARED"}


def weights(
    reference: Annotated[Path, typer.Argument(metavar="REF", help="The checkpoint, or trace, that is right.")],
    candidate: Annotated[Path, typer.Argument(metavar="CAND", help="The one to check.")],
    allow_missing: Annotated[bool, typer.Option("--allow-missing", help="Weights only REF has do not count.")] = False,
    allow_extra: Annotated[bool, typer.Option("--allow-extra", help="Weights only CAND has do not count.")] = False,
    every_row: Annotated[
        bool, typer.Option("--all", help="Print every weight, those that are the same as well.")
    ] = False,
    format_: Annotated[Literal["text", "json"], typer.Option("--format", help="The form of the report.")] = "text",
) -> None:
    """Compare weights: found, missing, unused, differing, transposed, tied, unfolded, for each component."""
    from firstdiff.cli.console import comparison_progress, say
    from firstdiff.json_text import to_json
    from firstdiff.workflows.project import find_project, load_project
    from firstdiff.workflows.weights import compare_weights

    project = find_project()
    components = load_project(project).components if project else ()
    with comparison_progress() as on_progress:
        report = compare_weights(
            reference,
            candidate,
            components=components,
            allow_missing=allow_missing,
            allow_extra=allow_extra,
            on_progress=on_progress,
        )
    if format_ == "json":
        say(to_json(report, indent=1))
    else:
        _print(report, every_row)
    if report.verdict != "match":
        raise typer.Exit(MISMATCH)


def _print(report: WeightsReport, every_row: bool) -> None:
    from firstdiff.cli.console import say, warn
    from firstdiff.reports.terminal import columns, shown

    good = report.verdict == "match"
    say(
        f"{_VERDICTS[report.verdict]}: {shown(report.reference)} against {shown(report.candidate)}",
        "bold green" if good else "bold red",
    )
    for text in report.warnings:
        warn(text)
    head = ("component", "expected", "found", "missing", "unused", "differing", "transposed", "tied", "unfolded")
    rows: list[tuple[str, ...]] = [head]
    for name in report.components:
        missing, unused, tied = (report.count(name, state) for state in ("missing", "unused", "tied"))
        found = report.count(name, "same", "quantised", "transposed", "tied")
        differing, transposed = report.count(name, "differing", "failed"), report.count(name, "transposed")
        counts = (
            found + missing + differing,
            found,
            missing,
            unused,
            differing,
            transposed,
            tied,
            report.unfolded(name),
        )
        if any(counts):
            rows.append((shown(name), *(f"{count:,}" for count in counts)))
    for line in columns(rows, frozenset(range(1, 9))):
        say(line)
    notable = [weight for weight in report.weights if weight.text and weight.state not in ("same", "quantised")]
    told = list(report.weights) if every_row else notable[:_MOST_ROWS]
    if told:
        say()
    cells = [(weight.state, shown(weight.name), shown(_words(weight)), weight.cause or "") for weight in told]
    for line in columns(cells, shrinks=1):
        say(line)
    renamed = sum(weight.called is not None for weight in report.weights)
    if not every_row and len(notable) > len(told):
        say(f"… and {len(notable) - len(told):,} more (--all prints every one)", "dim")
    if not every_row and renamed:
        say(f"{renamed:,} found under another name (--all lists every weight)", "dim")


def _words(weight: WeightResult) -> str:
    called = f"{weight.called} in the candidate" if weight.called else ""
    return "; ".join(text for text in (called, weight.text) if text)
