"""A rough picture of where the points (|r|, |c - r|) lie: how many in each pair of octaves."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple, final

import numpy as np

OCTAVE_SHIFT = 52  # leaves a float64's exponent
_BIAS = 1023
WIDTH = 11
DIFFERENCE = (1 << WIDTH) - 1


class Cell(NamedTuple):
    """`points` of them with |r| in [2^size, 2^(size+1)) and |c - r| in [2^difference, …); size is None where r is 0."""

    size: int | None
    difference: int
    points: int

    def share_above(self, atol: float, rtol: float) -> float:
        """The share of the cell outside the tolerance, its points taken as evenly spread over the octave."""
        allowed = atol + (0.0 if self.size is None else rtol * 2.0 ** (self.size + 0.5))
        if allowed <= 0.0:
            return 1.0
        return min(max(self.difference + 1 - math.log2(allowed), 0.0), 1.0)


@final
@dataclass(slots=True)
class Cells:
    """The keys of `count` points, each both its octaves as one number, and how many points have it.

    Points that do not differ have no octave of |c - r|, and are left out. A key may be there several times.
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
        differing = keys & DIFFERENCE != 0
        return cls(sizes.size, [keys[differing]], [points[differing]])

    def merge(self, other: Cells) -> None:
        self.count += other.count
        self.keys += other.keys
        self.points += other.points

    def listed(self) -> tuple[Cell, ...]:
        if not self.keys:
            return ()
        keys, points = self.keys[0], self.points[0]
        if len(self.keys) > 1 or not (keys[1:] > keys[:-1]).all():
            keys, places = np.unique(np.concatenate(self.keys), return_inverse=True)
            points = np.bincount(places, np.concatenate(self.points)).astype(np.int64)
        return tuple(map(_cell, (keys >> WIDTH).tolist(), (keys & DIFFERENCE).tolist(), points.tolist()))


def _cell(size: int, difference: int, points: int) -> Cell:
    return Cell(size - _BIAS if size else None, difference - _BIAS, points)
