"""What an engine does with a window, and how a pass over a pair puts the windows together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from firstdiff.measure.accumulator import Accumulator
from firstdiff.measure.allowed import Allowed
from firstdiff.measure.plan import SMALL, PairPlan, window_length
from firstdiff.measure.threads import Progress, each_window
from firstdiff.trace import Source

Engine = Literal["numpy", "numba"]


@dataclass(frozen=True, slots=True)
class EngineCalls:
    """`measure` takes a window of each side and the flat index it starts at, `count` tells what lies outside."""

    measure: Callable[[np.ndarray, np.ndarray, int, PairPlan], Accumulator]
    count: Callable[[np.ndarray, np.ndarray, PairPlan, Allowed], int]


@dataclass(frozen=True, slots=True)
class Passes:
    """The passes over one pair."""

    reference: Source
    candidate: Source
    engine: EngineCalls
    threads: int

    def measure(self, plan: PairPlan, progress: Progress | None = None) -> Accumulator:
        def work(start: int, stop: int) -> Accumulator:
            return self.engine.measure(*self._windows(start, stop), start, plan)

        windows = each_window(self.reference.size, self._length(), work, threads=self.threads, progress=progress)
        gathered = next(windows, None) or Accumulator()
        for window in windows:
            gathered.merge(window)
        return gathered

    def count(self, plan: PairPlan, allowed: Allowed) -> int:
        def work(start: int, stop: int) -> int:
            return self.engine.count(*self._windows(start, stop), plan, allowed)

        return sum(each_window(self.reference.size, self._length(), work, threads=self.threads))

    def _windows(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        return self.reference.window(start, stop), self.candidate.window(start, stop)

    def _length(self) -> int:
        return window_length(self.reference.dtype, self.candidate.dtype)


def engine_for(name: Engine, size: int) -> EngineCalls:
    """The engine of a name; small tensors always take the one that needs no compilation."""
    if name == "numba" and size > SMALL:
        from firstdiff.measure.engine_numba import NUMBA

        return NUMBA
    from firstdiff.measure.engine_numpy import NUMPY

    return NUMPY
