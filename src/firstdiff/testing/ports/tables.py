"""Outcomes as tables for a terminal, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from firstdiff.testing.ports.scoring import Gate, Outcome, gates
from firstdiff.testing.ports.table import ports

if TYPE_CHECKING:
    from rich.console import Console

    from firstdiff.testing.ports.port import Half


def show(console: Console, outcomes: Sequence[Outcome], half: Half, *, single_cases: bool = True) -> None:
    """Print one half: a line for each case, sums for each family, and the gates."""
    console.print(f"The {half} half", style="bold")
    if single_cases:
        _cases(console, outcomes)
    _families(console, outcomes)
    _gates(console, gates(outcomes))
    console.print()


def save(path: Path, halves: dict[Half, list[Outcome]]) -> None:
    """Write everything as JSON."""
    content = {
        half: {
            "gates": [asdict(gate) | {"met": gate.met} for gate in gates(outcomes)],
            "cases": [asdict(outcome) for outcome in outcomes],
        }
        for half, outcomes in halves.items()
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1), encoding="utf-8")


def _cases(console: Console, outcomes: Sequence[Outcome]) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for column in ("case", "verdict", "place"):
        table.add_column(column, no_wrap=True)
    table.add_column("first cause")
    table.add_column("CPU s", justify="right")
    table.add_column("said instead")
    for outcome in outcomes:
        wrong = outcome.place == "wrong" or outcome.quiet is False
        said = f"{outcome.said or 'nothing'}{f' for {outcome.truth[0]}' if outcome.truth else ''}" if wrong else ""
        place = outcome.place or ("quiet" if outcome.quiet else "ALARM")
        cause = f"{outcome.cause} {outcome.confidence:.2f}" if outcome.cause else ""
        mark = " ok" if outcome.cause_right else " WRONG" if outcome.wrong_cause else ""
        table.add_row(str(outcome.case), outcome.verdict, place, cause + mark, f"{outcome.seconds:.2f}", said)
    console.print(table)
    console.print()


def _families(console: Console, outcomes: Sequence[Outcome]) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for column in (
        "family",
        "healthy",
        "variations",
        "faults",
        "match",
        "placed",
        "wrong cause",
        "right cause",
        "CPU s",
    ):
        table.add_column(column, justify="left" if column == "family" else "right")
    table.add_column("written as")
    for family in dict.fromkeys(outcome.case.family for outcome in outcomes):
        own = [outcome for outcome in outcomes if outcome.case.family == family]
        port, varied, match, placed, _, wrong, right, _ = gates(own)
        slowest = max(outcome.seconds for outcome in own)
        sums = [_of(port), _of(varied), str(match.count), str(match.reached), _of(placed), _of(wrong), _of(right)]
        table.add_row(family, *sums, f"{slowest:.1f}", ports()[family].style if family in ports() else "")
    console.print(table)
    console.print()


def _of(gate: Gate) -> str:
    return f"{gate.reached}/{gate.count}" if gate.count else ""


def _gates(console: Console, every: Sequence[Gate]) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for column in ("", "reached", "", "wanted", ""):
        table.add_column(column)
    for gate in every:
        wanted = f"at least {gate.least:.0%}" if gate.least is not None else ""
        wanted = f"at most {gate.most:.0%}" if gate.most is not None else wanted
        judged = {True: "ok", False: "MISSED", None: ""}[gate.met]
        table.add_row(gate.what, f"{gate.reached} of {gate.count}", f"{gate.share:.1%}", wanted, judged)
    console.print(table)
