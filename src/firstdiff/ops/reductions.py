"""Sums, means and extremes along axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from firstdiff.ops.arrays import doubles, mean
from firstdiff.ops.operator import operator

_BY_NAME: dict[str, Callable[..., Any]] = {
    "mean": lambda x, axis, keepdims: mean(x, axis, keepdims=keepdims),
    "sum": np.sum,
    "prod": np.prod,
    "amax": np.max,
    "amin": np.min,
}


@operator
def reduce(input: np.ndarray, *, kind: str, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Any:
    """Along axes or over everything: the "mean", "sum", "prod", "amax" or "amin"."""
    if kind not in _BY_NAME:
        raise ValueError(f"no reduction is called {kind!r}; known are {', '.join(_BY_NAME)}")
    return np.asarray(_BY_NAME[kind](doubles(input), axis=_axes(dim), keepdims=keepdim))


@operator
def variance(
    input: np.ndarray,
    *,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    correction: int = 1,
    root: bool = False,
) -> Any:
    """The variance along axes, or its root.

    correction: the sum of squares is divided by n less this
    root: give the standard deviation
    """
    x, axes = doubles(input), _axes(dim)
    centred = x - mean(x, axes)
    squares = np.sum((centred * centred.conj()).real, axis=axes, keepdims=keepdim)
    count = x.size / max(squares.size, 1)
    found = squares / np.maximum(count - correction, 0.0)
    return np.asarray(np.sqrt(found) if root else found)


@operator
def logsumexp(input: np.ndarray, *, dim: int | Sequence[int], keepdim: bool = False) -> Any:
    """The logarithm of the sum of exponentials, without overflow."""
    x, axes = doubles(input), _axes(dim)
    top = np.max(x, axis=axes, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    total = np.log(np.sum(np.exp(x - top), axis=axes, keepdims=True)) + top
    return total if keepdim else np.squeeze(total, axis=axes)


@operator
def cumulate(input: np.ndarray, *, dim: int, product: bool = False) -> Any:
    """Running sums, or products, along an axis."""
    return (np.cumprod if product else np.cumsum)(doubles(input), axis=dim)


def _axes(dim: int | Sequence[int] | None) -> int | tuple[int, ...] | None:
    if dim is None or isinstance(dim, int):
        return dim
    return tuple(dim) or None
