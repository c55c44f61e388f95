"""Softmax and its logarithm, without overflow."""

from __future__ import annotations

from typing import Any

import numpy as np

from firstdiff.ops.arrays import doubles
from firstdiff.ops.operator import operator


@operator
def softmax(input: np.ndarray, *, dim: int = -1, scale: float = 1.0) -> Any:
    """Shares that sum to 1 along `dim`; NaN where all of it is -inf.

    scale: multiplies the input first
    """
    return softmax_in_place(np.asarray(doubles(input) * scale), dim)


@operator
def log_softmax(input: np.ndarray, *, dim: int = -1, scale: float = 1.0) -> Any:
    """The logarithm of `softmax`."""
    shifted = np.asarray(doubles(input) * scale)
    if shifted.size == 0:
        return shifted
    axis = _axis(shifted, dim)
    shifted -= shifted.max(axis=axis, keepdims=True)
    shifted -= np.log(np.exp(shifted).sum(axis=axis, keepdims=True))
    return shifted


def softmax_in_place(scores: np.ndarray, dim: int) -> np.ndarray:
    """Softmax that overwrites its input."""
    if scores.size == 0:
        return scores
    axis = _axis(scores, dim)
    with np.errstate(all="ignore"):
        scores -= scores.max(axis=axis, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=axis, keepdims=True)
    return scores


def _axis(array: np.ndarray, dim: int) -> int | None:
    """A lone number is an axis of its own."""
    return dim if array.ndim else None
