"""Format scores as tables for a terminal, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firstdiff.testing.zoo.scoring import Score, Target

if TYPE_CHECKING:
    from rich.console import Console

    from firstdiff.testing.zoo.healthy import HealthyOutcome
    from firstdiff.testing.zoo.planting import Variant
    from firstdiff.testing.zoo.runner import Run
    from firstdiff.testing.zoo.scoring import Outcome


def show(
    console: Console,
    outcomes: Sequence[Outcome],
    healthy: Sequence[HealthyOutcome],
    variants: Sequence[Variant],
    reached: Sequence[Target],
) -> None:
    """Print tables by fault and by architecture, the failures, and the totals."""
    if outcomes:
        _table(console, "fault", _grouped(outcomes, by="kind"), variants)
        _table(console, "architecture", _grouped(outcomes, by="architecture"), variants)
    for outcome in outcomes:
        if not outcome.exact:
            text = f"misplaced: {outcome.case} ({outcome.variant}): it is in {outcome.site} and shows first at "
            console.print(f"{text}{outcome.truth}; {outcome.first} was named", markup=False, highlight=False)
    for pair in healthy:
        if not pair.quiet:
            console.print(f"alarm: {pair.pair}: {pair.alarm}", markup=False, highlight=False)
    _totals(console, reached)


def save(path: Path, runs: Sequence[Run], healthy: Sequence[HealthyOutcome], reached: Sequence[Target]) -> None:
    """Save everything as JSON."""
    content = {
        "targets": [asdict(target) | {"met": target.met} for target in reached],
        "cases": [_plain(run) for run in runs],
        "healthy": [asdict(pair) for pair in healthy],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1), encoding="utf-8")


def _plain(run: Run) -> dict[str, Any]:
    found = asdict(run.outcome)
    case: dict[str, Any] = found.pop("case")
    return {**case, **found, "seconds": run.seconds}


def _grouped(outcomes: Iterable[Outcome], by: str) -> dict[str, list[Outcome]]:
    groups: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault(getattr(outcome.case, by), []).append(outcome)
    return groups


def _table(console: Console, what: str, groups: dict[str, list[Outcome]], variants: Sequence[Variant]) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column(f"\n{what}", no_wrap=True)
    table.add_column("\ncases", justify="right")
    for variant in variants:
        for place, column in enumerate(("exact", "first", "in 3")):
            table.add_column(f"{'' if place else variant}\n{column}", justify="right")
    table.add_column("\nnamed instead")
    for name, outcomes in groups.items():
        scores = [Score.of(outcome for outcome in outcomes if outcome.variant == variant) for variant in variants]
        cells = [f"{score.share(part):.0%}" for score in scores for part in (score.exact, score.first, score.third)]
        table.add_row(name, str(scores[0].cases), *cells, _instead(outcomes))
    console.print(table)
    console.print()


def _instead(outcomes: Iterable[Outcome]) -> str:
    """Return the most frequent wrong first causes."""
    wrong = [outcome.stated[0][0] if outcome.stated else "nothing" for outcome in outcomes if outcome.rank != 1]
    often = sorted(set(wrong), key=lambda cause: (-wrong.count(cause), cause))
    return ", ".join(f"{cause} x{wrong.count(cause)}" for cause in often[:3])


def _totals(console: Console, reached: Sequence[Target]) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for column in ("", "wanted", "reached", ""):
        table.add_column(column)
    for target in reached:
        share = "nothing to tell by" if target.reached is None else f"{target.reached:.1%}"
        table.add_row(target.what, f"{target.wanted:.0%}", share, "ok" if target.met else "MISSED")
    console.print(table)
