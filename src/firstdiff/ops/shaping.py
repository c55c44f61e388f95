"""Operators that move, repeat or choose values, and the calls recorded of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from firstdiff.dtypes import doubles
from firstdiff.ops.arrays import operator, whole_numbers
from firstdiff.ops.plan import Plan
from firstdiff.ops.recorded_call import Call, Row, UnrecordedError, named


@operator
def cat(tensors: Sequence[np.ndarray], *, dim: int = 0) -> Any:
    """Concatenate along an axis; empty vectors are ignored, as in torch."""
    parts = [doubles(item) for item in tensors]
    return np.concatenate([part for part in parts if part.shape != (0,)] or parts, axis=dim)


@operator
def stack(tensors: Sequence[np.ndarray], *, dim: int = 0) -> Any:
    """Stack along a new axis."""
    return np.stack([doubles(item) for item in tensors], axis=dim)


def split(input: np.ndarray, *, size: int | Sequence[int], dim: int = 0) -> tuple[np.ndarray, ...]:
    """Split into parts of `size` elements (the last may be shorter), or of the sizes given."""
    x = doubles(input)
    length = x.shape[dim]
    cuts = np.arange(size, length, size) if isinstance(size, int) else np.cumsum(size)[:-1]
    return tuple(np.split(x, cuts, axis=dim))


def chunk(input: np.ndarray, *, chunks: int, dim: int = 0) -> tuple[np.ndarray, ...]:
    """Split into at most `chunks` parts of one size (the last may be shorter)."""
    return split(input, size=max(1, -(-np.shape(input)[dim] // chunks)), dim=dim)


def unbind(input: np.ndarray, *, dim: int = 0) -> tuple[np.ndarray, ...]:
    """Return every slice along an axis."""
    return tuple(np.moveaxis(doubles(input), dim, 0))


@operator
def flip(input: np.ndarray, *, dims: Sequence[int]) -> Any:
    """Reverse the order along axes."""
    return np.flip(doubles(input), axis=tuple(dims))


@operator
def roll(input: np.ndarray, *, shifts: int | Sequence[int], dims: int | Sequence[int] | None = None) -> Any:
    """Roll elements along axes."""
    return np.roll(doubles(input), _exactly(shifts), axis=None if dims is None else _exactly(dims))


@operator
def repeat_interleave(input: np.ndarray, *, repeats: int, dim: int | None = None) -> Any:
    """Repeat each element several times in a row."""
    return np.repeat(doubles(input), repeats, axis=dim)


@operator
def where(condition: np.ndarray, input: Any, other: Any) -> Any:
    """`input` where the condition holds, `other` elsewhere."""
    return np.where(np.asarray(condition).astype(bool), doubles(input), doubles(other))


@operator
def masked_fill(input: np.ndarray, mask: np.ndarray, *, value: float) -> Any:
    """`value` where the mask holds."""
    return np.where(np.asarray(mask).astype(bool), value, doubles(input))


@operator
def triangle(input: np.ndarray, *, diagonal: int = 0, upper: bool = False) -> Any:
    """Return the lower, or upper, triangle of matrices; zeros elsewhere."""
    return (np.triu if upper else np.tril)(doubles(input), diagonal)


@operator
def gather(input: np.ndarray, index: np.ndarray, *, dim: int) -> Any:
    """Take the element at each index along an axis."""
    x, wanted = doubles(input), whole_numbers(index)
    others = [slice(None) if axis == dim % x.ndim else slice(size) for axis, size in enumerate(wanted.shape)]
    return np.take_along_axis(x[tuple(others)], wanted, axis=dim)


@operator
def index_select(input: np.ndarray, index: np.ndarray, *, dim: int) -> Any:
    """Take the slices at the indices along an axis."""
    return np.take(doubles(input), whole_numbers(index), axis=dim)


@operator
def pad(input: np.ndarray, *, pad: Sequence[int], mode: str = "constant", value: float = 0.0) -> Any:
    """Pad the ends of the last axes, the last one first; negative numbers crop.

    mode: "constant", "reflect", "replicate" or "circular"
    """
    x = doubles(input)
    pairs = [(int(before), int(after)) for before, after in zip(pad[0::2], pad[1::2], strict=True)]
    edges = [(0, 0)] * (x.ndim - len(pairs)) + pairs[::-1]
    kept = [slice(max(0, -before), size - max(0, -after)) for (before, after), size in zip(edges, x.shape, strict=True)]
    widths = [(max(0, before), max(0, after)) for before, after in edges]
    if mode == "constant":
        return np.pad(x[tuple(kept)], widths, constant_values=value)
    ways = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}
    return np.pad(x[tuple(kept)], widths, mode=ways[mode])  # type: ignore[call-overload]


def _exactly(value: int | Sequence[int]) -> int | tuple[int, ...]:
    return value if isinstance(value, int) else tuple(value)


def _several(call: Call) -> tuple[np.ndarray, ...]:
    """Return the members of a list in order; a missing one would shift the rest."""
    found: list[np.ndarray] = []
    for stem in ("tensors", "0"):
        while (slot := f"{stem}.{len(found)}") in call.inputs or slot in call.params:
            found.append(call.array(slot))
    slots = [slot for slot in (*call.inputs, *call.params) if slot.startswith(("tensors.", "0."))]
    if not found or len(found) != len(slots):
        raise UnrecordedError(f"not all parts of {call.name} were recorded", "capture without max_bytes")
    return tuple(found)


def _cat(call: Call) -> Iterator[Plan]:
    function = stack if call.op == "stack" else cat
    yield Plan.of(function, {"tensors": _several(call)}, dim=call.told("dim", "1", "axis", default=0))


def _chunk(call: Call) -> Iterator[Plan]:
    yield Plan.of(chunk, {"input": call.main()}, chunks=call.needed("chunks"), dim=call.told("dim", default=0))


def _split(call: Call) -> Iterator[Plan]:
    size = call.needed("split_size", "split_size_or_sections")
    yield Plan.of(split, {"input": call.main()}, size=size, dim=call.told("dim", default=0))


def _unbind(call: Call) -> Iterator[Plan]:
    yield Plan.of(unbind, {"input": call.main()}, dim=call.told("dim", default=0))


def _flip(call: Call) -> Iterator[Plan]:
    dims = call.needed("dims")
    yield Plan.of(flip, {"input": call.main()}, dims=dims if isinstance(dims, list | tuple) else (dims,))


def _roll(call: Call) -> Iterator[Plan]:
    yield Plan.of(roll, {"input": call.main()}, shifts=call.needed("shifts"), dims=call.told("dims"))


def _repeat(call: Call) -> Iterator[Plan]:
    yield Plan.of(repeat_interleave, {"input": call.main()}, repeats=call.needed("repeats"), dim=call.told("dim"))


def _where(call: Call) -> Iterator[Plan]:
    arrays = {"condition": call.array("condition"), "input": call.operand("input"), "other": call.operand("other")}
    yield Plan.of(where, arrays)


def _masked_fill(call: Call) -> Iterator[Plan]:
    value = call.operand("value")
    yield Plan.of(masked_fill, {"input": call.main(), "mask": call.array("mask")}, value=float(value))


def _triangle(call: Call) -> Iterator[Plan]:
    diagonal = call.told("diagonal", default=0)
    yield Plan.of(triangle, {"input": call.main()}, diagonal=diagonal, upper=call.op == "triu")


def _by_index(call: Call) -> Iterator[Plan]:
    function = gather if call.op == "gather" else index_select
    yield Plan.of(function, {"input": call.main(), "index": call.array("index")}, dim=call.needed("dim"))


def _pad(call: Call) -> Iterator[Plan]:
    yield Plan.of(pad, {"input": call.main()}, pad=call.needed("pad"), **call.read("mode", "value").settings)


_PAD_MODULES = {
    **{"Zero": "constant", "Constant": "constant", "Reflection": "reflect"},
    **{"Replication": "replicate", "Circular": "circular"},
}


def _pad_module(call: Call) -> Iterator[Plan]:
    """One of torch's modules, such as ZeroPad2d; all but the one of constants have no value."""
    mode, _, axes = call.op.partition("Pad")
    found = call.needed("padding")
    edges = (found,) * (2 * int(axes[0])) if isinstance(found, int) else found
    value = call.needed("value") if mode == "Constant" else 0.0
    yield Plan.of(pad, {"input": call.main()}, pad=edges, mode=_PAD_MODULES[mode], value=value)


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
    Row(
        supports=named(" ".join(f"{mode}Pad{axes}d" for mode in _PAD_MODULES for axes in (1, 2, 3))),
        plans=_pad_module,
        each_token_alone=False,
    ),
)
