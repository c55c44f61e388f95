"""Pooling and interpolation, and the calls recorded of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from firstdiff.dtypes import doubles
from firstdiff.ops.arrays import mean, operator, per_channel, tuple_of
from firstdiff.ops.plan import Plan
from firstdiff.ops.recorded_call import Call, Row, UnrecordedError, named


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
    """Return the mean of each window over the last `axes` axes.

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
    """Return the greatest of each window over the last `axes` axes."""
    x = doubles(input)
    windows = _windows(x, kernel_size, stride, padding, axes, -np.inf, dilation)
    return np.asarray(windows.max(axis=tuple(range(-axes, 0))))


@operator
def adaptive_avg_pool(input: np.ndarray, *, output_size: int | Sequence[int | None] | None, axes: int) -> Any:
    """Average a given number of windows along each of the last axes; None keeps an axis."""
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


# the point of an element that is sampled
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
    """Resize the axes after batch and channels to a size, or by a factor.

    mode: "nearest", "nearest-exact", or "linear", "bilinear", "trilinear" by the number of axes
    align_corners: first and last elements stay where they are
    """
    x = doubles(input)
    axes = range(2, x.ndim)
    sizes, factors = _per_axis(size, len(axes)), _per_axis(scale_factor, len(axes))
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


def _per_axis(value: Any, count: int) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value] * count


def _known(factor: float | None) -> float:
    if factor is None:
        raise ValueError("neither size nor scale_factor is given")
    return factor


def _of_each_rank(*stems: str) -> str:
    return " ".join(f"{stem}{n}{'d'}" for stem in stems for n in (1, 2, 3))


def _axes(call: Call) -> int:
    return int(call.op[-2])


def _avg(call: Call) -> Iterator[Plan]:
    _refuse_ceil(call)
    read = call.read("kernel_size", "stride", "padding", "count_include_pad").settings
    yield Plan.of(
        avg_pool, {"input": call.main()}, axes=_axes(call), **{"kernel_size": call.needed("kernel_size"), **read}
    )


def _max(call: Call) -> Iterator[Plan]:
    _refuse_ceil(call)
    read = call.read("stride", "padding", "dilation").settings
    yield Plan.of(max_pool, {"input": call.main()}, axes=_axes(call), kernel_size=call.needed("kernel_size"), **read)


def _adaptive(call: Call) -> Iterator[Plan]:
    size = call.needed("output_size")
    yield Plan.of(adaptive_avg_pool, {"input": call.main()}, axes=_axes(call), output_size=size)


def _interpolate(call: Call) -> Iterator[Plan]:
    if call.told("antialias", default=False):
        raise UnrecordedError(f"{call.name} smooths as it shrinks, which is not replayed", "capture with level='op'")
    read = call.read("size", "scale_factor", "mode", "align_corners").settings
    if call.told("recompute_scale_factor", default=False):
        lengths, factors = call.main().shape[2:], read.pop("scale_factor")
        each = factors if isinstance(factors, list) else [factors] * len(lengths)
        read["size"] = [int(length * factor) for length, factor in zip(lengths, each, strict=True)]
    yield Plan.of(interpolate, {"input": call.main()}, **read)


def _refuse_ceil(call: Call) -> None:
    if call.told("ceil_mode", default=False):
        raise UnrecordedError(f"{call.name} pools in ceil_mode, which is not replayed", "capture with level='op'")


ROWS = (
    Row(supports=named(_of_each_rank("AvgPool", "avg_pool")), plans=_avg, each_token_alone=False),
    Row(supports=named(_of_each_rank("MaxPool", "max_pool")), plans=_max, each_token_alone=False),
    Row(supports=named(_of_each_rank("AdaptiveAvgPool", "adaptive_avg_pool")), plans=_adaptive, each_token_alone=False),
    Row(supports=named("interpolate Upsample"), plans=_interpolate, each_token_alone=False),
)
