"""Convolutions, and the calls recorded of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from firstdiff.ops.arrays import operator, per_channel, reals, tuple_of
from firstdiff.ops.plan import Plan
from firstdiff.ops.recorded_call import Call, Row, named

Padding = int | str | Sequence[int | Sequence[int]]

_PAD_MODES = {"zeros": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
# windows are copied for the matrix product in blocks of at most this many numbers
_BLOCK = 1 << 23


@operator
def conv(
    input: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray | None = None,
    *,
    stride: int | Sequence[int] = 1,
    padding: Padding = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    padding_mode: str = "zeros",
) -> Any:
    """Convolve, in the sense of torch (the kernel is not flipped), over the axes of the weight beyond two.

    input: `[batch, in, ...]`, or without the batch
    weight: `[out, in / groups, ...]`
    padding: a number for each axis, a pair of before and after, "same" or "valid"
    padding_mode: "zeros", "reflect", "replicate" or "circular"
    """
    kernel = reals(weight)
    axes = kernel.ndim - 2
    x, batched = _batched(reals(input), axes)
    steps, gaps = tuple_of(stride, axes), tuple_of(dilation, axes)
    x = _padded(x, paddings(padding, kernel.shape[2:], gaps), padding_mode)
    spans = tuple(gap * (size - 1) + 1 for gap, size in zip(gaps, kernel.shape[2:], strict=True))
    windows = sliding_window_view(x, spans, axis=tuple(range(2, 2 + axes)))
    take = (*(slice(None, None, step) for step in steps), *(slice(None, None, gap) for gap in gaps))
    out = _grouped_product(windows[(slice(None), slice(None), *take)], kernel, groups)
    if bias is not None:
        out += per_channel(reals(bias), out.ndim)
    return out if batched else out[0]


@operator
def conv_transpose(
    input: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray | None = None,
    *,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    groups: int = 1,
    dilation: int | Sequence[int] = 1,
) -> Any:
    """Convolve transposed: every input element adds a scaled kernel to the output.

    weight: `[in, out / groups, ...]`
    padding: elements cut off both ends of the result
    output_padding: elements added at its far end
    """
    kernel = reals(weight)
    axes = kernel.ndim - 2
    x, batched = _batched(reals(input), axes)
    steps, gaps = tuple_of(stride, axes), tuple_of(dilation, axes)
    cut, extra = tuple_of(padding, axes), tuple_of(output_padding, axes)
    laid = _laid_down(x, kernel, groups, steps, gaps, extra)
    inner = [slice(edge, size - edge) for edge, size in zip(cut, laid.shape[2:], strict=True)]
    out = laid[(slice(None), slice(None), *inner)]
    if bias is not None:
        out = out + per_channel(reals(bias), out.ndim)
    return out if batched else out[0]


def paddings(padding: Padding, kernel: Sequence[int], dilation: Sequence[int]) -> list[tuple[int, int]]:
    """Return the padding before and after each axis."""
    if padding == "valid":
        return [(0, 0)] * len(kernel)
    if padding == "same":
        totals = [gap * (size - 1) for gap, size in zip(dilation, kernel, strict=True)]
        return [(total // 2, total - total // 2) for total in totals]
    if isinstance(padding, str):
        raise ValueError(f"padding is {padding!r}; it takes numbers, 'same' or 'valid'")
    each: list[Any] = [padding] if isinstance(padding, int) else list(padding)
    each = each * len(kernel) if len(each) == 1 else each
    return [(int(item[0]), int(item[1])) if isinstance(item, list | tuple) else (int(item), int(item)) for item in each]


def _batched(x: np.ndarray, axes: int) -> tuple[np.ndarray, bool]:
    return (x, True) if x.ndim == axes + 2 else (x[None], False)


def _padded(x: np.ndarray, edges: list[tuple[int, int]], mode: str) -> np.ndarray:
    if not any(before or after for before, after in edges):
        return x
    return np.pad(x, [(0, 0), (0, 0), *edges], mode=_PAD_MODES[mode])  # type: ignore[call-overload, no-any-return]


def _grouped_product(windows: np.ndarray, kernel: np.ndarray, groups: int) -> np.ndarray:
    """Multiply windows `[batch, in, *places, *kernel]` with the kernel, in blocks of the first place."""
    axes = kernel.ndim - 2
    batch, channels, *places = windows.shape[: 2 + axes]
    inner = kernel.shape[1] * prod(kernel.shape[2:])
    matrix = kernel.reshape(groups, kernel.shape[0] // groups, inner)
    split = windows.reshape(batch, groups, channels // groups, *windows.shape[2:])
    order = (0, 1, 2, *range(3 + axes, 3 + 2 * axes), *range(3, 3 + axes))
    out = np.empty((batch, groups, kernel.shape[0] // groups, *places))
    step = max(1, _BLOCK // max(1, batch * groups * inner * prod(places[1:])))
    for start in range(0, places[0], step):
        block = split[:, :, :, start : start + step].transpose(order)  # [batch, groups, in / groups, *kernel, *places]
        columns = block.reshape(batch, groups, inner, prod(block.shape[-axes:]))
        rows = out[:, :, :, start : start + step]
        rows[...] = (matrix @ columns).reshape(rows.shape)
    return out.reshape(batch, kernel.shape[0], *places)


def _laid_down(
    x: np.ndarray,
    kernel: np.ndarray,
    groups: int,
    steps: Sequence[int],
    gaps: Sequence[int],
    extra: Sequence[int],
) -> np.ndarray:
    batch, channels, *places = x.shape
    sizes = kernel.shape[2:]
    outputs = kernel.shape[1]
    matrix = kernel.reshape(groups, channels // groups, outputs * prod(sizes)).swapaxes(1, 2)
    parts = (matrix @ x.reshape(batch, groups, channels // groups, prod(places))).reshape(
        batch, groups * outputs, *sizes, *places
    )
    lengths = [
        step * (n - 1) + gap * (size - 1) + 1 + more
        for step, n, gap, size, more in zip(steps, places, gaps, sizes, extra, strict=True)
    ]
    laid = np.zeros((batch, groups * outputs, *lengths))
    for tap in product(*map(range, sizes)):
        where = tuple(
            slice(gap * at, gap * at + step * (n - 1) + 1, step)
            for gap, at, step, n in zip(gaps, tap, steps, places, strict=True)
        )
        laid[(slice(None), slice(None), *where)] += parts[(slice(None), slice(None), *tap)]
    return laid


def _arrays(call: Call) -> dict[str, object]:
    return {"input": call.main(), "weight": call.weight(), "bias": call.optional("bias")}


def _conv(call: Call) -> Iterator[Plan]:
    read = call.read("stride", "padding", "dilation", "groups", "padding_mode")
    yield Plan.of(conv, _arrays(call), assumed=read.assumed, **read.settings)


def _conv_transpose(call: Call) -> Iterator[Plan]:
    read = call.read("stride", "padding", "output_padding", "groups", "dilation")
    yield Plan.of(conv_transpose, _arrays(call), assumed=read.assumed, **read.settings)


ROWS = (
    Row(
        supports=named("Conv1d Conv2d Conv3d conv1d conv2d conv3d"), plans=_conv, each_token_alone=False, autocasts=True
    ),
    Row(
        supports=named(*(f"ConvTranspose{n}d conv_transpose{n}d" for n in (1, 2, 3))),
        plans=_conv_transpose,
        each_token_alone=False,
        autocasts=True,
    ),
)
