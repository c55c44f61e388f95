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
    """The octaves of `count` points; they are sorted into cells when these are asked for."""

    count: int = 0
    keys: list[np.ndarray] = field(default_factory=list)

    @classmethod
    def of(cls, sizes: np.ndarray, differences: np.ndarray) -> Cells:
        """From |r| and |c - r|."""
        size, difference = sizes.view(np.int64) >> OCTAVE_SHIFT, differences.view(np.int64) >> OCTAVE_SHIFT
        return cls.of_keys(((size << _WIDTH) | difference).astype(np.int32))

    @classmethod
    def of_keys(cls, keys: np.ndarray) -> Cells:
        """From both octaves of every point as one number; points that do not differ have none of |c - r|."""
        return cls(keys.size, [keys[keys & _DIFFERENCE != 0]])

    def merge(self, other: Cells) -> None:
        self.count += other.count
        self.keys += other.keys

    def listed(self) -> tuple[Cell, ...]:
        if not any(keys.size for keys in self.keys):
            return ()
        keys = np.concatenate(self.keys)
        size, difference = keys >> _WIDTH, keys & _DIFFERENCE
        smallest, least = int(size.min()), int(difference.min())
        width = int(difference.max()) - least + 1
        counts = np.bincount((size - smallest) * width + (difference - least))
        found = np.flatnonzero(counts)
        octaves = (found // width + smallest).tolist(), (found % width + least).tolist(), counts[found].tolist()
        return tuple(map(_cell, *octaves))


def _cell(size: int, difference: int, points: int) -> Cell:
    return Cell(size - _BIAS if size else None, difference - _BIAS, points)
