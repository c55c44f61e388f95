"""Choose the part of a large tensor to examine: whole slices, so that channels, heads and neighbours stay together."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

MOST_ELEMENTS = 1 << 16
# fewer tokens than this tell little about masks, positions and shifts
_KEPT_OF_AN_AXIS = 64


def part_to_look_at(shape: tuple[int, ...], worst: Sequence[int] = (), most: int = MOST_ELEMENTS) -> tuple[slice, ...]:
    """Slices that leave at most about `most` elements; the last axis stays whole, the first are cut first.

    worst: the index of an element that must be in the part; the part is the leading one if it is, or if none is given
    """
    kept = list(shape)
    for least in (_KEPT_OF_AN_AXIS, 1):
        for axis in range(len(kept) - 1):
            if prod(kept) > most:
                others = prod(kept) // kept[axis]
                kept[axis] = min(kept[axis], max(least, most // max(1, others), 1))
    if prod(kept) > most and kept:
        kept[-1] = max(1, most // max(1, prod(kept[:-1])))
    at = tuple(worst) if len(worst) == len(shape) else (0,) * len(shape)
    starts = [
        min(index // size * size, whole - size) for index, size, whole in zip(at, kept, shape, strict=True) if size
    ]
    starts = starts if len(starts) == len(kept) else [0] * len(kept)
    return tuple(slice(start, start + size) for start, size in zip(starts, kept, strict=True))


def first_nonfinite(candidate: np.ndarray, reference: np.ndarray) -> tuple[int, ...] | None:
    """The index of the first NaN or Inf of one side where the other has a number, found slice by slice."""
    for at in range(len(candidate)) if candidate.ndim > 1 else ():
        inner = first_nonfinite(candidate[at], reference[at])
        if inner is not None:
            return (at, *inner)
    if candidate.ndim != 1:
        return None
    strange = ~np.isfinite(candidate) & np.isfinite(reference)
    return (int(strange.argmax()),) if strange.any() else None


def part_in_words(shape: tuple[int, ...], part: tuple[slice, ...]) -> str | None:
    """None where the part is the whole."""
    cut = [
        f"{'the first ' if taken.start == 0 else f'{taken.start} to '}{taken.stop} of {size} along axis {axis}"
        for axis, (size, taken) in enumerate(zip(shape, part, strict=True))
        if taken.stop - taken.start < size
    ]
    return " and ".join(cut) or None
