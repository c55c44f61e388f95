"""Normalise to mean 0 and standard deviation 1, by given statistics or the values' own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from firstdiff.ops.arrays import doubles, per_channel
from firstdiff.ops.norms import layer_norm
from firstdiff.ops.operator import operator


@operator
def normalise(
    input: np.ndarray,
    mean: np.ndarray | Sequence[float] | float,
    std: np.ndarray | Sequence[float] | float,
    *,
    axis: int = -3,
    rescale: float = 1.0,
) -> Any:
    """`(x * rescale - mean) / std`.

    mean, std: one number, or one for each channel of `axis`
    rescale: what the values are multiplied with first, such as 1 / 255
    """
    x = doubles(input)
    centre, width = (_along(doubles(item), x.ndim, axis) for item in (mean, std))
    return (x * rescale - centre) / width


@operator
def standardise(
    input: np.ndarray,
    *,
    axes: Sequence[int] = (-1,),
    eps: float = 1e-7,
    unbiased: bool = False,
    eps_outside: bool = False,
) -> Any:
    """`(x - mean) / sqrt(variance + eps)` by the values' own mean and variance over `axes`.

    unbiased: divide the variance by n - 1
    eps_outside: add eps to the deviation instead of the variance
    """
    return layer_norm(input, axes=axes, eps=eps, unbiased=unbiased, eps_outside=eps_outside)


def _along(values: np.ndarray, ndim: int, axis: int) -> np.ndarray:
    return values.reshape(()) if values.size == 1 else per_channel(values, ndim, axis)
