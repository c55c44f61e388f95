"""Embeddings, sorting, top-k and index operators, and the calls recorded of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from firstdiff.dtypes import doubles
from firstdiff.ops.arrays import operator, whole_numbers
from firstdiff.ops.plan import Plan
from firstdiff.ops.recorded_call import Call, Row, named


@operator
def embedding(
    input: np.ndarray, weight: np.ndarray, *, scale: float = 1.0, offset: int = 0, max_norm: float | None = None
) -> Any:
    """`weight[input + offset] * scale`.

    max_norm: rows longer than this are shortened to it
    """
    rows = whole_numbers(input) + offset
    if rows.size and (rows.min() < 0 or rows.max() >= len(weight)):
        raise ValueError(f"row {rows.min() if rows.min() < 0 else rows.max()} is not among the {len(weight)} there are")
    taken = doubles(weight[rows])
    if max_norm is not None:
        lengths = np.linalg.norm(taken, axis=-1, keepdims=True)
        taken = np.where(lengths > max_norm, taken * (max_norm / (lengths + 1e-7)), taken)
    return taken * scale


def topk(input: np.ndarray, *, k: int, dim: int = -1, largest: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """Return the k greatest (or least) along an axis, best first, and their indices; of ties the first."""
    values, places = sort(input, dim=dim, descending=largest)
    return np.take(values, range(k), axis=dim), np.take(places, range(k), axis=dim)


def sort(input: np.ndarray, *, dim: int = -1, descending: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Sort values along an axis, and return their indices; ties stay in order, NaN is the greatest."""
    x = doubles(input)
    if x.ndim == 0:
        return x, np.zeros((), dtype=np.int64)
    ascending = x[_turned(x.ndim, dim)] if descending else x
    places = np.argsort(ascending, axis=dim, kind="stable")
    if descending:
        places = x.shape[dim] - 1 - places[_turned(x.ndim, dim)]
    return np.take_along_axis(x, places, axis=dim), places


@operator
def argmax(input: np.ndarray, *, dim: int | None = None, keepdim: bool = False) -> Any:
    """Return the index of the maximum along an axis or of all; the first of ties, NaN before everything."""
    return np.argmax(doubles(input), axis=dim, keepdims=keepdim)


@operator
def one_hot(tensor: np.ndarray, *, num_classes: int = -1) -> Any:
    """One-hot encode integers; with as many classes as needed unless given."""
    numbers = whole_numbers(tensor)
    classes = int(numbers.max()) + 1 if num_classes < 0 else num_classes
    return (numbers[..., None] == np.arange(classes)).astype(np.float64)


@operator
def index_add(input: np.ndarray, index: np.ndarray, source: np.ndarray, *, dim: int, alpha: float = 1.0) -> Any:
    """Add slices of `source` to `input` at the indices, repeated ones several times."""
    out = np.moveaxis(doubles(input), dim, 0).copy()
    np.add.at(out, whole_numbers(index), alpha * np.moveaxis(doubles(source), dim, 0))
    return np.moveaxis(out, 0, dim)


def _turned(ndim: int, dim: int) -> tuple[slice, ...]:
    return tuple(slice(None, None, -1) if axis == dim % ndim else slice(None) for axis in range(ndim))


def _embedding(call: Call) -> Iterator[Plan]:
    yield Plan.of(embedding, {"input": call.main(), "weight": call.array("weight")}, **call.read("max_norm").settings)


def _like_embedding(call: Call) -> Iterator[Plan]:
    """Read a subclass of an embedding, whose attributes may scale the rows or offset the indices."""
    read = call.read("max_norm", "offset", scale="embed_scale")
    arrays = {"input": call.main(), "weight": call.array("weight")}
    untold = tuple(name for name in read.assumed if name != "max_norm")
    yield Plan.of(embedding, arrays, assumed=untold, **read.settings)


def _is_like_embedding(call: Call) -> bool:
    """True for a table and integer indices into it; embeddings of other kinds have neither."""
    table = call.params.get("weight")
    whole = len(call.inputs) > 0 and all(values.dtype.kind in "iu" for values in call.inputs.values())
    by_name = call.op.endswith("Embedding") and "Position" not in call.op  # those embed positions, not their input
    return by_name and table is not None and table.ndim == 2 and whole


EMBEDDING_ROWS = (
    Row(supports=named("Embedding embedding"), plans=_embedding),
    Row(supports=_is_like_embedding, plans=_like_embedding),
)


def _topk(call: Call) -> Iterator[Plan]:
    settings = call.read("dim", "largest").settings
    yield Plan.of(topk, {"input": call.main()}, k=call.needed("k"), **settings)


def _sort(call: Call) -> Iterator[Plan]:
    yield Plan.of(sort, {"input": call.main()}, **call.read("dim", "descending").settings)


def _argmax(call: Call) -> Iterator[Plan]:
    keep = bool(call.told("keepdim", "2", default=False))
    yield Plan.of(argmax, {"input": call.main()}, dim=call.told("dim"), keepdim=keep)


def _one_hot(call: Call) -> Iterator[Plan]:
    yield Plan.of(one_hot, {"tensor": call.main()}, **call.read("num_classes").settings)


def _index_add(call: Call) -> Iterator[Plan]:
    arrays = {"input": call.main(), "index": call.array("index"), "source": call.array("source")}
    yield Plan.of(index_add, arrays, dim=call.needed("dim"), **call.read("alpha").settings)


SELECTION_ROWS = (
    Row(supports=named("topk"), plans=_topk, each_token_alone=False),
    Row(supports=named("sort"), plans=_sort, each_token_alone=False),
    Row(supports=named("argmax"), plans=_argmax, each_token_alone=False),
    Row(supports=named("one_hot"), plans=_one_hot),
    Row(supports=named("index_add"), plans=_index_add, each_token_alone=False),
)
