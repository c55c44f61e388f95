"""Select cases and healthy pairs, and run them, in several processes on request."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from firstdiff.comparing import compare
from firstdiff.errors import UsageError, did_you_mean
from firstdiff.testing.pool import Broken, run_tasks
from firstdiff.testing.zoo.architectures import ARCHITECTURES
from firstdiff.testing.zoo.case import Case, cases
from firstdiff.testing.zoo.faults import FAULTS
from firstdiff.testing.zoo.healthy import WAYS, HealthyOutcome, HealthyPair, healthy_pairs, run_healthy
from firstdiff.testing.zoo.planting import VARIANTS, Planted, Variant, plant
from firstdiff.testing.zoo.scoring import Outcome, answer_of, score

if TYPE_CHECKING:
    from rich.console import Console


_TABLES: tuple[Mapping[str, object], ...] = (FAULTS, ARCHITECTURES, WAYS)


def selected(
    only: Collection[str] = (), seed: int = 0, *, held_out: bool = False
) -> tuple[list[Case], list[HealthyPair]]:
    """Select cases and healthy pairs.

    only: names of faults, architectures and ways of running a healthy pair; everything if left out
    held_out: the cases that were kept apart, instead of the others
    """
    for name in only:
        if not any(name in table for table in _TABLES):
            every = [known for table in _TABLES for known in table]
            raise UsageError(f"the zoo has no {name!r}{did_you_mean(name, every)}")
    kinds, architectures, ways = ([name for name in only if name in table] for table in _TABLES)
    some = bool(kinds or ways)
    return (
        cases(kinds, architectures, seed, held_out=held_out) if kinds or not some else [],
        healthy_pairs(ways, architectures, seed) if ways or not (some or held_out) else [],
    )


@dataclass(frozen=True, slots=True)
class Run:
    """One comparison of a case, and its time."""

    outcome: Outcome
    seconds: float


def run(case: Case, variants: Sequence[Variant] = VARIANTS) -> list[Run]:
    """Plant the fault of a case, compare, and say how well it was found."""
    planted = plant(case)
    return [_run_variant(planted, variant) for variant in variants]


def _run_variant(planted: Planted, variant: Variant) -> Run:
    begun = time.perf_counter()
    comparison = compare(planted.reference, planted.side(variant))
    seconds = time.perf_counter() - begun
    return Run(score(planted, variant, answer_of(comparison)), seconds)


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
    work = partial(_run_task, variants=tuple(variants))
    finished = run_tasks(console, tasks, work, jobs, group=lambda task: task.architecture)
    return Results(
        runs=[made for found in finished.results if isinstance(found, list) for made in found],
        healthy=[found for found in finished.results if isinstance(found, HealthyOutcome)],
        broken=finished.broken,
        complete=finished.complete,
    )


def _run_task(task: Task, variants: tuple[Variant, ...]) -> list[Run] | HealthyOutcome:
    return run(task, variants) if isinstance(task, Case) else run_healthy(task)
