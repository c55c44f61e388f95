"""Projections of each index of an axis, to match the indices of one side to those of the other."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from firstdiff.diagnose.values.share import typical
from firstdiff.diagnose.values.sides import Sides
from firstdiff.rng import Rng

_COLUMNS = 4096
_KEPT = 8
_ROWS = 256


@dataclass(frozen=True, slots=True, eq=False)
class Lines:
    """The indices of one axis of both sides, each as one row of numbers.

    before: how far apart the rows are as they stand, at most the spread of the candidate's
    """

    axis: int
    ndim: int
    reference: np.ndarray
    candidate: np.ndarray
    before: float

    @staticmethod
    def along(sides: Sides, axis: int) -> Lines:
        """Sums of the elements of an index under fixed random weights: noise stays as small as it is in them."""
        reference, candidate = (_rows(side, axis) for side in (sides.reference, sides.candidate))
        if reference.shape[1] > _KEPT:
            weights = _weights(reference.shape[1])
            reference, candidate = reference @ weights, candidate @ weights
        return Lines(axis, sides.ndim, reference, candidate, _before(reference, candidate))

    def __len__(self) -> int:
        return int(self.reference.shape[0])

    def left_by(self, order: np.ndarray) -> float:
        """Return the fraction of the difference left if index i of the candidate is the reference's `order[i]`."""
        if not self.before:
            return 1.0
        rows = np.arange(len(self)) if len(self) <= _ROWS else np.arange(_ROWS) * len(self) // _ROWS
        return typical(self.candidate[rows] - self.reference[order[rows]]) / self.before

    def left_by_shift(self, lag: int) -> float:
        """Return the fraction of the difference left if index i of the candidate is the reference's i - lag."""
        reference, candidate = (
            (self.reference[:-lag], self.candidate[lag:])
            if lag > 0
            else (self.reference[-lag:], self.candidate[: len(self) + lag])
        )
        before = self.before
        return typical(candidate - reference) / before if before else 1.0


def _before(reference: np.ndarray, candidate: np.ndarray) -> float:
    apart, spread = typical(candidate - reference), typical(candidate - candidate.mean(axis=0))
    return min(apart, spread)


def _rows(values: np.ndarray, axis: int) -> np.ndarray:
    rows = np.moveaxis(values, axis, 0).reshape(values.shape[axis], -1)
    if rows.shape[1] > _COLUMNS:
        rows = rows[:, np.arange(_COLUMNS) * rows.shape[1] // _COLUMNS]
    return np.where(np.isfinite(rows), rows, 0.0)


@lru_cache(maxsize=32)
def _weights(columns: int) -> np.ndarray:
    weights: np.ndarray = Rng(columns).normal((columns, _KEPT)) / columns**0.5  # importing numpy.random takes 7 MB
    weights.setflags(write=False)
    return weights
