"""The concave hull of (|r|, |c - r|), whose few corners decide every tolerance.

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

from firstdiff.measure.numerics import scratch

CAPACITY = 64
ROUNDING = 2.0**-40
FIRST_STEP = 2.0**-24
_TASTER = 2048
_SAMPLE = 512
_MANY = 1024
_CHORDS = 4
_TINY = {np.dtype(kind): float(np.finfo(kind).tiny) for kind in (np.float32, np.float64)}
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

    def add(self, values: np.ndarray, differences: np.ndarray, top: float, exact: Exact) -> None:
        """Take in points.

        values: x or -x, maybe rounded to float32
        differences: d, maybe rounded to float32; top: the largest of them
        exact: x and d in float64 of the points at some places
        """
        if values.size <= _TASTER:
            self.zeros += values.size - int(np.count_nonzero(values))
            self._extend(*exact(slice(None)))
            return
        if not self.corners:
            self._extend(*exact(slice(None, None, -(-values.size // _TASTER))))
        found = self._near(values, differences, top)
        if found.size > _MANY:
            self._step = None  # the curve has grown since, or the data are of another kind now
            over = differences[found] > self._floor(np.abs(values[found], dtype=np.float64))
            found = found[over]
        if found.size:
            self._extend(*exact(found))

    def merge(self, *others: Hull) -> None:
        """Take in the points of other stretches."""
        for other in others:
            self.zeros += other.zeros
            self.at_zero = max(self.at_zero, other.at_zero)
            self.steepest = max(self.steepest, other.steepest)
            self.slack = max(self.slack, other.slack)
        points = [point for other in others for point in other.corners]
        self._add_points(_records(*np.array(points).T) if points else points)

    def curve(self) -> np.ndarray:
        """Its x and its d, from the origin on."""
        return np.array([(0.0, 0.0), *self.corners]).T

    def _near(self, values: np.ndarray, differences: np.ndarray, top: float) -> np.ndarray:
        """Places of the points over the ray to one corner, or over its height: whatever is over the curve is there."""
        kind, size = values.dtype.type, values.size
        near, other = (scratch(name, np.bool_, size) for name in ("near", "other"))
        slope, height = self._step_for(values, differences)
        rays = np.multiply(values, kind(slope), out=scratch("rays", kind, size))
        np.abs(rays, out=rays)
        if rays.min() >= _TINY[values.dtype]:
            np.greater(differences, rays, out=near)
        else:
            self.zeros += int(np.count_nonzero(np.equal(values, 0.0, out=near)))
            np.greater_equal(differences, rays, out=near)  # rounding may have lifted so small a product to d itself
            near &= np.greater(differences, 0.0, out=other)
        if top > height:
            near |= np.greater(differences, kind(height), out=other)
        places: np.ndarray = near.nonzero()[0]
        return places

    def _step_for(self, values: np.ndarray, differences: np.ndarray) -> Point:
        """A little less than slope and height of the corner that leaves fewest points over its ray or its height."""
        if self._step is not None:
            return self._step
        x, d = np.array(self.corners).reshape(-1, 2).T
        slopes, heights = d / x * _ROUNDED, d * _ROUNDED
        limits = np.finfo(values.dtype)
        usable = (slopes >= limits.tiny) & (slopes <= limits.max)
        if not usable.any():
            return 0.0, math.inf
        slopes, heights = slopes[usable], heights[usable]
        few = slice(None, None, -(-values.size // _SAMPLE))
        over = differences[few] > np.minimum(np.abs(values[few]) * slopes[:, None], heights[:, None])
        best = int(np.count_nonzero(over, axis=1).argmin())
        self._step = float(slopes[best]), float(heights[best])
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

    def _extend(self, sizes: np.ndarray, differences: np.ndarray) -> None:
        """Take in points given exactly."""
        if not sizes.size:
            return
        if sizes.min() == 0.0:
            self.at_zero = max(self.at_zero, float(differences[sizes == 0.0].max()))
            sizes, differences = _kept(sizes > 0.0, sizes, differences)
        if differences.size and math.isinf(differences.max()):
            self.at_zero = math.inf
            sizes, differences = _kept(differences < math.inf, sizes, differences)
        if not sizes.size:
            return
        self.steepest = max(self.steepest, float((differences / sizes).max()))
        if self.corners:
            over = differences > np.interp(sizes, *self.curve()) * (1.0 + self.slack)
            sizes, differences = _kept(over, sizes, differences)
        self._add_points(_records(sizes, differences))

    def _add_points(self, points: list[Point]) -> None:
        if points:
            self.corners = _corners(sorted([*self.corners, *points]))
            self._thin()

    def _thin(self) -> None:
        """Past the capacity, drop the corners that matter least, and say by how much that lowered the curve."""
        step = max(FIRST_STEP, self.slack / 8.0)
        while len(self.corners) > CAPACITY:
            kept = _thinned(self.corners, step)
            if len(kept) < len(self.corners):
                self.slack = (1.0 + self.slack) * (1.0 + step) - 1.0
                self.corners = kept
            step *= 2.0


def _kept(wanted: np.ndarray, sizes: np.ndarray, differences: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return sizes[wanted], differences[wanted]


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
