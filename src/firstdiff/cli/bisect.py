"""`firstdiff bisect`: the first diverging tensor of runs that are too large to record whole."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from firstdiff.cli.compare import MISMATCH

if TYPE_CHECKING:
    from firstdiff.workflows.bisect import Bisection, Probe


def bisect(
    input_set: Annotated[
        str | None, typer.Option("--input", metavar="SET", help="The input set; the first if left out.")
    ] = None,
    names: Annotated[
        Path | None, typer.Option(metavar="TRACE|FILE", help="Names in order: of a trace, or one a line; the golden's.")
    ] = None,
) -> None:
    """Run both sides with a few tensors recorded at a time, halving the interval that holds the first divergence."""
    from firstdiff.cli.console import say
    from firstdiff.reports.terminal import shown
    from firstdiff.workflows.bisect import bisect as search
    from firstdiff.workflows.bisect import checkpoints_to_search
    from firstdiff.workflows.project import load_project

    project = load_project()
    inputs = project.input_sets(input_set)[0]
    wanted = checkpoints_to_search(project, inputs, names, None)
    say(f"bisecting {len(wanted):,} tensors on {shown(inputs.name)}, assuming that a divergence persists")

    def show(probe: Probe) -> None:
        first = "" if probe.first is None else f", {shown(probe.first)} differs"
        say(f"  run {probe.run:,}: {probe.matching:,} match{first}; {probe.left:,} left")

    found = search(project, inputs, wanted, on_probe=show)
    _print(found)
    if found.first is not None:
        raise typer.Exit(MISMATCH)


def _print(found: Bisection) -> None:
    from firstdiff.cli.console import say, warn
    from firstdiff.reports.terminal import shown

    for text in found.warnings:
        warn(text)
    runs = f"{found.runs:,} run{'' if found.runs == 1 else 's'} of each side for {found.names:,} tensors"
    if found.first is None:
        say(f"{shown(found.text)} ({runs})")
        return
    say(f"First divergence: {shown(found.first)} ({runs})", "bold")
    if found.before:
        say(f"  {shown(found.before)} before it matches")
    say(f"  {shown(found.text)}")
    if found.diagnosis:
        best = found.diagnosis[0]
        say(f"  Cause: {best.cause} (confidence {best.confidence:.2g}): {shown(best.evidence)}")
        say(f"  Fix: {shown(best.fix)}")
    if found.persists:
        say(f"  checked: {found.checked}")
    else:
        say(f"  {found.checked}; the divergence does not persist, so there may be an earlier one")
