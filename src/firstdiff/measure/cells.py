"""A rough picture of where the points (|r|, |c - r|) lie: how many in each pair of octaves."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple, final

import numpy as np

OCTAVE_SHIFT = 52  # leaves a float64's exponent
_BIAS = 1023
_WIDTH = 11
_DIFFERENCE = (1 << _WIDTH) - 1


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
    """Taken from `count` points, those that do not differ among them."""

    count: int = 0
    points: dict[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, sizes: np.ndarray, differences: np.ndarray) -> Cells:
        """From |r| and |c - r|."""
        size, difference = sizes.view(np.int64) >> OCTAVE_SHIFT, differences.view(np.int64) >> OCTAVE_SHIFT
        return cls.of_keys((size << _WIDTH) | difference)

    @classmethod
    def of_keys(cls, keys: np.ndarray) -> Cells:
        """From both octaves of every point as one number; points that do not differ have none of |c - r|."""
        differing = keys[keys & _DIFFERENCE != 0]
        if not differing.size:
            return cls(keys.size)
        size, difference = differing >> _WIDTH, differing & _DIFFERENCE
        least, width = int(difference.min()), int(difference.max()) - int(difference.min()) + 1
        smallest = int(size.min())
        counts = np.bincount((size - smallest) * width + (difference - least))
        found = np.flatnonzero(counts)
        octaves = ((found // width + smallest) << _WIDTH) | (found % width + least)
        return cls(keys.size, dict(zip(octaves.tolist(), counts[found].tolist(), strict=True)))

    def merge(self, other: Cells) -> None:
        self.count += other.count
        for key, points in other.points.items():
            self.points[key] = self.points.get(key, 0) + points

    def listed(self) -> tuple[Cell, ...]:
        return tuple(_cell(key, points) for key, points in sorted(self.points.items()))


def _cell(key: int, points: int) -> Cell:
    size, difference = key >> _WIDTH, key & _DIFFERENCE
    return Cell(size - _BIAS if size else None, difference - _BIAS, points)
