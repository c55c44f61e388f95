"""Table rows: operators that move or select values."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from firstdiff.ops import shaping as of
from firstdiff.ops.plan import Plan
from firstdiff.ops.table.call import Call, UnrecordedError
from firstdiff.ops.table.row import Row, named


def _several(call: Call) -> tuple[np.ndarray, ...]:
    """The members of a list, in order; one that is missing would shift the rest."""
    found: list[np.ndarray] = []
    for stem in ("tensors", "0"):
        while (slot := f"{stem}.{len(found)}") in call.inputs or slot in call.params:
            found.append(call.array(slot))
    slots = [slot for slot in (*call.inputs, *call.params) if slot.startswith(("tensors.", "0."))]
    if not found or len(found) != len(slots):
        raise UnrecordedError(f"not all parts of {call.name} were recorded", "capture without max_bytes")
    return tuple(found)


def _cat(call: Call) -> Iterator[Plan]:
    function = of.stack if call.op == "stack" else of.cat
    yield Plan.of(function, {"tensors": _several(call)}, dim=call.told("dim", "1", "axis", default=0))


def _chunk(call: Call) -> Iterator[Plan]:
    yield Plan.of(of.chunk, {"input": call.main()}, chunks=call.needed("chunks"), dim=call.told("dim", default=0))


def _split(call: Call) -> Iterator[Plan]:
    size = call.needed("split_size", "split_size_or_sections")
    yield Plan.of(of.split, {"input": call.main()}, size=size, dim=call.told("dim", default=0))


def _unbind(call: Call) -> Iterator[Plan]:
    yield Plan.of(of.unbind, {"input": call.main()}, dim=call.told("dim", default=0))


def _flip(call: Call) -> Iterator[Plan]:
    dims = call.needed("dims")
    yield Plan.of(of.flip, {"input": call.main()}, dims=dims if isinstance(dims, list | tuple) else (dims,))


def _roll(call: Call) -> Iterator[Plan]:
    yield Plan.of(of.roll, {"input": call.main()}, shifts=call.needed("shifts"), dims=call.told("dims"))


def _repeat(call: Call) -> Iterator[Plan]:
    yield Plan.of(of.repeat_interleave, {"input": call.main()}, repeats=call.needed("repeats"), dim=call.told("dim"))


def _where(call: Call) -> Iterator[Plan]:
    arrays = {"condition": call.array("condition"), "input": call.operand("input"), "other": call.operand("other")}
    yield Plan.of(of.where, arrays)


def _masked_fill(call: Call) -> Iterator[Plan]:
    value = call.operand("value")
    yield Plan.of(of.masked_fill, {"input": call.main(), "mask": call.array("mask")}, value=float(value))


def _triangle(call: Call) -> Iterator[Plan]:
    diagonal = call.told("diagonal", default=0)
    yield Plan.of(of.triangle, {"input": call.main()}, diagonal=diagonal, upper=call.op == "triu")


def _by_index(call: Call) -> Iterator[Plan]:
    function = of.gather if call.op == "gather" else of.index_select
    yield Plan.of(function, {"input": call.main(), "index": call.array("index")}, dim=call.needed("dim"))


def _pad(call: Call) -> Iterator[Plan]:
    yield Plan.of(of.pad, {"input": call.main()}, pad=call.needed("pad"), **call.read("mode", "value").settings)


ROWS = (
    Row(supports=named("cat stack Concat"), plans=_cat, each_token_alone=False),
    Row(supports=named("chunk"), plans=_chunk, each_token_alone=False),
    Row(supports=named("split"), plans=_split, each_token_alone=False),
    Row(supports=named("unbind"), plans=_unbind, each_token_alone=False),
    Row(supports=named("flip"), plans=_flip, each_token_alone=False),
    Row(supports=named("roll"), plans=_roll, each_token_alone=False),
    Row(supports=named("repeat_interleave"), plans=_repeat, each_token_alone=False),
    Row(supports=named("where"), plans=_where),
    Row(supports=named("masked_fill"), plans=_masked_fill),
    Row(supports=named("tril triu"), plans=_triangle, each_token_alone=False),
    Row(supports=named("gather index_select"), plans=_by_index, each_token_alone=False),
    Row(supports=named("pad"), plans=_pad, each_token_alone=False),
)
