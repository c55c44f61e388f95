"""Mean, spread and range of one side, gathered stretch by stretch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from firstdiff.measure.dot import dot, total
from firstdiff.measure.scratch import scratch
from firstdiff.schema import Statistics

# where the spread is a smaller share of the squares, it is worked out again around the mean
_CANCELLED = {np.dtype(np.float32): 0.25, np.dtype(np.float64): 1e-4}
_DOWN = 2.0**-64


@final
@dataclass(slots=True)
class Moments:
    """`spread` is the sum of squared deviations from the mean; `low` and `high` are ints for whole numbers."""

    count: int = 0
    mean: float = 0.0
    spread: float = 0.0
    low: float = math.inf
    high: float = -math.inf
    nan: int = 0
    inf: int = 0

    def add(self, values: np.ndarray, squares: float, bounds: tuple[float, float]) -> None:
        """Take in finite float32 or float64 values, the sum of whose squares and whose bounds are known."""
        self.add_summed(values, total(values), squares, bounds)

    def add_summed(self, values: np.ndarray, summed: float, squares: float, bounds: tuple[float, float]) -> None:
        """As `add`, where the sum is known as well."""
        mean, spread = _mean_and_spread(values, summed, squares)
        self.join(mean, spread, values.size, *bounds)

    def join(self, mean: float, spread: float, count: int, low: float, high: float) -> None:
        """Two groups as one (Chan, Golub and LeVeque)."""
        both = self.count + count
        share = count / both
        step = mean - self.mean
        if math.isfinite(step):
            self.mean += step * share
        else:
            self.mean = self.mean * (1.0 - share) + mean * share
        self.spread += spread + (step * step * self.count * share if self.count else 0.0)
        self.count = both
        self.low = min(self.low, low)
        self.high = max(self.high, high)

    def merge(self, other: Moments) -> None:
        """Take in what follows."""
        if other.count:
            self.join(other.mean, other.spread, other.count, other.low, other.high)
        self.nan += other.nan
        self.inf += other.inf

    @property
    def variance(self) -> float:
        if self.low == self.high:
            return 0.0  # where the mean may be rounded, and every value differ from it a little
        return self.spread / self.count if self.count else math.nan

    def statistics(self) -> Statistics:
        if not self.count:
            return Statistics(None, None, None, None, self.nan, self.inf)
        low, high = self.low + 0, self.high + 0  # adding 0 turns -0.0 into 0.0
        return Statistics(self.mean, math.sqrt(self.variance), low, high, self.nan, self.inf)


def bounds_of(raw: np.ndarray, values: np.ndarray) -> tuple[float, float]:
    """Least and greatest: of the raw elements where these are whole numbers, else of their values."""
    if raw.dtype.kind in "iub":
        return int(raw.min()), int(raw.max())
    return float(values.min()), float(values.max())


def _mean_and_spread(values: np.ndarray, summed: float, squares: float) -> tuple[float, float]:
    if not math.isfinite(summed):
        return _around(values, total(values * _DOWN) / values.size / _DOWN)
    mean = summed / values.size
    spread = squares - summed * mean
    if spread > squares * _CANCELLED[values.dtype] or squares == 0.0:
        return mean, spread
    return _around(values, mean)


def _around(values: np.ndarray, mean: float) -> tuple[float, float]:
    """Mean and spread from the deviations from a first guess at the mean."""
    guess = values.dtype.type(mean)
    deviations = np.subtract(values, guess, out=scratch("deviations", values.dtype.type, values.size))
    rest = total(deviations)
    spread = dot(deviations, deviations) - rest * rest / values.size
    if math.isnan(spread):
        return mean, math.inf
    return float(guess) + rest / values.size, max(spread, 0.0)
