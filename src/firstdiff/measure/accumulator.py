"""Accumulate sums, extremes and counts over ranges of a pair, and merge them in the order of the data."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple, final

import numpy as np

from firstdiff.measure.envelope import Cells
from firstdiff.measure.hull import Hull
from firstdiff.measure.numerics import dot, dots, scratch, total
from firstdiff.measure.sketch import Sketch
from firstdiff.measure.sums import RowPart
from firstdiff.schema import Statistics

# where the spread is a smaller share of the squares, it is worked out again around the mean
_CANCELLED = 1e-4
_DOWN = 2.0**-64


@final
@dataclass(slots=True)
class Moments:
    """`spread` is the sum of squared deviations from the mean; `low` and `high` are ints for whole numbers.

    whole: every value is a whole number
    """

    count: int = 0
    mean: float = 0.0
    spread: float = 0.0
    low: float = math.inf
    high: float = -math.inf
    nan: int = 0
    inf: int = 0
    whole: bool = True

    def add(self, values: np.ndarray, squares: float, bounds: tuple[float, float]) -> None:
        """Take in finite float64 values, the sum of whose squares and whose bounds are known."""
        mean, spread = _mean_and_spread(values, total(values), squares)
        self.whole = self.whole and bool((values == np.rint(values)).all())
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
        self.whole = self.whole and other.whole

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
    if spread > squares * _CANCELLED or squares == 0.0:
        return mean, spread
    return _around(values, mean)


def _around(values: np.ndarray, mean: float) -> tuple[float, float]:
    """Mean and spread from the deviations from a first guess at the mean."""
    deviations = np.subtract(values, mean, out=scratch("deviations", np.float64, values.size))
    rest = total(deviations)
    spread = dot(deviations, deviations) - rest * rest / values.size
    if math.isnan(spread):
        return mean, math.inf
    return mean + rest / values.size, max(spread, 0.0)


FAR = 0.01  # of |r|^2: beyond this the difference says less about the candidate than the candidate itself


class Rest(NamedTuple):
    """`along` is <r, c>, to the digits that `squares` takes: the least that |c - slope * r|^2 can be."""

    along: float
    squares: float


def rest_of(r: np.ndarray, c: np.ndarray, d: np.ndarray, rr: float, rd: float, dd: float) -> Rest:
    """The rest of a block, given |r|^2, <r, d> and |d|^2 of its difference d."""
    if dd < rr * FAR:
        along, squares = _left(r, d, rr, rd, dd)
        return Rest(rr + along, squares)
    return Rest(*_left(r, c, rr, *dots((r, c), (c, c))))


def _left(r: np.ndarray, y: np.ndarray, rr: float, ry: float, yy: float) -> tuple[float, float]:
    """<r, y>, and the least of |y - slope * r|^2, for y = c or c - r."""
    if rr == 0.0 or yy == 0.0:
        return ry, yy
    squares = yy - ry * (ry / rr)
    if not squares <= yy * _CANCELLED:
        return ry, squares
    slope = ry / rr
    e = np.multiply(r, -slope, out=scratch("rest", np.float64, r.size))
    e += y
    along, ee = dots((r, e), (e, e))
    return slope * rr + along, max(ee - along * (along / rr), 0.0)


def turned_apart(rr: float, rc: float, other_rr: float, other_rc: float) -> float:
    """Return the residual sum of squares that one common slope adds over a slope for each of two ranges."""
    if not rr or not other_rr:
        return 0.0
    step = rc / rr - other_rc / other_rr
    return step * step * rr * (other_rr / (rr + other_rr))


@final
@dataclass(slots=True)
class NonFinite:
    """Positions where either side is NaN or infinite.

    both_nan: NaN on both sides
    equal_inf: the same infinity on both sides
    conflicting: everything else: NaN or an infinity against a number, +inf against -inf, NaN against an infinity
    first: flat index of the first conflicting position, -1 if there is none
    first_both_nan: flat index of the first position with NaN on both sides, -1 if there is none
    """

    both_nan: int = 0
    equal_inf: int = 0
    conflicting: int = 0
    first: int = -1
    first_both_nan: int = -1

    def merge(self, other: NonFinite) -> None:
        self.both_nan += other.both_nan
        self.equal_inf += other.equal_inf
        self.conflicting += other.conflicting
        self.first = _earlier(self.first, other.first)
        self.first_both_nan = _earlier(self.first_both_nan, other.first_both_nan)


def _earlier(left: int, right: int) -> int:
    return max(left, right) if min(left, right) < 0 else min(left, right)


@final
@dataclass(slots=True)
class Accumulator:
    """Sums and extremes over the elements that are finite on both sides; each side's moments over its own.

    r, d: sums of the reference and of the difference
    rr, cc, dd, rc, rd: inner products of reference, candidate and their difference
    rest: what is left of the squared difference without its part along the reference
    max_abs: -1 until an element was seen; argmax is its flat index
    at_max: reference and candidate there, where the engine tells them
    sketch: of everything, or of a fixed sample; cells: of the sample
    rows: sums of rows and channels, a part for every stretch
    """

    reference: Moments = field(default_factory=Moments)
    candidate: Moments = field(default_factory=Moments)
    elements: int = 0
    finite: int = 0
    sum_abs: float = 0.0
    r: float = 0.0
    d: float = 0.0
    rd: float = 0.0
    rr: float = 0.0
    cc: float = 0.0
    dd: float = 0.0
    rc: float = 0.0
    rest: float = 0.0
    max_abs: float = -1.0
    argmax: int = -1
    at_max: tuple[float, float] | None = None
    nonfinite: NonFinite = field(default_factory=NonFinite)
    hull: Hull = field(default_factory=Hull)
    sketch: Sketch = field(default_factory=Sketch)
    cells: Cells = field(default_factory=Cells)
    rows: list[RowPart] = field(default_factory=list)

    def peak(self, value: float, index: int, at_max: tuple[float, float] | None = None) -> None:
        """The maximum of another stretch; of two that are equal the first in the data counts."""
        if value > self.max_abs or (value == self.max_abs and index < self.argmax):
            self.max_abs, self.argmax, self.at_max = value, index, at_max

    def add_products(self, rr: float, cc: float, dd: float, rc: float, rest: float) -> None:
        """The inner products of another stretch."""
        self.rest += rest + turned_apart(self.rr, self.rc, rr, rc)
        self.rr += rr
        self.cc += cc
        self.dd += dd
        self.rc += rc

    def merge(self, *others: Accumulator) -> None:
        """Take in other stretches, in the order of the data."""
        for other in others:
            self.reference.merge(other.reference)
            self.candidate.merge(other.candidate)
            self.elements += other.elements
            self.finite += other.finite
            self.sum_abs += other.sum_abs
            self.r += other.r
            self.d += other.d
            self.rd += other.rd
            self.rows += other.rows
            self.add_products(other.rr, other.cc, other.dd, other.rc, other.rest)
            self.peak(other.max_abs, other.argmax, other.at_max)
            self.nonfinite.merge(other.nonfinite)
            self.sketch.merge(other.sketch)
            self.cells.merge(other.cells)
        self.hull.merge(*(other.hull for other in others))


def add_side(moments: Moments, raw: np.ndarray, numbers: np.ndarray, finite: np.ndarray) -> None:
    """Take in the finite elements of one side, and count the others."""
    nan = int(np.count_nonzero(np.isnan(numbers)))
    moments.nan += nan
    moments.inf += finite.size - int(np.count_nonzero(finite)) - nan
    if finite.any():
        kept = numbers[finite]
        values = np.abs(kept) if kept.dtype.kind == "c" else kept
        moments.add(values, dot(values, values), bounds_of(raw[finite], values))


def add_places(found: NonFinite, r: np.ndarray, c: np.ndarray, places: np.ndarray) -> None:
    """Take in elements that are not finite on both sides; `places` are their flat indices."""
    nan_r, nan_c = np.isnan(r), np.isnan(c)
    both_nan = nan_r & nan_c
    equal = ~nan_r & ~nan_c & (r == c)
    conflicting = ~both_nan & ~equal
    found.both_nan += int(np.count_nonzero(both_nan))
    found.equal_inf += int(np.count_nonzero(equal))
    found.conflicting += int(np.count_nonzero(conflicting))
    found.first = _first(found.first, conflicting, places)
    found.first_both_nan = _first(found.first_both_nan, both_nan, places)


def _first(known: int, wanted: np.ndarray, places: np.ndarray) -> int:
    return int(places[wanted.argmax()]) if known < 0 and wanted.any() else known
