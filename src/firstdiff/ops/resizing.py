"""Interpolation to another size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from firstdiff.ops.arrays import doubles, per_channel
from firstdiff.ops.operator import operator

# where in an element it is looked at
_NEAREST = {"nearest": 0.0, "nearest-exact": 0.5}
_LINEAR = ("linear", "bilinear", "trilinear")


@operator
def interpolate(
    input: np.ndarray,
    *,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool = False,
) -> Any:
    """The axes after batch and channels stretched or shrunk to a size, or by a factor.

    mode: "nearest", "nearest-exact", or "linear", "bilinear", "trilinear" by the number of axes
    align_corners: first and last elements stay where they are
    """
    x = doubles(input)
    axes = range(2, x.ndim)
    sizes, factors = _each(size, len(axes)), _each(scale_factor, len(axes))
    for axis, wanted, factor in zip(axes, sizes, factors, strict=True):
        length = x.shape[axis]
        count = int(wanted) if wanted is not None else int(length * _known(factor))
        step = length / count if factor is None else 1.0 / factor
        x = _resized(x, axis, count, step, mode, align_corners)
    return x


def _resized(x: np.ndarray, axis: int, count: int, step: float, mode: str, align_corners: bool) -> Any:
    last = x.shape[axis] - 1
    places = np.arange(count)
    if mode in _NEAREST:
        nearest = np.floor((places + _NEAREST[mode]) * step).astype(np.int64)
        return np.take(x, np.minimum(nearest, last), axis=axis)
    if mode not in _LINEAR:
        raise ValueError(f"mode is {mode!r}; it takes one of {', '.join((*_NEAREST, *_LINEAR))}")
    centred = np.maximum((places + 0.5) * step - 0.5, 0.0)
    at = places * (last / max(count - 1, 1)) if align_corners else centred
    low = np.minimum(np.floor(at).astype(np.int64), last)
    share = per_channel(at - low, x.ndim, axis)
    first, second = np.take(x, low, axis=axis), np.take(x, np.minimum(low + 1, last), axis=axis)
    return first * (1.0 - share) + second * share


def _each(value: Any, count: int) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value] * count


def _known(factor: float | None) -> float:
    if factor is None:
        raise ValueError("neither size nor scale_factor is given")
    return factor
