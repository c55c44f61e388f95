"""Table rows: attention."""

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt
from typing import Any

import numpy as np

from firstdiff.ops.arrays import doubles
from firstdiff.ops.attention import attention, multi_head_attention
from firstdiff.ops.plan import Plan
from firstdiff.ops.table.call import Call, UnrecordedError
from firstdiff.ops.table.row import Row, named


def _attention(call: Call) -> Iterator[Plan]:
    if float(call.told("dropout_p", default=0.0)) > 0:
        raise call.random()
    query, mask = call.array("query", "0"), call.optional("attn_mask", "3")
    arrays = {"query": query, "key": call.array("key", "1"), "value": call.array("value", "2"), "mask": mask}
    scale = call.told("scale", default=1.0 / sqrt(max(query.shape[-1], 1)))
    causal = bool(call.told("is_causal", default=False))
    softcap = call.told("softcap")
    yield Plan.of(attention, arrays, scale=float(scale), causal=causal, softcap=softcap)
    if mask is not None:  # older kernels give NaN for a query that sees nothing
        yield Plan.of(
            attention,
            arrays,
            scale=float(scale),
            causal=causal,
            softcap=softcap,
            masked_rows="nan",
            assumed=("masked_rows",),
        )


def _multi_head(call: Call) -> Iterator[Plan]:
    if call.told("training", default=False) and call.told("dropout", default=0.0) > 0:
        raise call.random()
    if call.optional("bias_k") is not None or call.told("add_zero_attn", default=False):
        raise UnrecordedError(f"{call.name} adds keys of its own", "capture with level='op'")
    query = call.array("query", "0")
    heads = int(call.needed("num_heads"))
    arrays: dict[str, Any] = {
        "query": query,
        "key": call.array("key", "1"),
        "value": call.array("value", "2"),
        **_projections(call),
        "out_weight": call.array("out_proj.weight"),
        "in_bias": call.optional("in_proj_bias"),
        "out_bias": call.optional("out_proj.bias"),
        "mask": _mask(call, heads),
    }
    with_weights = call.told("need_weights", "4", default=True)
    for rows in ("nan", "zero") if with_weights else ("zero", "nan"):
        yield Plan.of(
            multi_head_attention,
            arrays,
            heads=heads,
            batch_first=bool(call.told("batch_first", default=False)),
            scale=1.0 / sqrt(query.shape[-1] / heads),
            masked_rows=rows,
            average_weights=bool(call.told("average_attn_weights", "6", default=True)),
            assumed=() if arrays["mask"] is None else ("masked_rows",),
        )
        if arrays["mask"] is None:
            return


def _projections(call: Call) -> dict[str, np.ndarray]:
    names = ("query_weight", "key_weight", "value_weight")
    joined = call.optional("in_proj_weight")
    if joined is not None:
        return dict(zip(names, np.split(joined, 3), strict=True))
    return {name: call.array(f"{name[0]}_proj_weight") for name in names}


def _mask(call: Call, heads: int) -> np.ndarray | None:
    """Return what the two masks add to the scores; torch's boolean masks are True for hidden keys."""
    padding, pairs = call.optional("key_padding_mask", "3"), call.optional("attn_mask", "5")
    if pairs is not None and pairs.ndim == 3:
        batched = call.array("query", "0").ndim == 3
        pairs = pairs.reshape(-1, heads, *pairs.shape[1:]) if batched else pairs
    if padding is not None and padding.ndim == 2:
        padding = padding[:, None, None, :]
    added = [_added(mask) for mask in (padding, pairs) if mask is not None]
    return None if not added else added[0] if len(added) == 1 else np.asarray(added[0] + added[1])


def _added(mask: np.ndarray) -> np.ndarray:
    return np.where(mask, -np.inf, 0.0) if mask.dtype == np.bool_ else doubles(mask)


ROWS = (
    Row(supports=named("scaled_dot_product_attention"), plans=_attention, each_token_alone=False, autocasts=True),
    Row(supports=named("MultiheadAttention"), plans=_multi_head, each_token_alone=False, autocasts=True),
)
