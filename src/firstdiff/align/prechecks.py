"""Cheap pre-checks before a layout search: recipes only move values, so both sides must hold the same ones."""

from __future__ import annotations

from math import nan
from typing import final

import numpy as np

from firstdiff.align.lazy import Lazy
from firstdiff.align.sampling import Noise, sample_positions
from firstdiff.schema import Statistics

_SLACK = 0.02  # of the spread: as much as rounding to bf16 moves any of the figures
_LARGEST = 1 << 20  # elements; a search of larger tensors costs less than reading them whole for a check
_SAMPLE = 1 << 14
_TAIL = 2048  # elements that a tail should have: sparse enough that values do not agree by chance
_LEAST_TAIL = 64
_TAIL_SHARE = 0.002
_MOST_TAIL = 0.25
_LOOKED_UP = 512
_FOUND = 0.75  # share of values that must be found: damage in the data may hide some
_DUPLICATED = 0.7


def could_be_rearranged(reference: Statistics, candidate: Statistics) -> bool:
    """Return False if one tensor cannot be a permutation of the other: that keeps mean, std, min and max.

    >>> could_be_rearranged(measured.reference, measured.candidate)
    False
    """
    if (reference.nan, reference.inf) != (candidate.nan, candidate.inf):
        return False
    return all(
        _near(getattr(reference, name), getattr(candidate, name), reference.std)
        for name in ("mean", "std", "min", "max")
    )


def _near(reference: float | None, candidate: float | None, spread: float | None) -> bool:
    if reference is None or candidate is None:
        return reference is candidate
    return abs(reference - candidate) <= _SLACK * ((spread or 0.0) + abs(reference))


@final
class SharedValues:
    """Looks up values of the smaller tensor in the larger one, far from the middle, where values are sparse."""

    def __init__(self, reference: Lazy, candidate: Lazy, common: complex | float) -> None:
        small, large = sorted((reference, candidate), key=lambda tensor: tensor.size)
        self._tails: _Tails | None = None
        if large.size <= _LARGEST:
            self._tails = _tails(_real_values(small), _real_values(large), common)

    def possible(self, noise: Noise) -> bool:
        """Return False if too few values of the smaller tensor occur in the larger one."""
        return self._tails is None or _are_found(self._tails, noise)


def could_have_moved(reference: Lazy, candidate: Lazy, common: complex | float, noise: Noise) -> bool:
    """Return False if the values of two tensors of one size are not the same ones where the tensors differ."""
    if reference.size > _LARGEST:
        return True
    sides = _real_values(reference), _real_values(candidate)
    off = ~noise.same(*sides)
    one, other = sides[0][off], sides[1][off]
    return _are_found(_tails(one, other, common), noise) and _are_found(_tails(other, one, common), noise)


_Tails = tuple[np.ndarray, np.ndarray]


def _tails(small: np.ndarray, large: np.ndarray, common: complex | float) -> _Tails:
    """Values far from the middle: those of one side once each, and those of the other in order.

    A part that was zeroed or masked is then one value that is not found, not many.
    """
    middle, limit = _tail_limit(small, common)
    return np.unique(_beyond(small, middle, limit, common)), np.sort(_beyond(large, middle, 0.9 * limit, common))


def _are_found(tails: _Tails, noise: Noise) -> bool:
    wanted, large = tails
    if not wanted.size:
        return True
    if not large.size:
        return False
    wanted = wanted[sample_positions(wanted.size, _LOOKED_UP)]
    after = np.searchsorted(large, wanted).clip(0, large.size - 1)
    nearest = np.minimum(np.abs(large[after] - wanted), np.abs(large[(after - 1).clip(0)] - wanted))
    return bool((nearest <= _tolerance(noise, wanted)).mean() >= _FOUND)


def _tail_limit(values: np.ndarray, common: complex | float) -> tuple[float, float]:
    """The middle of the values, and how far from it the sparse ones begin."""
    sample = values[sample_positions(values.size, _SAMPLE)].astype(np.float64)  # two fillers of float32 add up to inf
    sample = sample[np.isfinite(sample) & (sample != np.real(common))]
    share = max(min(_TAIL / max(values.size, 1), _MOST_TAIL), _TAIL_SHARE, _LEAST_TAIL / max(values.size, 1))
    if not sample.size or share >= 1:
        return 0.0, 0.0
    middle = float(np.median(sample))
    return middle, float(np.quantile(np.abs(sample - middle), 1 - share))


def _beyond(values: np.ndarray, middle: float, limit: float, common: complex | float) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        far = np.abs(values - values.dtype.type(middle)) >= limit
    kept = values[far].astype(np.float64)
    return np.asarray(kept[np.isfinite(kept) & (kept != np.real(common))])


def _tolerance(noise: Noise, values: np.ndarray) -> np.ndarray:
    return np.asarray(1.1 * (noise.atol + noise.rtol * np.abs(values)))


def _real_values(tensor: Lazy) -> np.ndarray:
    """All values in a type that numpy computes with; of complex ones the real part."""
    values = tensor.window(0, tensor.size)
    values = values.real if values.dtype.kind == "c" else values
    wide = np.float64 if values.dtype.itemsize > 4 or values.dtype.kind in "iub" else np.float32
    return values.astype(wide, copy=False)


def has_duplicates(tensor: Lazy, noise: Noise) -> bool:
    """Return False if too few values occur twice for the tensor to repeat a smaller one."""
    if tensor.size > _LARGEST:
        return True
    values = _real_values(tensor)
    values = np.sort(_beyond(values, *_tail_limit(values, nan), nan))
    close = np.diff(values) <= 2 * _tolerance(noise, values[1:])
    twice = np.append(close, False) | np.append(False, close)
    return not values.size or bool(twice.mean() >= _DUPLICATED)
