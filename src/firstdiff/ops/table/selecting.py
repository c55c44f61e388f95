"""Table rows: sorting, top-k and index operators."""

from __future__ import annotations

from collections.abc import Iterator

from firstdiff.ops import selecting as of
from firstdiff.ops.plan import Plan
from firstdiff.ops.table.call import Call
from firstdiff.ops.table.row import Row, named


def _topk(call: Call) -> Iterator[Plan]:
    settings = call.read("dim", "largest").settings
    yield Plan.of(of.topk, {"input": call.main()}, k=call.needed("k"), **settings)


def _sort(call: Call) -> Iterator[Plan]:
    yield Plan.of(of.sort, {"input": call.main()}, **call.read("dim", "descending").settings)


def _argmax(call: Call) -> Iterator[Plan]:
    keep = bool(call.told("keepdim", "2", default=False))
    yield Plan.of(of.argmax, {"input": call.main()}, dim=call.told("dim"), keepdim=keep)


def _one_hot(call: Call) -> Iterator[Plan]:
    yield Plan.of(of.one_hot, {"tensor": call.main()}, **call.read("num_classes").settings)


def _index_add(call: Call) -> Iterator[Plan]:
    arrays = {"input": call.main(), "index": call.array("index"), "source": call.array("source")}
    yield Plan.of(of.index_add, arrays, dim=call.needed("dim"), **call.read("alpha").settings)


ROWS = (
    Row(supports=named("topk"), plans=_topk, each_token_alone=False),
    Row(supports=named("sort"), plans=_sort, each_token_alone=False),
    Row(supports=named("argmax"), plans=_argmax, each_token_alone=False),
    Row(supports=named("one_hot"), plans=_one_hot),
    Row(supports=named("index_add"), plans=_index_add, each_token_alone=False),
)
