"""Table rows: embeddings."""

from __future__ import annotations

from collections.abc import Iterator

from firstdiff.ops.embedding import embedding
from firstdiff.ops.plan import Plan
from firstdiff.ops.table.call import Call
from firstdiff.ops.table.row import Row, named


def _embedding(call: Call) -> Iterator[Plan]:
    yield Plan.of(embedding, {"input": call.main(), "weight": call.array("weight")}, **call.read("max_norm").settings)


def _like_embedding(call: Call) -> Iterator[Plan]:
    """Subclasses scale the rows, or count them from elsewhere, and say so in an attribute."""
    read = call.read("max_norm", "offset", scale="embed_scale")
    arrays = {"input": call.main(), "weight": call.array("weight")}
    untold = tuple(name for name in read.assumed if name != "max_norm")
    yield Plan.of(embedding, arrays, assumed=untold, **read.settings)


def _is_like_embedding(call: Call) -> bool:
    """A table and whole numbers that choose from it; embeddings of other kinds have neither."""
    table = call.params.get("weight")
    whole = len(call.inputs) > 0 and all(values.dtype.kind in "iu" for values in call.inputs.values())
    by_name = call.op.endswith("Embedding") and "Position" not in call.op  # those count positions, and not their input
    return by_name and table is not None and table.ndim == 2 and whole


ROWS = (
    Row(supports=named("Embedding embedding"), plans=_embedding),
    Row(supports=_is_like_embedding, plans=_like_embedding),
)
