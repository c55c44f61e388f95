"""Compare two slices with dimensions mapped by hand: those shown of each side, and the indices of the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from firstdiff.align.recipe import lazy
from firstdiff.align.sampling import widened
from firstdiff.errors import UsageError
from firstdiff.trace import Source


@dataclass(frozen=True, slots=True)
class Slice:
    """The slice of one side.

    shown: dimensions to show, in the order to show them in
    fixed: the index at which each of the others is held; 0 if it is not named
    """

    shown: Sequence[int]
    fixed: Mapping[int, int]

    def of(self, source: Source, side: str) -> np.ndarray:
        """Return the values of the slice; UsageError if a dimension or index does not exist."""
        dimensions = len(source.shape)
        wrong = [axis for axis in (*self.shown, *self.fixed) if not 0 <= axis < dimensions]
        if wrong or len(set(self.shown)) < len(self.shown):
            raise UsageError(
                f"dimensions {list(self.shown)} cannot be shown of the {side}, which is {list(source.shape)}"
            )
        for axis, at in self.fixed.items():
            if not 0 <= at < source.shape[axis]:
                raise UsageError(f"dimension {axis} of the {side} has {source.shape[axis]} elements, none at {at}")
        index = tuple(slice(None) if axis in self.shown else self.fixed.get(axis, 0) for axis in range(dimensions))
        kept = sorted(self.shown)
        return lazy(source).read(index).transpose([kept.index(axis) for axis in self.shown])


@dataclass(frozen=True, slots=True)
class Mapped:
    """Both slices over their common extent, and how far apart they are (finite values only; None if there are none)."""

    reference: np.ndarray
    candidate: np.ndarray
    max_abs: float | None
    mean_abs: float | None
    correlation: float | None
    differing: int
    covers: bool


def map_slices(reference: Source, candidate: Source, of_reference: Slice, of_candidate: Slice) -> Mapped:
    """Values and differences of two slices chosen independently; they need not be of one size.

    of_reference, of_candidate: what is seen of each side; both show the same number of dimensions
    """
    one, other = of_reference.of(reference, "reference"), of_candidate.of(candidate, "candidate")
    if one.ndim != other.ndim:
        raise UsageError(f"{one.ndim} dimensions of the reference cannot be laid beside {other.ndim} of the candidate")
    common = tuple(slice(min(lengths)) for lengths in zip(one.shape, other.shape, strict=True))
    left, right = widened(one[common]), widened(other[common])
    finite = np.isfinite(left) & np.isfinite(right)
    apart = np.abs(left[finite] - right[finite])
    differing = np.count_nonzero((left != right) & ~(np.isnan(left) & np.isnan(right)))
    return Mapped(
        reference=one[common],
        candidate=other[common],
        max_abs=float(apart.max()) if apart.size else None,
        mean_abs=float(apart.mean()) if apart.size else None,
        correlation=_correlation(left[finite], right[finite]),
        differing=int(differing),
        covers=one.shape == other.shape,
    )


def _correlation(left: np.ndarray, right: np.ndarray) -> float | None:
    if left.size < 2:
        return None
    one, other = left - left.mean(), right - right.mean()
    norms = float(np.linalg.norm(one) * np.linalg.norm(other))
    return float(np.vdot(one, other).real / norms) if norms else None
