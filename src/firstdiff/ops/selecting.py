"""Sorting, top-k and index operators."""

from __future__ import annotations

from typing import Any

import numpy as np

from firstdiff.ops.arrays import doubles, whole_numbers
from firstdiff.ops.operator import operator


def topk(input: np.ndarray, *, k: int, dim: int = -1, largest: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """The k greatest (or least) along an axis, best first, and where they are; of equals the first."""
    values, places = sort(input, dim=dim, descending=largest)
    return np.take(values, range(k), axis=dim), np.take(places, range(k), axis=dim)


def sort(input: np.ndarray, *, dim: int = -1, descending: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Values in order along an axis, and where they were; equals stay in order, NaN counts as the greatest."""
    x = doubles(input)
    if x.ndim == 0:
        return x, np.zeros((), dtype=np.int64)
    ascending = x[_turned(x.ndim, dim)] if descending else x
    places = np.argsort(ascending, axis=dim, kind="stable")
    if descending:
        places = x.shape[dim] - 1 - places[_turned(x.ndim, dim)]
    return np.take_along_axis(x, places, axis=dim), places


@operator
def argmax(input: np.ndarray, *, dim: int | None = None, keepdim: bool = False) -> Any:
    """The index of the maximum along an axis or of all; the first of equals, NaN before everything."""
    return np.argmax(doubles(input), axis=dim, keepdims=keepdim)


@operator
def one_hot(tensor: np.ndarray, *, num_classes: int = -1) -> Any:
    """A row of zeros for every number, with a 1 at its place; as many classes as needed if not said."""
    numbers = whole_numbers(tensor)
    classes = int(numbers.max()) + 1 if num_classes < 0 else num_classes
    return (numbers[..., None] == np.arange(classes)).astype(np.float64)


@operator
def index_add(input: np.ndarray, index: np.ndarray, source: np.ndarray, *, dim: int, alpha: float = 1.0) -> Any:
    """`input` with slices of `source` added at the places the index names, as often as it names them."""
    out = np.moveaxis(doubles(input), dim, 0).copy()
    np.add.at(out, whole_numbers(index), alpha * np.moveaxis(doubles(source), dim, 0))
    return np.moveaxis(out, 0, dim)


def _turned(ndim: int, dim: int) -> tuple[slice, ...]:
    return tuple(slice(None, None, -1) if axis == dim % ndim else slice(None) for axis in range(ndim))
