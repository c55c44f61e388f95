"""Average and max pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from firstdiff.ops.arrays import doubles, mean, tuple_of
from firstdiff.ops.operator import operator


@operator
def avg_pool(
    input: np.ndarray,
    *,
    kernel_size: int | Sequence[int],
    axes: int,
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    count_include_pad: bool = True,
) -> Any:
    """The mean of each window over the last `axes` axes.

    count_include_pad: zeros of the padding count
    """
    x = doubles(input)
    totals = _windows(x, kernel_size, stride, padding, axes, 0.0).sum(axis=tuple(range(-axes, 0)))
    if count_include_pad:
        return np.asarray(totals / np.prod(tuple_of(kernel_size, axes)))
    counts = _windows(np.ones_like(x), kernel_size, stride, padding, axes, 0.0).sum(axis=tuple(range(-axes, 0)))
    return np.asarray(totals / counts)


@operator
def max_pool(
    input: np.ndarray,
    *,
    kernel_size: int | Sequence[int],
    axes: int,
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
) -> Any:
    """The greatest of each window over the last `axes` axes."""
    x = doubles(input)
    windows = _windows(x, kernel_size, stride, padding, axes, -np.inf, dilation)
    return np.asarray(windows.max(axis=tuple(range(-axes, 0))))


@operator
def adaptive_avg_pool(input: np.ndarray, *, output_size: int | Sequence[int | None] | None, axes: int) -> Any:
    """Means of as many windows as asked for along each of the last axes; None keeps an axis."""
    x = doubles(input)
    sizes = [output_size] * axes if output_size is None or isinstance(output_size, int) else list(output_size)
    for axis, wanted in zip(range(-axes, 0), sizes, strict=True):
        length = x.shape[axis]
        count = length if wanted is None else wanted
        parts = [(at * length // count, -(-(at + 1) * length // count)) for at in range(count)]
        x = np.concatenate([mean(np.take(x, range(*part), axis=axis), axis) for part in parts], axis=axis)
    return x


def _windows(
    x: np.ndarray,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None,
    padding: int | Sequence[int],
    axes: int,
    fill: float,
    dilation: int | Sequence[int] = 1,
) -> np.ndarray:
    sizes, gaps = tuple_of(kernel_size, axes), tuple_of(dilation, axes)
    steps = tuple_of(stride, axes) if stride else sizes
    edges = [(0, 0)] * (x.ndim - axes) + [(edge, edge) for edge in tuple_of(padding, axes)]
    spans = tuple(gap * (size - 1) + 1 for gap, size in zip(gaps, sizes, strict=True))
    windows = sliding_window_view(np.pad(x, edges, constant_values=fill), spans, axis=tuple(range(-axes, 0)))
    every: list[Any] = [slice(None, None, step) for step in (*steps, *gaps)]
    return windows[(..., *every)]
