"""Convert values to numbers to show, and subtract them."""

from __future__ import annotations

import numpy as np

from firstdiff.measure.numerics import to_numbers


def real(values: np.ndarray) -> np.ndarray:
    """As float64; complex values by their magnitude."""
    numbers = to_numbers(values)
    return np.abs(numbers) if numbers.dtype.kind == "c" else numbers


@np.errstate(invalid="ignore")
def difference(reference: np.ndarray, candidate: np.ndarray) -> np.ndarray:
    """Candidate - reference; 0 where both are NaN or the same infinity, the magnitude where they are complex.

    Whole numbers of 64 bits are subtracted as such: float64 would lose what they differ by.
    """
    if _needs_whole_numbers(reference, candidate):
        return np.asarray((candidate.astype(object) - reference.astype(object)).astype(np.float64))
    ref, cand = to_numbers(reference), to_numbers(candidate)
    apart = np.subtract(cand, ref)
    apart = np.abs(apart) if apart.dtype.kind == "c" else apart
    same = (ref == cand) | (np.isnan(ref) & np.isnan(cand))
    return np.where(same, 0.0, apart)


def _needs_whole_numbers(*sides: np.ndarray) -> bool:
    """Both sides are whole, and one holds numbers that float64 does not."""
    if any(side.dtype.kind not in "iub" for side in sides):
        return False
    ends = [int(end) for side in sides if side.size and side.dtype.itemsize == 8 for end in (side.min(), side.max())]
    return any(abs(end) > 2**53 for end in ends)


def weight(apart: np.ndarray) -> np.ndarray:
    """Return the magnitude of differences, infinite for NaN."""
    size = np.abs(apart)
    return np.where(np.isnan(size), np.inf, size)
