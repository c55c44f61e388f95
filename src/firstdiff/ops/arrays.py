"""Convert recorded values to arrays to compute with."""

from __future__ import annotations

from typing import Any

import numpy as np

from firstdiff.dtypes import doubles

__all__ = ["doubles", "per_channel", "reals", "whole_numbers"]


def reals(values: Any) -> np.ndarray:
    """As float64; ValueError for complex ones, where an operator has no meaning for them."""
    array = doubles(values)
    if array.dtype.kind == "c":
        raise ValueError("complex numbers are not taken")
    return array


@np.errstate(invalid="ignore")
def whole_numbers(values: Any) -> np.ndarray:
    """As int64, to count and to choose with; ValueError for any that are none."""
    array = np.asarray(values)
    whole = array.astype(np.int64) if array.dtype.kind in "iub" else np.round(doubles(array).real).astype(np.int64)
    if not np.array_equal(whole, array):
        raise ValueError("there are no whole numbers to choose by")
    return whole


def per_channel(values: np.ndarray, ndim: int, axis: int = 1) -> np.ndarray:
    """A vector laid along one axis, ready to be broadcast against `ndim` of them."""
    shape = [1] * ndim
    shape[axis] = values.size
    return values.reshape(shape)


def tuple_of(value: Any, length: int) -> tuple[int, ...]:
    """`3` as `(3, 3)`, `[3]` as `(3, 3)`, `[3, 4]` as it is."""
    numbers = tuple(int(item) for item in value) if isinstance(value, list | tuple) else (int(value),)
    return numbers * length if len(numbers) == 1 else numbers


@np.errstate(all="ignore")
def mean(values: np.ndarray, axes: int | tuple[int, ...] | None = None, *, keepdims: bool = True) -> Any:
    """The mean along axes; NaN, and not a warning, where there is nothing to take it of."""
    total = np.sum(values, axis=axes, keepdims=keepdims)
    return total / np.float64(values.size / total.size if total.size else 1.0)
