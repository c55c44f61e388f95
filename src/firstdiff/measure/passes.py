"""What an engine does with a window, and how a pass over a pair puts the windows together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

import numpy as np

from firstdiff.measure.accumulator import Accumulator
from firstdiff.measure.allowed import Allowed
from firstdiff.measure.plan import SMALL, PairPlan, stretches_of, window_length, windows_of
from firstdiff.measure.scattered import Side, layout_of
from firstdiff.measure.sketch import Sketch
from firstdiff.measure.threads import Progress, each_part
from firstdiff.trace import Source

Engine = Literal["auto", "numpy", "numba"]


class Gathering(Protocol):
    """The first pass over a stretch: its windows in turn, each given with the flat index it starts at."""

    def add(self, reference: Side, candidate: Side, start: int) -> None: ...

    def close(self) -> Accumulator: ...


@dataclass(frozen=True, slots=True)
class EngineCalls:
    """What it does: `gather` begins a stretch of a length for the first pass, `detail` does the second for a window.

    `gains_from_threads` is False where they would mostly wait for the interpreter's lock. `gathers` is True where it
    brings scattered values together itself, as it goes.
    """

    gather: Callable[[np.dtype, np.dtype, PairPlan, int], Gathering]
    detail: Callable[[np.ndarray, np.ndarray, PairPlan, Allowed], Details]
    gains_from_threads: bool
    gathers: bool


class Details(NamedTuple):
    """How many elements lie outside the tolerance, and the sketch of all elements if the plan is a full one."""

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
        size, window = self.reference.size, self._length()
        sides = [_in_memory(source, window, self.engine) for source in (self.reference, self.candidate)]
        # what is in memory need not be taken window by window
        longest = window if None in sides else size
        reference, candidate = (
            side.part if side else source.window
            for side, source in zip(sides, (self.reference, self.candidate), strict=True)
        )

        def work(start: int, stop: int) -> Accumulator:
            gathering = self.engine.gather(self.reference.dtype, self.candidate.dtype, plan, stop - start)
            for first in range(start, stop, longest):
                last = min(first + longest, stop)
                gathering.add(reference(first, last), candidate(first, last), first)
            return gathering.close()

        bounds = stretches_of(size, window, max(side.piece if side else 0 for side in sides))
        stretches = each_part(bounds, work, threads=self._threads(), progress=progress)
        gathered = stretches[0] if stretches else Accumulator()
        gathered.merge(*stretches[1:])
        return gathered

    def detail(self, plan: PairPlan, allowed: Allowed) -> Details:
        def work(start: int, stop: int) -> Details:
            return self.engine.detail(*self._windows(start, stop), plan, allowed)

        outside, sketch = 0, Sketch()
        windows = windows_of(self.reference.size, self._length())
        for found in each_part(windows, work, threads=self._threads()):
            outside += found.outside
            if found.sketch is not None:
                sketch.merge(found.sketch)
        return Details(outside, sketch if plan.full else None)

    def _windows(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        return self.reference.window(start, stop), self.candidate.window(start, stop)

    def _threads(self) -> int:
        return self.threads if self.engine.gains_from_threads else 1

    def _length(self) -> int:
        return window_length(self.reference.dtype, self.candidate.dtype)


class _InMemory(NamedTuple):
    """How an engine gets at any part of a source, and how many elements of it should be gathered at once."""

    part: Callable[[int, int], Side]
    piece: int


def _in_memory(source: Source, window: int, engine: EngineCalls) -> _InMemory | None:
    """None where it is not in memory, or had better be taken window by window all the same."""
    boxes = source.boxes() if engine.gathers else None
    if boxes is None or not source.size:
        return None
    in_place = boxes.in_place(0, source.size)
    if in_place is not None:
        return _InMemory(lambda start, stop: in_place[start:stop], 0) if in_place.dtype == source.dtype else None
    layout = layout_of(source, window)
    return _InMemory(layout.side, layout.piece) if layout else None


def compiled_ready(reference: np.dtype, candidate: np.dtype) -> bool:
    """Whether `numba` need not compile for tensors of these types: it did before, or leaves them to numpy."""
    from firstdiff.measure.engine_numba import is_ready, supports

    return not supports(reference, candidate) or is_ready(reference, candidate)


def engine_for(name: Engine, size: int) -> EngineCalls:
    """The engine of a name; small tensors always take the one that needs no compilation."""
    if name == "numba" and size > SMALL:
        from firstdiff.measure.engine_numba import NUMBA

        return NUMBA
    from firstdiff.measure.engine_numpy import NUMPY

    return NUMPY
