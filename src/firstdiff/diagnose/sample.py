"""Which part of a large tensor is looked at: leading slices, so that channels, heads and neighbours stay together."""

from __future__ import annotations

from math import prod

MOST_ELEMENTS = 1 << 18
# fewer tokens than this tell little about masks, positions and shifts
_KEPT_OF_AN_AXIS = 64


def leading_part(shape: tuple[int, ...], most: int = MOST_ELEMENTS) -> tuple[slice, ...]:
    """Slices that leave at most about `most` elements; the last axis stays whole, the first are cut first."""
    kept = list(shape)
    for least in (_KEPT_OF_AN_AXIS, 1):
        for axis in range(len(kept) - 1):
            if prod(kept) > most:
                others = prod(kept) // kept[axis]
                kept[axis] = min(kept[axis], max(least, most // max(1, others), 1))
    if prod(kept) > most and kept:
        kept[-1] = max(1, most // max(1, prod(kept[:-1])))
    return tuple(slice(0, size) for size in kept)


def part_in_words(shape: tuple[int, ...], part: tuple[slice, ...]) -> str | None:
    """None where the part is the whole."""
    cut = [
        f"the first {taken.stop} of {size} along axis {axis}"
        for axis, (size, taken) in enumerate(zip(shape, part, strict=True))
        if taken.stop < size
    ]
    return " and ".join(cut) or None
