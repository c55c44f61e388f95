"""Sums, means and extremes along axes, and the calls recorded of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from firstdiff.dtypes import doubles
from firstdiff.ops.arrays import mean, operator
from firstdiff.ops.plan import Plan
from firstdiff.ops.recorded_call import Call, Row, named

_BY_NAME: dict[str, Callable[..., Any]] = {
    "mean": lambda x, axis, keepdims: mean(x, axis, keepdims=keepdims),
    "sum": np.sum,
    "prod": np.prod,
    "amax": np.max,
    "amin": np.min,
}


@operator
def reduce(input: np.ndarray, *, kind: str, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Any:
    """Reduce along axes or over everything by "mean", "sum", "prod", "amax" or "amin"."""
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
    """Return the variance along axes, or its root.

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
    """Return the logarithm of the sum of exponentials, without overflow."""
    x, axes = doubles(input), _axes(dim)
    top = np.max(x, axis=axes, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    total = np.log(np.sum(np.exp(x - top), axis=axes, keepdims=True)) + top
    return total if keepdim else np.squeeze(total, axis=axes)


@operator
def cumulate(input: np.ndarray, *, dim: int, product: bool = False) -> Any:
    """Return running sums, or products, along an axis."""
    return (np.cumprod if product else np.cumsum)(doubles(input), axis=dim)


def _axes(dim: int | Sequence[int] | None) -> int | tuple[int, ...] | None:
    if dim is None or isinstance(dim, int):
        return dim
    return tuple(dim) or None


def _reduce(call: Call) -> Iterator[Plan]:
    keep = bool(call.told("keepdim", "2", default=False))
    yield Plan.of(reduce, {"input": call.main()}, kind=call.op, dim=call.told("dim"), keepdim=keep)


def _variance(call: Call) -> Iterator[Plan]:
    """Read a variance, whose first argument may be `unbiased` in place of the axes: `x.var(False)`."""
    dim = call.told("dim")
    unbiased = dim if isinstance(dim, bool) else call.told("unbiased", "2", default=True)
    yield Plan.of(
        variance,
        {"input": call.main()},
        dim=None if isinstance(dim, bool) else dim,
        keepdim=bool(call.told("keepdim", "3", default=False)),
        correction=int(call.told("correction", default=1 if unbiased else 0)),
        root=call.op == "std",
    )


def _logsumexp(call: Call) -> Iterator[Plan]:
    keep = bool(call.told("keepdim", "2", default=False))
    yield Plan.of(logsumexp, {"input": call.main()}, dim=call.needed("dim"), keepdim=keep)


def _cumulate(call: Call) -> Iterator[Plan]:
    yield Plan.of(cumulate, {"input": call.main()}, dim=call.needed("dim"), product=call.op == "cumprod")


ROWS = (
    Row(supports=named("mean sum prod amax amin"), plans=_reduce, each_token_alone=False),
    Row(supports=named("var std"), plans=_variance, each_token_alone=False),
    Row(supports=named("logsumexp"), plans=_logsumexp, each_token_alone=False),
    Row(supports=named("cumsum cumprod"), plans=_cumulate, each_token_alone=False),
)
