"""Run passes over a pair: distribute ranges of elements to threads, and merge the engine's results."""

from __future__ import annotations

import _thread
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple, Protocol, TypeVar

import numpy as np

from firstdiff.measure.accumulator import Accumulator
from firstdiff.measure.plan import Allowed, PairPlan, stretches_of, windows_of
from firstdiff.measure.sketch import Sketch
from firstdiff.trace import Source

T = TypeVar("T")

Bounds = tuple[int, int]
Progress = Callable[[int], None]


def each_part(
    parts: list[Bounds], work: Callable[[int, int], T], *, threads: int = 1, progress: Progress | None = None
) -> list[T]:
    """`work(start, stop)` of every part; `progress` hears how many elements of the tensor are done.

    The calling thread works as well: others take a while to begin, and this one hears of Ctrl-C.
    """
    if len(parts) == 1:
        only = work(*parts[0])
        if progress is not None:
            progress(parts[0][1])
        return [only]
    done: dict[int, T] = {}
    drain_queue = partial(_drain_queue, deque(enumerate(parts)), work, done)
    helpers = min(threads, len(parts)) - 1
    if helpers > 0:
        with _helper_threads(drain_queue, helpers):
            drain_queue(progress)
        if progress is not None:
            progress(parts[-1][1])
    else:
        drain_queue(progress)
    return [done[at] for at in range(len(parts))]


def _drain_queue(
    waiting: deque[tuple[int, Bounds]],
    work: Callable[[int, int], T],
    done: dict[int, T],
    progress: Progress | None = None,
) -> None:
    try:
        while (turn := _next_of(waiting)) is not None:
            at, (start, stop) = turn
            done[at] = work(start, stop)
            if progress is not None:
                progress(stop)
    except BaseException:
        waiting.clear()  # the others need not go on
        raise


def _next_of(waiting: deque[T]) -> T | None:
    try:
        return waiting.popleft()
    except IndexError:
        return None


@contextmanager
def _helper_threads(work: Callable[[], None], helpers: int) -> Iterator[None]:
    """Threads that do the same meanwhile; at the end they are waited for, and what one of them raised is raised."""
    errors: list[BaseException] = []
    ends: list[_thread.LockType] = []

    def help_out(end: _thread.LockType) -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)
        finally:
            end.release()

    try:
        for _ in range(helpers):
            end = _thread.allocate_lock()
            end.acquire()
            _thread.start_new_thread(help_out, (end,))  # a pool, or a Thread, would wait until it has begun
            ends.append(end)
        yield
    finally:
        for end in ends:
            end.acquire()
    if errors:
        raise errors[0]


Engine = Literal["auto", "numpy"]


class Gathering(Protocol):
    """The first pass over a stretch: its windows in turn, each given with the flat index it starts at."""

    def add(self, reference: np.ndarray, candidate: np.ndarray, start: int) -> None: ...

    def close(self) -> Accumulator: ...


@dataclass(frozen=True, slots=True)
class EngineCalls:
    """The functions of an engine: `gather` prepares the first pass over some ranges, and returns a function that starts
    each of them; `detail` does the second pass for a window.

    `gains_from_threads` is False where they would mostly wait for the interpreter's lock.
    """

    gather: Callable[[PairPlan, list[Bounds]], Callable[[int, int], Gathering]]
    detail: Callable[[np.ndarray, np.ndarray, PairPlan, Allowed], Details]
    gains_from_threads: bool


class Details(NamedTuple):
    """The number of elements outside the tolerance, and the sketch of all elements if the plan is a full one."""

    outside: int
    sketch: Sketch | None


@dataclass(frozen=True, slots=True)
class Passes:
    """The passes over one pair."""

    reference: Source
    candidate: Source
    engine: EngineCalls
    threads: int

    def measure(self, plan: PairPlan, progress: Progress | None = None) -> Accumulator:
        """The first pass: everything that does not hang on a tolerance."""
        size, window = self.reference.size, plan.window
        # what lies in memory need not be taken window by window
        several = size > window
        reference = _values(self.reference) if several else None
        candidate = _values(self.candidate) if several else None
        longest = size if reference is not None and candidate is not None else window

        stretches = stretches_of(size, window, plan.step)
        if not stretches:
            return Accumulator()
        begin = self.engine.gather(plan, stretches)

        def work(start: int, stop: int) -> Accumulator:
            gathering = begin(start, stop)
            for first in range(start, stop, longest):
                last = min(first + longest, stop)
                gathering.add(
                    self.reference.window(first, last) if reference is None else reference[first:last],
                    self.candidate.window(first, last) if candidate is None else candidate[first:last],
                    first,
                )
            return gathering.close()

        gathered, *others = each_part(stretches, work, threads=self._threads(), progress=progress)
        if others:
            gathered.merge(*others)
        return gathered

    def detail(self, plan: PairPlan, allowed: Allowed) -> Details:
        """The second pass: what lies outside a tolerance."""

        def work(start: int, stop: int) -> Details:
            return self.engine.detail(
                self.reference.window(start, stop), self.candidate.window(start, stop), plan, allowed
            )

        outside, sketch = 0, Sketch()
        for found in each_part(windows_of(self.reference.size, plan.window), work, threads=self._threads()):
            outside += found.outside
            if found.sketch is not None:
                sketch.merge(found.sketch)
        return Details(outside, sketch if plan.full else None)

    def _threads(self) -> int:
        return self.threads if self.engine.gains_from_threads else 1


def _values(source: Source) -> np.ndarray | None:
    """All values in C order, where they lie so in memory; None where they do not."""
    boxes = source.boxes()
    if boxes is None or not source.size:
        return None
    found = boxes.in_place(0, source.size)
    return found if found is not None and found.dtype == source.dtype else None


def engine_for(name: Engine, plan: PairPlan) -> EngineCalls:
    """The compiled kernel wherever it takes the types of a pair, unless numpy is asked for."""
    if name == "auto":
        from firstdiff.measure.engine_c import COMPILED, supports

        if supports(plan):
            return COMPILED
    from firstdiff.measure.engine_numpy import NUMPY

    return NUMPY
