"""Layer, RMS, group, batch and weight norms."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from firstdiff.ops.arrays import doubles, mean, per_channel
from firstdiff.ops.operator import operator


@operator
def layer_norm(
    input: np.ndarray,
    weight: np.ndarray | None = None,
    bias: np.ndarray | None = None,
    *,
    axes: Sequence[int] = (-1,),
    eps: float = 1e-5,
    one_plus: bool = False,
    unbiased: bool = False,
    eps_outside: bool = False,
) -> Any:
    """`(x - mean) / sqrt(variance + eps) * weight + bias`, mean and variance taken over `axes`.

    one_plus: multiply with `1 + weight`
    unbiased: divide the variance by n - 1
    eps_outside: add eps to the deviation instead of the variance
    """
    x, across = doubles(input), tuple(axes)
    centred = x - mean(x, across)
    scaled = _divided(centred, _variance(centred, across, unbiased), eps, eps_outside)
    return _affine(scaled, weight, bias, across, one_plus)


@operator
def rms_norm(
    input: np.ndarray,
    weight: np.ndarray | None = None,
    bias: np.ndarray | None = None,
    *,
    axes: Sequence[int] = (-1,),
    eps: float = 1e-6,
    one_plus: bool = False,
    eps_outside: bool = False,
) -> Any:
    """`x / sqrt(mean(x^2) + eps) * weight`, the mean taken over `axes`.

    one_plus: multiply with `1 + weight`, as Gemma does
    eps_outside: add eps to the root instead of the mean
    """
    x, across = doubles(input), tuple(axes)
    square = mean(x * x, across)
    return _affine(_divided(x, square, eps, eps_outside), weight, bias, across, one_plus)


@operator
def group_norm(
    input: np.ndarray,
    weight: np.ndarray | None = None,
    bias: np.ndarray | None = None,
    *,
    groups: int,
    eps: float = 1e-5,
    one_plus: bool = False,
    unbiased: bool = False,
) -> Any:
    """Layer normalisation of each group of channels; the channels are axis 1, and weight and bias have one each."""
    x = doubles(input)
    grouped = x.reshape(x.shape[0], groups, -1)
    scaled = layer_norm(grouped, axes=(2,), eps=eps, unbiased=unbiased).reshape(x.shape)
    return _affine(scaled, weight, bias, (1,), one_plus)


@operator
def batch_norm(
    input: np.ndarray,
    running_mean: np.ndarray | None = None,
    running_var: np.ndarray | None = None,
    weight: np.ndarray | None = None,
    bias: np.ndarray | None = None,
    *,
    eps: float = 1e-5,
    batch_statistics: bool = False,
    unbiased: bool = False,
    eps_outside: bool = False,
) -> Any:
    """Each channel (axis 1) by its mean and variance: the running ones, or those of this very batch.

    batch_statistics: use the batch's, as in training; without running ones there is no choice
    """
    x = doubles(input)
    across = (0, *range(2, x.ndim))
    if batch_statistics or running_mean is None or running_var is None:
        centre = mean(x, across)
        variance = _variance(x - centre, across, unbiased)
    else:
        centre, variance = (per_channel(doubles(item), x.ndim) for item in (running_mean, running_var))
    return _affine(_divided(x - centre, variance, eps, eps_outside), weight, bias, (1,), False)


@operator
def lp_norm(input: np.ndarray, *, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Any:
    """`x / max(|x|_p, eps)`, the length taken along `dim`: what torch calls `normalize`."""
    x = doubles(input)
    length = np.linalg.norm(x, ord=p, axis=dim, keepdims=True)
    return x / np.maximum(length, eps)


@operator
def weight_norm(direction: np.ndarray, length: np.ndarray) -> Any:
    """`length * direction / |direction|`: a weight that is kept in two parts.

    length: with the axes of the direction, 1 where the norm is taken across; or a lone number
    """
    g, v = doubles(length), doubles(direction)
    across = tuple(axis for axis, size in enumerate(g.shape) if size == 1) if g.ndim == v.ndim else None
    return v * (g / np.sqrt(np.sum(v * v, axis=across, keepdims=across is not None)))


def _variance(centred: np.ndarray, axes: tuple[int, ...], unbiased: bool) -> Any:
    square = mean(centred * centred, axes)
    if not unbiased:
        return square
    count = np.float64(prod(centred.shape[axis] for axis in axes))
    return square * (count / np.maximum(count - 1.0, 0.0))


def _divided(x: np.ndarray, variance: np.ndarray, eps: float, outside: bool) -> Any:
    return x / (np.sqrt(variance) + eps if outside else np.sqrt(variance + eps))


def _affine(
    x: np.ndarray, weight: np.ndarray | None, bias: np.ndarray | None, axes: tuple[int, ...], one_plus: bool
) -> np.ndarray:
    kept = {axis % x.ndim for axis in axes}
    shape = [size if axis in kept else 1 for axis, size in enumerate(x.shape)]
    if weight is not None:
        x = x * (doubles(weight).reshape(shape) + (1.0 if one_plus else 0.0))
    return x if bias is None else x + doubles(bias).reshape(shape)
