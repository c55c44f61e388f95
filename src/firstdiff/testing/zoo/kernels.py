"""Other kernels for the same operations: sums in another order, functions rounded once from float64.

Works below the level of a capture, so that a candidate records the same calls as its reference with other bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from firstdiff.capturing.noise_floor import nudged

Kernel = Callable[..., Any]
_aten = torch.ops.aten


class OtherKernels(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sum in another order in all operations inside the `with`.

    seed: chooses the order
    """

    def __init__(self, seed: int = 0) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._seed = seed

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        named = kwargs or {}
        kernel = _KERNELS.get(function)
        if kernel is None or not _is_float(args):
            return function(*args, **named)
        return kernel(self._order, function, *args, **named)

    def _order(self, size: int) -> torch.Tensor:
        return torch.randperm(size, generator=torch.Generator().manual_seed(self._seed * 1_000_003 + size))


Order = Callable[[int], torch.Tensor]


def _is_float(args: tuple[Any, ...]) -> bool:
    first = next((value for value in args if isinstance(value, torch.Tensor)), None)
    return first is not None and first.is_floating_point() and first.numel() > 0


def _mm(order: Order, function: Any, a: torch.Tensor, b: torch.Tensor) -> Any:
    if a.shape[-1] == 1:  # positions by frequencies have no order to change, but a table may be rounded differently
        return nudged(function(a, b))
    p = order(a.shape[-1])
    return function(a[..., p], b[..., p, :])


def _addmm(order: Order, function: Any, bias: torch.Tensor, a: torch.Tensor, b: torch.Tensor, **scales: Any) -> Any:
    p = order(a.shape[-1])
    return function(bias, a[..., p], b[..., p, :], **scales)


def _convolution(order: Order, function: Any, x: torch.Tensor, weight: torch.Tensor, *rest: Any) -> Any:
    transposed, groups = rest[4], rest[6]
    if groups != 1 or x.shape[1] == 1:
        return _through_float64(order, function, x, weight, *rest)
    p = order(x.shape[1])
    return function(x[:, p], weight[p] if transposed else weight[:, p], *rest)


def _layer_norm(order: Order, function: Any, x: torch.Tensor, shape: Any, weight: Any, bias: Any, eps: float) -> Any:
    if len(shape) != 1:
        return _through_float64(order, function, x, shape, weight, bias, eps)
    p = order(x.shape[-1])
    back = torch.argsort(p)
    found = function(x[..., p], shape, weight if weight is None else weight[p], bias if bias is None else bias[p], eps)
    return found[0][..., back], found[1], found[2]


def _softmax(_: Order, function: Any, x: torch.Tensor, dim: int, half_to_float: bool) -> Any:
    return function(x.flip(dim), dim, half_to_float).flip(dim)


def _reduction(_: Order, function: Any, x: torch.Tensor, dim: Any = None, *rest: Any, **named: Any) -> Any:
    dims = [dim] if isinstance(dim, int) else list(dim or range(x.dim()))
    return function(x.flip(dims), dim, *rest, **named)


def _attention(
    order: Order,
    _: Any,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    _dropout: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: torch.Tensor | None = None,
    scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    width, keys = order(q.shape[-1]), order(k.shape[-2])
    scores = (q[..., width] @ k[..., width].transpose(-1, -2)) * (scale or 1 / math.sqrt(q.shape[-1]))
    if is_causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), -torch.inf)
    if attn_mask is not None:
        scores = scores + attn_mask
    weights = scores.softmax(-1)
    return weights[..., keys] @ v[..., keys, :], scores.logsumexp(-1)


def _through_float64(_: Order, function: Any, *args: Any, **named: Any) -> Any:
    dtype = next(value.dtype for value in args if isinstance(value, torch.Tensor))
    wide = [value.double() if _is_wide(value) else value for value in args]
    found = function(*wide, **named)
    return tuple(value.to(dtype) for value in found) if isinstance(found, tuple) else found.to(dtype)


def _is_wide(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _embedding(_: Order, function: Any, weight: torch.Tensor, *rest: Any) -> torch.Tensor:
    """Return a table as if stored in another file: half precision is exact, wider dtypes round."""
    found: torch.Tensor = function(weight, *rest)
    return nudged(found) if found.element_size() > 2 else found


_KERNELS: dict[Any, Kernel] = {
    _aten.mm.default: _mm,
    _aten.bmm.default: _mm,
    _aten.addmm.default: _addmm,
    _aten.baddbmm.default: _addmm,
    _aten.convolution.default: _convolution,
    _aten.native_layer_norm.default: _layer_norm,
    _aten._softmax.default: _softmax,
    _aten._log_softmax.default: _softmax,
    _aten.mean.dim: _reduction,
    _aten.sum.dim_IntList: _reduction,
    _aten.var.correction: _reduction,
    _aten._scaled_dot_product_flash_attention_for_cpu.default: _attention,
    _aten.embedding.default: _embedding,
    **dict.fromkeys(
        (
            _aten.native_group_norm.default,
            _aten.native_batch_norm.default,
            _aten._native_batch_norm_legit_no_training.default,
            *(_aten.gelu.default, _aten.silu.default, _aten.tanh.default, _aten.sigmoid.default, _aten.erf.default),
            *(_aten.exp.default, _aten.log.default, _aten.sin.default, _aten.cos.default, _aten.rsqrt.default),
        ),
        _through_float64,
    ),
}
