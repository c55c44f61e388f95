"""Run many cases, in several processes on request, with a progress display."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from firstdiff.testing.pool import Broken, run_tasks
from firstdiff.testing.zoo.case import Case
from firstdiff.testing.zoo.healthy import HealthyOutcome, HealthyPair, run_healthy
from firstdiff.testing.zoo.planting import Variant
from firstdiff.testing.zoo.running import Run, run

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, slots=True)
class Results:
    """The results of all tasks, in their order; not complete if Ctrl-C ended it early."""

    runs: list[Run]
    healthy: list[HealthyOutcome]
    broken: list[Broken]
    complete: bool


Task = Case | HealthyPair


def run_all(
    console: Console, cases: Sequence[Case], pairs: Sequence[HealthyPair], variants: Sequence[Variant], jobs: int
) -> Results:
    """Run cases and healthy pairs."""
    tasks: list[Task] = [*cases, *pairs]
    work = partial(_run, variants=tuple(variants))
    finished = run_tasks(console, tasks, work, jobs, group=lambda task: task.architecture)
    return Results(
        runs=[made for found in finished.results if isinstance(found, list) for made in found],
        healthy=[found for found in finished.results if isinstance(found, HealthyOutcome)],
        broken=finished.broken,
        complete=finished.complete,
    )


def _run(task: Task, variants: tuple[Variant, ...]) -> list[Run] | HealthyOutcome:
    return run(task, variants) if isinstance(task, Case) else run_healthy(task)
