"""Recognise special values: integers stored as floats, and fill values of masks."""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np

from firstdiff import dtypes

# what people write to hide a score, beside the lowest number of a type and -inf
_WRITTEN = (-1e9, -1e4)
_LOWEST = tuple(
    float(ml_dtypes.finfo(dtypes.from_name(name)).min) for name in ("float64", "float32", "bfloat16", "float16")
)
_FILLERS = frozenset({*_WRITTEN, *_LOWEST, -np.inf})
_FAR = 100.0  # times everything else: a filler, no score
# two fillers may have been added up, and a score added to a filler
_SHARE = 0.4
# massive activations reach the size of the smallest fillers, but are not all about the same number
_BEYOND_ACTIVATIONS = -5e4
_ALIKE = 0.02


@dataclass(frozen=True, slots=True)
class FillerPlaces:
    """The elements that masks filled.

    hidden: filled on both sides, which are equal there whatever the number
    reference_only, candidate_only: how many places only one side has filled: another mask
    """

    hidden: np.ndarray
    reference_only: int
    candidate_only: int

    @property
    def agree(self) -> bool:
        return self.reference_only == 0 and self.candidate_only == 0


def filler_places(reference: np.ndarray, candidate: np.ndarray) -> FillerPlaces | None:
    """Places that a mask has filled; None where neither side has any.

    >>> filler_places(np.float32([0.5, -3.4028235e38]), np.float16([0.5, -65504])).hidden
    array([False,  True])
    """
    ref, cand = places_filled(reference), places_filled(candidate)
    if ref is None and cand is None:
        return None
    nowhere = np.zeros(reference.shape, dtype=bool)
    ref, cand = nowhere if ref is None else ref, nowhere if cand is None else cand
    return FillerPlaces(ref & cand, int((ref & ~cand).sum()), int((cand & ~ref).sum()))


def may_have_fillers(minimum: float, infinities: int) -> bool:
    """Cheap pre-check: True if a tensor with this minimum may hold mask fill values."""
    return infinities > 0 or minimum <= _SHARE * max(_WRITTEN)


@np.errstate(all="ignore")
def places_filled(values: np.ndarray) -> np.ndarray | None:
    """True where a filler stands: far below everything else, and one of the numbers that masks use."""
    numbers = np.asarray(values).astype(np.float64)
    low = float(np.min(numbers, where=~np.isnan(numbers), initial=np.inf))
    overflowed = low == -np.inf and bool((numbers == np.inf).any())  # masks fill with -inf alone
    if low > _SHARE * max(_WRITTEN) or overflowed:
        return None
    if _is_filler(low) and bool((numbers == low).all()):
        return np.ones(numbers.shape, dtype=bool)
    bounds = [bound for bound in (*_LOWEST, *_WRITTEN) if _SHARE * bound >= low or low == -np.inf]
    for bound in sorted({*bounds}, reverse=True):
        filled = numbers <= _SHARE * bound
        rest = np.abs(numbers[~filled & np.isfinite(numbers)])
        if not filled.all() and rest.max(initial=0.0) * _FAR <= -bound and _are_fillers(numbers[filled]):
            return np.asarray(filled)
    only = numbers == -np.inf
    return np.asarray(only) if only.any() else None


def _is_filler(value: float) -> bool:
    """True if a number is one that masks use, as some type holds it."""
    return value in _FILLERS or any(abs(value - filler) <= _ALIKE * -filler for filler in _WRITTEN)


def _are_fillers(values: np.ndarray) -> bool:
    """True if low values are numbers that masks use, once or twice, with a score added at most."""
    small = values[values > _BEYOND_ACTIVATIONS]
    times = small / max(_WRITTEN)
    return bool((np.abs(times - np.rint(times)) <= _ALIKE * np.abs(times)).all())


def is_whole(values: np.ndarray) -> bool:
    """True if a floating-point tensor holds integers only, as ids, positions, masks and counts do.

    Numbers that are too large for fractions in their type, and tensors of zeros alone, are no evidence.

    >>> is_whole(np.float32([0, 1, 17])), is_whole(np.float32([0.5, 1]))
    (True, False)
    """
    if dtypes.kind_of(values.dtype) != "float" or values.size == 0:
        return False
    numbers = np.asarray(values).astype(np.float64)
    exact = 1.0 / dtypes.eps_of(values.dtype)
    return bool((np.abs(numbers) <= exact).all() and (numbers == np.rint(numbers)).all() and numbers.any())
