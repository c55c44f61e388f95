"""Run many tasks, in several processes on request, with a progress display."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from rich.console import Console

Task = TypeVar("Task")
Result = TypeVar("Result")
_CHUNK = 4


@dataclass(frozen=True, slots=True)
class Broken:
    """A task that ended with an error."""

    task: str
    error: str


@dataclass(frozen=True, slots=True)
class Finished(Generic[Result]):
    """The results of all tasks, in their order; not complete if Ctrl-C ended it early."""

    results: list[Result]
    broken: list[Broken]
    complete: bool


def run_tasks(
    console: Console,
    tasks: Sequence[Task],
    work: Callable[[Task], Result],
    jobs: int,
    group: Callable[[Task], str],
) -> Finished[Result]:
    """Run tasks and show a bar.

    work: what to do with each; for several processes a function of a module, or a partial of one
    group: tasks of one group go to the same process where possible, so that few processes prepare the same things
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    done: dict[int, Result | Broken] = {}
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    complete = True
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("running", total=len(tasks))
        try:
            for index, found in _results(tasks, work, jobs, group):
                done[index] = found
                progress.update(bar, advance=1, description=f"{tasks[index]!s:44.44}")
        except KeyboardInterrupt:
            complete = False
    every = [done[index] for index in sorted(done)]
    return Finished(
        results=[found for found in every if not isinstance(found, Broken)],
        broken=[found for found in every if isinstance(found, Broken)],
        complete=complete,
    )


def _results(
    tasks: Sequence[Task], work: Callable[[Task], Result], jobs: int, group: Callable[[Task], str]
) -> Iterator[tuple[int, Result | Broken]]:
    if jobs == 1:
        _start_worker(alone=True)
        for index, task in enumerate(tasks):
            yield index, _guarded(work, task)
        return
    with _pool(jobs) as pool:
        order = sorted(range(len(tasks)), key=lambda index: (group(tasks[index]), index))
        chunks = [order[start : start + _CHUNK] for start in range(0, len(order), _CHUNK)]
        waiting: dict[Future[list[Result | Broken]], list[int]] = {
            pool.submit(_run_many, work, [tasks[index] for index in chunk]): chunk for chunk in chunks
        }
        for future in as_completed(waiting):
            yield from zip(waiting[future], future.result(), strict=True)


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


def _run_many(work: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result | Broken]:
    return [_guarded(work, task) for task in tasks]


def _guarded(work: Callable[[Task], Result], task: Task) -> Result | Broken:
    try:
        return work(task)
    except Exception as error:  # one broken task must not cost the results of all others
        return Broken(str(task), f"{type(error).__name__}: {error}")
