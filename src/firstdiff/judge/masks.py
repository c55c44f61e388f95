"""Read attention masks: boolean, 0 and 1, or 0 and a very low number."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from firstdiff import dtypes
from firstdiff.judge.special_values import places_filled
from firstdiff.trace import ArraySource, Source

_LOWEST = float(np.finfo(np.float32).min)
_MOST_ELEMENTS = 1 << 26  # of a tensor that is looked at: no mask is larger


@dataclass(frozen=True, slots=True)
class MaskPair:
    """Two masks in one form, 0 where a place is seen and the lowest number where it is hidden.

    note: how the two are written, where that is not the same
    """

    sources: tuple[Source, Source]
    note: str


@dataclass(frozen=True, slots=True)
class _Mask:
    hidden: np.ndarray
    form: str

    @property
    def is_added(self) -> bool:
        return self.form == "added"

    @property
    def has_fillers(self) -> bool:
        return self.is_added and bool(self.hidden.any())


def masks_in_one_form(sources: tuple[Source, Source], *, named: bool) -> MaskPair | None:
    """Return two masks that are written differently in one form; None where either is none, or both are alike.

    named: what they are called says that they are masks
    """
    reference, candidate = sources
    if not _may_be_masks(reference, candidate, named=named):
        return None
    reference_mask, candidate_mask = _mask(reference.view()), _mask(candidate.view())
    if (
        reference_mask is None
        or candidate_mask is None
        or not (named or reference_mask.has_fillers or candidate_mask.has_fillers)
    ):
        return None
    alike = reference_mask.form == candidate_mask.form and reference.shape == candidate.shape
    if alike and (not reference_mask.is_added or np.array_equal(reference_mask.hidden, candidate_mask.hidden)):
        return None
    shape = np.broadcast_shapes(reference_mask.hidden.shape, candidate_mask.hidden.shape)
    one, other = np.broadcast_to(reference_mask.hidden, shape), np.broadcast_to(candidate_mask.hidden, shape)
    note = "masks that hide the same places, written differently"
    if (
        reference_mask.is_added != candidate_mask.is_added
        and not np.array_equal(one, other)
        and np.array_equal(one, ~other)
    ):
        # True may mean "hidden", as in masked_fill; what is made of it tells whether that was meant
        one, other = (one, one) if reference_mask.is_added else (other, other)
        note = "masks that hide the same places; True means hidden in one of them"
    return MaskPair((_as_added(one), _as_added(other)), note)


def tokens_that_see_nothing(values: np.ndarray) -> np.ndarray | None:
    """Return [batch, token] of a mask, True for tokens from which everything is hidden; None where there are none."""
    if values.ndim not in (3, 4):
        return None
    mask = _mask(values)
    if mask is None:
        return None
    blind: np.ndarray = np.all(mask.hidden, axis=-1 if values.ndim == 3 else (1, 3))
    return blind if blind.any() and not blind.all() else None


def _may_be_masks(reference: Source, candidate: Source, *, named: bool) -> bool:
    """Rule out most pairs by their types and shapes."""
    if max(reference.size, candidate.size) > _MOST_ELEMENTS or not min(reference.size, candidate.size):
        return False
    kinds = {dtypes.kind_of(reference.dtype), dtypes.kind_of(candidate.dtype)}
    if kinds == {"float"} and not named:
        return False
    if reference.dtype == candidate.dtype and reference.shape == candidate.shape and kinds != {"float"}:
        return False
    try:
        np.broadcast_shapes(reference.shape, candidate.shape)
    except ValueError:
        return False
    return "complex" not in kinds


def _mask(values: np.ndarray) -> _Mask | None:
    """Read a tensor as a mask; None where it holds anything else."""
    if dtypes.kind_of(values.dtype) == "bool":
        return _Mask(~values, "bool")
    numbers = np.asarray(values).astype(np.float64)
    if dtypes.kind_of(values.dtype) == "float":
        filled = places_filled(numbers)
        if filled is not None:
            return _Mask(filled, "added") if not numbers[~filled].any() else None
        if not numbers.any():
            return _Mask(np.zeros(numbers.shape, bool), "added")
    if not ((numbers == 0) | (numbers == 1)).all():
        return None
    return _Mask(numbers == 0, "number")


def _as_added(hidden: np.ndarray) -> Source:
    return ArraySource(np.where(hidden, np.float32(_LOWEST), np.float32(0.0)))
