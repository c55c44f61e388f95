"""Runs many cases, in several processes if asked, and shows how far it is."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from typing import TYPE_CHECKING

from firstdiff.testing.zoo.case import Case
from firstdiff.testing.zoo.healthy import HealthyOutcome, HealthyPair, run_healthy
from firstdiff.testing.zoo.planting import Variant
from firstdiff.testing.zoo.running import Run, run

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, slots=True)
class Broken:
    """A task that ended with an error."""

    task: str
    error: str


@dataclass(frozen=True, slots=True)
class Results:
    """What came of all tasks, in their order; not complete if Ctrl-C ended it early."""

    runs: list[Run]
    healthy: list[HealthyOutcome]
    broken: list[Broken]
    complete: bool


Task = Case | HealthyPair
Done = list[Run] | HealthyOutcome | Broken
_CHUNK = 4


def run_all(
    console: Console, cases: Sequence[Case], pairs: Sequence[HealthyPair], variants: Sequence[Variant], jobs: int
) -> Results:
    """Run cases and healthy pairs."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    tasks: list[Task] = [*cases, *pairs]
    done: dict[int, Done] = {}
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    complete = True
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("running", total=len(tasks))
        try:
            for place, description, found in _results(tasks, tuple(variants), jobs):
                done[place] = found
                progress.update(bar, advance=1, description=f"{description:44.44}")
        except KeyboardInterrupt:
            complete = False
    every = [done[place] for place in sorted(done)]
    return Results(
        runs=[made for found in every if isinstance(found, list) for made in found],
        healthy=[found for found in every if isinstance(found, HealthyOutcome)],
        broken=[found for found in every if isinstance(found, Broken)],
        complete=complete,
    )


def _results(tasks: list[Task], variants: tuple[Variant, ...], jobs: int) -> Iterator[tuple[int, str, Done]]:
    if jobs == 1:
        _start_worker(alone=True)
        for place, task in enumerate(tasks):
            yield place, str(task), _run(task, variants)
        return
    with _pool(jobs) as pool:
        # cases of one architecture go together, so that few processes capture its references
        order = sorted(range(len(tasks)), key=lambda place: (tasks[place].architecture, place))
        chunks = [order[at : at + _CHUNK] for at in range(0, len(order), _CHUNK)]
        waiting: dict[Future[list[Done]], list[int]] = {
            pool.submit(_run_many, [tasks[place] for place in chunk], variants): chunk for chunk in chunks
        }
        for future in as_completed(waiting):
            for place, found in zip(waiting[future], future.result(), strict=True):
                yield place, str(tasks[place]), found


@contextmanager
def _pool(jobs: int) -> Iterator[ProcessPoolExecutor]:
    pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_start_worker)
    try:
        yield pool
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _start_worker(alone: bool = False) -> None:
    import torch

    torch.set_num_threads(1)
    if not alone:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent answers it


def _run_many(tasks: list[Task], variants: tuple[Variant, ...]) -> list[Done]:
    return [_run(task, variants) for task in tasks]


def _run(task: Task, variants: tuple[Variant, ...]) -> Done:
    try:
        return run(task, variants) if isinstance(task, Case) else run_healthy(task)
    except Exception as error:  # one broken case must not cost the results of all others
        return Broken(str(task), f"{type(error).__name__}: {error}")
