"""Arrays to compute with: conversion, rounding, and the decorator of every operator."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec

import numpy as np

from firstdiff import dtypes
from firstdiff.dtypes import doubles

P = ParamSpec("P")


def operator(function: Callable[P, Any]) -> Callable[P, np.ndarray]:
    """Silence numpy warnings about NaN and Inf, and return arrays also for scalars."""

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> np.ndarray:
        with np.errstate(all="ignore"):
            return np.asarray(function(*args, **kwargs))

    return run


def reals(values: Any) -> np.ndarray:
    """Convert to float64; ValueError for complex numbers, for which an operator is not defined."""
    array = doubles(values)
    if array.dtype.kind == "c":
        raise ValueError("complex numbers are not taken")
    return array


@np.errstate(invalid="ignore")
def whole_numbers(values: Any) -> np.ndarray:
    """Convert to int64 for counting and indexing; ValueError for fractions."""
    array = np.asarray(values)
    whole = array.astype(np.int64) if array.dtype.kind in "iub" else np.round(doubles(array).real).astype(np.int64)
    if not np.array_equal(whole, array):
        raise ValueError("there are no whole numbers to choose by")
    return whole


def per_channel(values: np.ndarray, ndim: int, axis: int = 1) -> np.ndarray:
    """Reshape a vector to broadcast along one of `ndim` axes."""
    shape = [1] * ndim
    shape[axis] = values.size
    return values.reshape(shape)


def tuple_of(value: Any, length: int) -> tuple[int, ...]:
    """Expand `3` and `[3]` to `(3, 3)`; return `[3, 4]` as `(3, 4)`."""
    numbers = tuple(int(item) for item in value) if isinstance(value, list | tuple) else (int(value),)
    return numbers * length if len(numbers) == 1 else numbers


@np.errstate(all="ignore")
def mean(values: np.ndarray, axes: int | tuple[int, ...] | None = None, *, keepdims: bool = True) -> Any:
    """Return the mean along axes; NaN, without a warning, of nothing."""
    total = np.sum(values, axis=axes, keepdims=keepdims)
    return total / np.float64(values.size / total.size if total.size else 1.0)


@np.errstate(all="ignore")
def rounded(values: np.ndarray, dtype: str) -> np.ndarray:
    """Round to a dtype such as "bfloat16", as float64 again; values beyond its range overflow."""
    return doubles(doubles(values).astype(dtypes.from_name(dtype)))


@np.errstate(all="ignore")
def quantised(values: np.ndarray, *, bits: int = 8, axis: int | None = None, symmetric: bool = True) -> Any:
    """Quantise to an even grid of `2 ** bits` steps, as float64 again.

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


@operator
def weight_norm(direction: np.ndarray, length: np.ndarray) -> Any:
    """`length * direction / |direction|`: a weight stored as a direction and a length.

    length: with the axes of the direction, 1 where the norm is taken across; or a lone number
    """
    g, v = doubles(length), doubles(direction)
    across = tuple(axis for axis, size in enumerate(g.shape) if size == 1) if g.ndim == v.ndim else None
    return v * (g / np.sqrt(np.sum(v * v, axis=across, keepdims=across is not None)))


def _not_zero(step: Any) -> Any:
    return np.where(step == 0, 1.0, step)
