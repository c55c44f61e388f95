"""A summary of a pair from which other tolerances can be judged later, without its data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

from firstdiff.measure.hull import Hull

OCTAVE_SHIFT = 52  # leaves a float64's exponent
_BIAS = 1023
WIDTH = 11
DIFFERENCE = (1 << WIDTH) - 1
_SIZES = (None, *range(1 - _BIAS, DIFFERENCE + 1 - _BIAS))


# size, difference, points: so many have |r| in [2^size, 2^(size+1)) and |c - r| in [2^difference, ...); size is None
# where r is 0
Cell = tuple[int | None, int, int]


@final
@dataclass(slots=True)
class Cells:
    """The keys of `count` points, each both its octaves as one number, and how many points have it.

    Points that do not differ have no octave of |c - r|, and are left out. The keys of each array rise.
    """

    count: int = 0
    keys: list[np.ndarray] = field(default_factory=list)
    points: list[np.ndarray] = field(default_factory=list)

    @classmethod
    def of(cls, sizes: np.ndarray, differences: np.ndarray) -> Cells:
        """From |r| and |c - r|."""
        if not differences.any():
            return cls(sizes.size)
        size, difference = sizes.view(np.int64) >> OCTAVE_SHIFT, differences.view(np.int64) >> OCTAVE_SHIFT
        keys, points = np.unique((size << WIDTH) | difference, return_counts=True)
        return cls.of_keys(sizes.size, keys, points)

    @classmethod
    def of_keys(cls, count: int, keys: np.ndarray, points: np.ndarray) -> Cells:
        """From keys that rise, those of points that do not differ among them."""
        differing = keys & DIFFERENCE != 0
        return cls(count, [keys[differing]], [points[differing]])

    def merge(self, other: Cells) -> None:
        self.count += other.count
        self.keys += other.keys
        self.points += other.points

    def listed(self) -> tuple[Cell, ...]:
        if not self.keys:
            return ()
        keys, points = self.keys[0], self.points[0]
        if len(self.keys) > 1:
            keys, places = np.unique(np.concatenate(self.keys), return_inverse=True)
            points = np.bincount(places, np.concatenate(self.points)).astype(np.int64)
        sizes = map(_SIZES.__getitem__, (keys >> WIDTH).tolist())
        differences = (keys & DIFFERENCE) - _BIAS
        return tuple(zip(sizes, differences.tolist(), points.tolist(), strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """The corners of the curve over all points (|r|, |c - r|), and a rough picture of where the points lie.

    elements: how many were finite on both sides; the envelope is about these
    max_abs, max_rel: the largest |c - r|, and the largest |c - r| / |r| where r is not 0
    at_zero: the largest |c - r| where r is 0
    corners: points of the data that decide every tolerance
    slack: no point lies over the curve by more than this share: 2^-40, or 2^-22 where the kernel took float32 or
        narrower, or more if the curve needed too many corners
    cells: how many sampled points with a difference lie in each pair of octaves of |r| and |c - r|
    sampled: how many points the cells were taken from
    """

    elements: int
    max_abs: float
    max_rel: float
    at_zero: float
    corners: tuple[tuple[float, float], ...]
    slack: float
    cells: tuple[Cell, ...]
    sampled: int

    @classmethod
    def of(cls, elements: int, max_abs: float, hull: Hull, cells: Cells) -> Envelope:
        return cls(
            elements=elements,
            max_abs=max_abs,
            max_rel=hull.steepest,
            at_zero=hull.at_zero,
            corners=tuple(hull.corners),
            slack=hull.slack,
            cells=cells.listed(),
            sampled=cells.count,
        )

    def admits(self, atol: float, rtol: float) -> bool | None:
        """True if `|c - r| <= atol + rtol * |r|` for all elements; None if only the data can tell.

        >>> Envelope.from_plain(stored).admits(1e-5, 1.3e-6)
        True
        """
        if self.max_abs <= atol:
            return True
        if self.at_zero > atol:
            return False if math.isfinite(self.at_zero) else None
        if any(d > atol + rtol * x for x, d in self.corners):
            return False
        inside = all(d * (1.0 + self.slack) <= atol + rtol * x for x, d in self.corners)
        return True if inside else None

    def required_atol(self) -> float:
        """The smallest atol that would do with rtol 0."""
        return self.max_abs

    def required_rtol(self) -> float | None:
        """The smallest rtol that would do with atol 0; None if none would, for some r is 0 and c is not."""
        return None if self.at_zero > 0.0 else self.max_rel

    def approximate_count(self, atol: float, rtol: float) -> int:
        """About how many elements lie outside; 0 and 1 or more are told apart exactly wherever `admits` can."""
        verdict = self.admits(atol, rtol)
        if verdict or not self.elements:
            return 0
        outside = math.fsum(
            points * _share_above(size, difference, atol, rtol) for size, difference, points in self.cells
        )
        estimate = round(outside * self.elements / max(self.sampled, 1))
        return min(max(estimate, 0 if verdict is None else 1), self.elements)

    def to_plain(self) -> dict[str, Any]:
        """As JSON's own types (numbers may be infinite)."""
        return {
            "elements": self.elements,
            "max_abs": self.max_abs,
            "max_rel": self.max_rel,
            "at_zero": self.at_zero,
            "corners": [list(corner) for corner in self.corners],
            "slack": self.slack,
            "cells": [list(cell) for cell in self.cells],
            "sampled": self.sampled,
        }

    @classmethod
    def from_plain(cls, data: Mapping[str, Any]) -> Envelope:
        """Build an envelope from the output of `to_plain`, or from its JSON with non-finite numbers as strings."""
        return cls(
            elements=data["elements"],
            max_abs=_number(data["max_abs"]),
            max_rel=_number(data["max_rel"]),
            at_zero=_number(data["at_zero"]),
            corners=tuple((_number(x), _number(d)) for x, d in data["corners"]),
            slack=data["slack"],
            cells=tuple((size, difference, points) for size, difference, points in data["cells"]),
            sampled=data["sampled"],
        )


def _share_above(size: int | None, difference: int, atol: float, rtol: float) -> float:
    """The share of a cell outside the tolerance, its points taken as evenly spread over the octave."""
    allowed = atol + (0.0 if size is None else rtol * 2.0 ** (size + 0.5))
    if allowed <= 0.0:
        return 1.0
    return min(max(difference + 1 - math.log2(allowed), 0.0), 1.0)


def _number(value: Any) -> Any:
    return float(value) if isinstance(value, str) else value
