"""Table rows: reductions."""

from __future__ import annotations

from collections.abc import Iterator

from firstdiff.ops.plan import Plan
from firstdiff.ops.reductions import cumulate, logsumexp, reduce, variance
from firstdiff.ops.table.call import Call
from firstdiff.ops.table.row import Row, named


def _reduce(call: Call) -> Iterator[Plan]:
    keep = bool(call.told("keepdim", "2", default=False))
    yield Plan.of(reduce, {"input": call.main()}, kind=call.op, dim=call.told("dim"), keepdim=keep)


def _variance(call: Call) -> Iterator[Plan]:
    """Its axes may be left out and `unbiased` stand in their place: `x.var(False)`."""
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
