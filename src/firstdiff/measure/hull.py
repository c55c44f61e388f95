"""The few elements that decide every tolerance.

`d <= atol + rtol * x`, with `d = |c - r|` and `x = |r|`, holds for all elements if it holds for the corners of the
concave curve that lies over all points (x, d) and starts at the origin. Those corners are kept, the rest forgotten.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, final

import numpy as np

CAPACITY = 64
ROUNDING = 2.0**-40
FIRST_STEP = 2.0**-24
_TASTER = 2048
_SAMPLE = 512
_FEW = 16
_CHORDS = 4
_ROUNDED = 1.0 - 2.0**-22  # what rounding to float32 may take from a product of two

Point = tuple[float, float]
Exact = Callable[[Any], tuple[np.ndarray, np.ndarray]]


@final
@dataclass(slots=True)
class Hull:
    """`corners` are points of the data, rising in x and d; no point lies over the curve by more than `slack` of it.

    zeros: how many x are 0
    at_zero: the largest d where x is 0; infinite if some d is
    steepest: the largest d / x
    """

    zeros: int = 0
    at_zero: float = 0.0
    steepest: float = 0.0
    corners: list[Point] = field(default_factory=list)
    slack: float = ROUNDING
    _step: Point | None = None

    def add(self, sizes: np.ndarray, differences: np.ndarray, exact: Exact) -> None:
        """Take in points.

        sizes, differences: x and d, maybe rounded to float32
        exact: x and d in float64 of the points at some places
        """
        if not self.corners:
            self._extend(*exact(slice(0, _TASTER)))
            if sizes.size <= _TASTER:
                self._take_zeros(sizes == 0.0, sizes, differences)
                return
        x, d = self._step_for(sizes, differences)
        near = sizes < x
        self._take_zeros(near, sizes, differences)
        near |= differences > d * _ROUNDED
        if np.count_nonzero(near) > near.size // _FEW:
            near &= differences > self._floor(sizes)
        found = np.flatnonzero(near)
        floor = np.interp(sizes[found], *self.curve())
        self._extend(*exact(found[differences[found] > floor * _ROUNDED]))

    def merge(self, other: Hull) -> None:
        """Take in the points of another stretch."""
        self.zeros += other.zeros
        self.at_zero = max(self.at_zero, other.at_zero)
        self.steepest = max(self.steepest, other.steepest)
        self.slack = max(self.slack, other.slack)
        self._add_points(other.corners)

    def curve(self) -> np.ndarray:
        """Its x and its d, from the origin on."""
        return np.array([(0.0, 0.0), *self.corners]).T

    def _step_for(self, sizes: np.ndarray, differences: np.ndarray) -> Point:
        """The corner that leaves fewest points above it or to its left: every point over the curve is among them."""
        if not self.corners:
            return math.inf, math.inf
        if self._step is None:
            x, d = np.array(self.corners).T
            left = (sizes[:_SAMPLE] < x[:, None]) | (differences[:_SAMPLE] > d[:, None])
            self._step = self.corners[int(np.count_nonzero(left, axis=1).argmin())]
        return self._step

    def _floor(self, sizes: np.ndarray) -> np.ndarray:
        """A little under the curve: a few chords of it, and its top."""
        points = [(0.0, 0.0), *self.corners]
        chosen = sorted({round(i * (len(points) - 1) / _CHORDS) for i in range(_CHORDS + 1)})
        floor = np.full_like(sizes, points[-1][1] * _ROUNDED)
        for left, right in pairwise(chosen):
            slope = _slope(points[left], points[right])
            line = sizes * (slope * _ROUNDED)
            line += (points[left][1] - slope * points[left][0]) * _ROUNDED
            np.minimum(floor, line, out=floor)
        return floor

    def _take_zeros(self, near: np.ndarray, sizes: np.ndarray, differences: np.ndarray) -> None:
        """Take in the points with x = 0, and take them out of those near it."""
        if np.count_nonzero(near) > near.size // _FEW:
            zero = sizes == 0.0
            near ^= zero
            largest = (differences * zero).max()
        else:
            close = np.flatnonzero(near)
            zero = close[sizes[close] == 0.0]
            near[zero] = False
            largest = differences[zero].max(initial=0.0)
            zero = zero >= 0
        self.zeros += int(np.count_nonzero(zero))
        self.at_zero = max(self.at_zero, float(largest))

    def _extend(self, sizes: np.ndarray, differences: np.ndarray) -> None:
        """Take in points given exactly."""
        kept = sizes > 0.0
        if differences.size and math.isinf(differences.max()):
            self.at_zero = math.inf
            kept &= np.isfinite(differences)
        sizes, differences = sizes[kept], differences[kept]
        if not sizes.size:
            return
        self.steepest = max(self.steepest, float((differences / sizes).max()))
        if self.corners:
            over = differences > np.interp(sizes, *self.curve()) * (1.0 + self.slack)
            sizes, differences = sizes[over], differences[over]
        self._add_points(_records(sizes, differences))

    def _add_points(self, points: list[Point]) -> None:
        if points:
            self.corners = _corners(sorted([*self.corners, *points]))
            self._thin()
            self._step = None

    def _thin(self) -> None:
        """Past the capacity, drop the corners that matter least, and say by how much that lowered the curve."""
        step = max(FIRST_STEP, self.slack / 8.0)
        while len(self.corners) > CAPACITY:
            kept = _thinned(self.corners, step)
            if len(kept) < len(self.corners):
                self.slack = (1.0 + self.slack) * (1.0 + step) - 1.0
                self.corners = kept
            step *= 2.0


def _records(sizes: np.ndarray, differences: np.ndarray) -> list[Point]:
    """The points that no point to their left overtops: only these can be corners."""
    if not sizes.size:
        return []
    order = np.argsort(sizes)
    sizes, differences = sizes[order], differences[order]
    highest = np.maximum.accumulate(differences)
    record = highest > 0.0
    record[1:] &= highest[1:] > highest[:-1]
    return list(zip(sizes[record].tolist(), differences[record].tolist(), strict=True))


def _corners(points: list[Point]) -> list[Point]:
    """The corners of the concave curve over points sorted by x (then d), the origin left out."""
    chain: list[Point] = [(0.0, 0.0)]
    for point in points:
        if point[1] <= chain[-1][1]:
            continue
        if point[0] == chain[-1][0]:
            chain.pop()
        while len(chain) > 1 and _slope(chain[-1], point) >= _slope(chain[-2], chain[-1]):
            chain.pop()
        chain.append(point)
    return chain[1:]


def _slope(left: Point, right: Point) -> float:
    rise, run = right[1] - left[1], right[0] - left[0]
    return rise / run if run else math.inf


def _thinned(corners: list[Point], step: float) -> list[Point]:
    """Without the inner corners that the chord over them misses by no more than `step`; never two in a row."""
    kept = [corners[0]]
    dropped = False
    for left, here, right in zip(corners, corners[1:], corners[2:], strict=False):
        chord = left[1] + _slope(left, right) * (here[0] - left[0])
        dropped = not dropped and here[1] <= chord * (1.0 + step)
        if not dropped:
            kept.append(here)
    kept.append(corners[-1])
    return kept
