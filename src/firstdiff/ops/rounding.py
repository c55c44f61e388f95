"""Round float64 values to a coarser dtype, or quantise them."""

from __future__ import annotations

from typing import Any

import numpy as np

from firstdiff import dtypes
from firstdiff.ops.arrays import doubles


@np.errstate(all="ignore")
def rounded(values: np.ndarray, dtype: str) -> np.ndarray:
    """The nearest values of a type such as "bfloat16", as float64 again; what is beyond its range overflows."""
    return doubles(doubles(values).astype(dtypes.from_name(dtype)))


@np.errstate(all="ignore")
def quantised(values: np.ndarray, *, bits: int = 8, axis: int | None = None, symmetric: bool = True) -> Any:
    """Values on an even grid of `2 ** bits` steps, as float64 again.

    axis: give each index of this axis a grid of its own; one for all if left out
    symmetric: the grid has 0 in the middle and reaches the greatest magnitude; else it spans least to greatest
    """
    x = doubles(values)
    if x.size == 0:
        return x
    across = None if axis is None else tuple(other for other in range(x.ndim) if other != axis % x.ndim)
    if symmetric:
        top = 2 ** (bits - 1) - 1
        step = np.max(np.abs(x), axis=across, keepdims=True) / top
        return np.clip(np.round(x / _not_zero(step)), -top, top) * step
    low = np.minimum(np.min(x, axis=across, keepdims=True), 0.0)
    high = np.maximum(np.max(x, axis=across, keepdims=True), 0.0)
    step = _not_zero((high - low) / (2**bits - 1))
    zero = np.round(-low / step)
    return (np.clip(np.round(x / step) + zero, 0, 2**bits - 1) - zero) * step


def _not_zero(step: Any) -> Any:
    return np.where(step == 0, 1.0, step)
