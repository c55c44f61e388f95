"""Scaled dot-product attention."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from firstdiff.ops.arrays import doubles
from firstdiff.ops.linear import linear
from firstdiff.ops.operator import operator
from firstdiff.ops.softmax import softmax_in_place

# Scores are made for as many queries at a time as keeps them below this many numbers
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
    """The weights alone, `[..., heads, queries, keys]`; the settings are those of `attention`."""
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
    """Projections, attention and the output's projection; returns the output and the weights.

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
    """The weights of a few queries at a time."""
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
    """Keys or values with as many heads as the queries have."""
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
