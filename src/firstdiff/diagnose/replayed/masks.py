"""Attention masks that a port may use in place of the right one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from firstdiff.dtypes import doubles

# what masks add to scores that must not count
_LOW = -1e3


def is_mask(array: Any) -> bool:
    """True if an operand is a mask: boolean, or small values and very low ones only."""
    if not isinstance(array, np.ndarray) or array.ndim < 2:
        return False
    if array.dtype == np.bool_:
        return True
    values = doubles(array)
    low = values <= _LOW
    return bool(low.any()) and bool(np.all(low | (np.abs(values) < -_LOW)))


def mask_variants(mask: np.ndarray, *, masks_true: bool = False) -> Iterator[tuple[str, np.ndarray]]:
    """The mask moved, turned, inverted, causal or not, in words and as an array.

    masks_true: True means that a key must not be seen
    """
    seen = _seen(mask, masks_true)
    queries, keys = mask.shape[-2:]
    shift = keys - queries
    causal = np.tril(np.ones((queries, keys), dtype=bool), shift)
    yield "with nothing masked", _as_mask(np.ones_like(seen), mask, masks_true)
    yield "with a causal mask alone", _as_mask(np.broadcast_to(causal, seen.shape), mask, masks_true)
    yield "with a causal mask as well", _as_mask(seen & causal, mask, masks_true)
    for by in (1, -1, 2, -2):
        moved = np.tril(np.ones((queries, keys), dtype=bool), shift + by)
        words = f"with a causal mask that lets a query see {abs(by)} {'more' if by > 0 else 'fewer'}"
        yield words, _as_mask(np.broadcast_to(moved, seen.shape), mask, masks_true)
        yield f"{words}, and the rest of the mask as it is", _as_mask(_padding(seen) & moved, mask, masks_true)
        yield f"with the mask moved by {by}", _as_mask(np.roll(seen, by, axis=-1), mask, masks_true)
    yield "without what hides padding", _as_mask(np.broadcast_to(_triangle(seen), seen.shape), mask, masks_true)
    yield (
        "with padding hidden and nothing else",
        _as_mask(np.broadcast_to(_padding(seen), seen.shape), mask, masks_true),
    )
    yield "with the mask inverted", _as_mask(~seen, mask, masks_true)
    if queries == keys:
        yield "with the mask transposed", _as_mask(seen.swapaxes(-1, -2), mask, masks_true)
    for window in (2, 4, 8, 16):
        if window < keys:
            near = ~np.tril(np.ones((queries, keys), dtype=bool), shift - window)
            yield f"with a window of {window}", _as_mask(seen & near, mask, masks_true)


def _seen(mask: np.ndarray, masks_true: bool) -> np.ndarray:
    return np.asarray(mask != masks_true) if mask.dtype == np.bool_ else np.asarray(doubles(mask) > _LOW)


def _padding(seen: np.ndarray) -> np.ndarray:
    """Keys that some query sees."""
    return np.asarray(seen.any(axis=-2, keepdims=True))


def _triangle(seen: np.ndarray) -> np.ndarray:
    """Pairs that are seen in some sample."""
    return np.asarray(seen.any(axis=tuple(range(seen.ndim - 2)), keepdims=True))


def _as_mask(seen: np.ndarray, like: np.ndarray, masks_true: bool) -> np.ndarray:
    if like.dtype == np.bool_:
        return np.asarray(seen != masks_true)
    low = float(np.min(doubles(like)))
    kept = np.where(doubles(like) > _LOW, doubles(like), 0.0)
    return np.where(seen, kept, low)
