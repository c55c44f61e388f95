"""Attention, and the calls recorded of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod, sqrt
from typing import Any

import numpy as np

from firstdiff.dtypes import doubles
from firstdiff.ops.arrays import operator
from firstdiff.ops.elementwise import softmax_in_place
from firstdiff.ops.linear import linear
from firstdiff.ops.plan import Plan
from firstdiff.ops.recorded_call import Call, Row, UnrecordedError, named

# queries per block are chosen so that the scores of a block stay below this many numbers
_BLOCK = 1 << 24


@dataclass(frozen=True, slots=True)
class _Scoring:
    causal: bool
    offset: int
    window: int | None
    scale: float | None
    softcap: float | None
    kv_heads: str
    masked_rows: str


@operator
def attention(
    query: np.ndarray,
    key: np.ndarray,
    value: np.ndarray,
    mask: np.ndarray | None = None,
    *,
    causal: bool = False,
    offset: int = 0,
    window: int | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    kv_heads: str = "repeat",
    masked_rows: str = "zero",
) -> Any:
    """Scaled dot-product attention over `[..., heads, tokens, size]`.

    mask: True where a key may be seen, or numbers that are added to the scores
    causal: query i sees keys up to `i + offset`
    window: and none further back than this many, itself included
    scale: of the scores; 1 / sqrt(size) if left out
    softcap: bends the scores to `softcap * tanh(score / softcap)`, before the mask
    kv_heads: fewer heads of keys than of queries: "repeat" (0 0 1 1) or "tile" (0 1 0 1)
    masked_rows: a query that sees nothing gives "zero" or "nan"
    """
    how = _Scoring(causal, offset, window, scale, softcap, kv_heads, masked_rows)
    values = _spread(doubles(value), doubles(query), kv_heads)
    blocks = _weights(query, key, mask, how)
    return np.concatenate([weights @ values for weights in blocks], axis=-2)


@operator
def attention_weights(
    query: np.ndarray,
    key: np.ndarray,
    mask: np.ndarray | None = None,
    *,
    causal: bool = False,
    offset: int = 0,
    window: int | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    kv_heads: str = "repeat",
    masked_rows: str = "nan",
) -> Any:
    """Return the weights alone, `[..., heads, queries, keys]`; the settings are those of `attention`."""
    how = _Scoring(causal, offset, window, scale, softcap, kv_heads, masked_rows)
    blocks = _weights(query, key, mask, how)
    return np.concatenate(list(blocks), axis=-2)


def multi_head_attention(
    query: np.ndarray,
    key: np.ndarray,
    value: np.ndarray,
    query_weight: np.ndarray,
    key_weight: np.ndarray,
    value_weight: np.ndarray,
    out_weight: np.ndarray,
    in_bias: np.ndarray | None = None,
    out_bias: np.ndarray | None = None,
    mask: np.ndarray | None = None,
    *,
    heads: int,
    batch_first: bool = True,
    causal: bool = False,
    scale: float | None = None,
    masked_rows: str = "zero",
    average_weights: bool = True,
) -> tuple[np.ndarray, np.ndarray]:
    """Compute projections, attention and the output projection; return the output and the weights.

    query, key, value: `[batch, tokens, size]`, or without the batch
    in_bias: the biases of query, key and value one after the other
    mask: as for `attention`, broadcast against `[batch, heads, queries, keys]`
    batch_first: False for `[tokens, batch, size]`
    average_weights: give the mean of the heads' weights
    """
    biases = [None] * 3 if in_bias is None else np.split(doubles(in_bias), 3)
    sides = ((query, query_weight, biases[0]), (key, key_weight, biases[1]), (value, value_weight, biases[2]))
    swap = not batch_first and doubles(query).ndim == 3
    parts = [_heads(linear(_swapped(x, swap), weight, bias), heads) for x, weight, bias in sides]
    q, k, v = parts
    weights = attention_weights(q, k, mask, causal=causal, scale=scale, masked_rows=masked_rows)
    gathered = weights @ v
    joined = gathered.swapaxes(-2, -3).reshape(*gathered.shape[:-3], gathered.shape[-2], -1)
    out = _swapped(linear(joined, out_weight, out_bias), swap)
    return out, weights.mean(axis=-3) if average_weights else weights


def _heads(x: np.ndarray, heads: int) -> np.ndarray:
    return x.reshape(*x.shape[:-1], heads, -1).swapaxes(-2, -3)


def _swapped(x: np.ndarray, swap: bool) -> np.ndarray:
    return x.swapaxes(0, 1) if swap else x


def _weights(query: np.ndarray, key: np.ndarray, mask: np.ndarray | None, how: _Scoring) -> Iterator[np.ndarray]:
    """Yield the weights for blocks of queries."""
    queries = doubles(query)
    keys = _spread(doubles(key), queries, how.kv_heads).swapaxes(-1, -2)
    factor = 1.0 / np.sqrt(queries.shape[-1]) if how.scale is None else how.scale
    count, seen = queries.shape[-2], keys.shape[-1]
    step = max(1, _BLOCK // max(1, prod(queries.shape[:-2]) * seen))
    for start in range(0, max(count, 1), step):
        scores = (queries[..., start : start + step, :] * factor) @ keys
        if how.softcap is not None:
            scores = how.softcap * np.tanh(scores / how.softcap)
        scores = _masked(scores, mask, start, step, count)
        if how.causal or how.window is not None:
            scores = np.where(_visible(start, scores.shape, how), scores, -np.inf)
        unseen = np.all(np.isneginf(scores), axis=-1)
        weights = softmax_in_place(np.array(scores), -1)
        if how.masked_rows == "zero":
            weights[unseen] = 0.0
        yield weights


def _masked(scores: np.ndarray, mask: np.ndarray | None, start: int, step: int, count: int) -> Any:
    if mask is None:
        return scores
    whole = np.asarray(mask)
    rows = whole[..., start : start + step, :] if whole.ndim > 1 and whole.shape[-2] == count else whole
    return np.where(rows, scores, -np.inf) if rows.dtype == np.bool_ else scores + doubles(rows)


def _visible(start: int, shape: tuple[int, ...], how: _Scoring) -> Any:
    last = (np.arange(start, start + shape[-2]) + how.offset)[:, None]
    keys = np.arange(shape[-1])
    seen = keys <= last if how.causal else np.ones((shape[-2], shape[-1]), dtype=bool)
    return seen if how.window is None else seen & (keys > last - how.window)


def _spread(x: np.ndarray, query: np.ndarray, how: str) -> np.ndarray:
    """Expand keys or values to the number of heads of the queries."""
    if x.ndim < 3 or query.ndim < 3 or x.shape[-3] in (1, query.shape[-3]):
        return x
    times, rest = divmod(query.shape[-3], x.shape[-3])
    if rest:
        raise ValueError(f"{query.shape[-3]} heads of queries cannot share {x.shape[-3]} of keys")
    if how == "repeat":
        return np.repeat(x, times, axis=-3)
    if how == "tile":
        return np.concatenate([x] * times, axis=-3)
    raise ValueError(f"kv_heads is {how!r}; it takes 'repeat' or 'tile'")


def _attention(call: Call) -> Iterator[Plan]:
    if float(call.told("dropout_p", default=0.0)) > 0:
        raise call.random()
    query, mask = call.array("query", "0"), call.optional("attn_mask", "3")
    arrays = {"query": query, "key": call.array("key", "1"), "value": call.array("value", "2"), "mask": mask}
    scale = call.told("scale", default=1.0 / sqrt(max(query.shape[-1], 1)))
    causal = bool(call.told("is_causal", default=False))
    softcap = call.told("softcap")
    yield Plan.of(attention, arrays, scale=float(scale), causal=causal, softcap=softcap)
    if mask is not None:  # older kernels give NaN for a fully masked query
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
