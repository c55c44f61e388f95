from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

from firstdiff.ops import attention as module
from firstdiff.ops.attention import attention, attention_weights, multi_head_attention
from tests.ops.oracle import assert_agrees, double, dtypes, seeds, values


@st.composite
def masks(draw: st.DrawFn) -> tuple[str, list[int]]:
    """A kind of mask, and which of its axes are spread."""
    return draw(st.sampled_from(["none", "bool", "added", "rows"])), draw(st.sampled_from([[], [0], [1], [0, 1], [2]]))


def mask_of(seed: int, kind: str, spread: list[int], shape: tuple[int, ...]) -> np.ndarray | None:
    shape = tuple(1 if axis in spread else size for axis, size in enumerate(shape))
    chosen = np.random.default_rng(seed).random(shape) < 0.6
    if kind == "none":
        return None
    if kind == "rows":  # whole rows that see nothing
        chosen[..., 0, :] = False
    return np.where(chosen, values(seed, *shape), -np.inf) if kind == "added" else chosen


@settings(max_examples=100)
@given(
    seed=seeds,
    batch=st.integers(1, 2),
    heads=st.sampled_from([(1, 1), (2, 2), (4, 2), (6, 3), (4, 1)]),
    lengths=st.tuples(st.integers(1, 6), st.integers(1, 6)),
    sizes=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    mask=masks(),
    causal=st.booleans(),
    scale=st.sampled_from([None, 1.0, 0.05]),
    dtype=dtypes,
)
def test_attention_is_torchs(
    seed: int,
    batch: int,
    heads: tuple[int, int],
    lengths: tuple[int, int],
    sizes: tuple[int, int],
    mask: tuple[str, list[int]],
    causal: bool,
    scale: float | None,
    dtype: np.dtype,
) -> None:
    (outer, inner), (queries, keys), (size, width) = heads, lengths, sizes
    query = values(seed, batch, outer, queries, size, dtype=dtype, scale=2.0)
    key = values(seed + 1, batch, inner, keys, size, dtype=dtype, scale=2.0)
    value = values(seed + 2, batch, inner, keys, width, dtype=dtype)
    seen = None if causal else mask_of(seed, *mask, (batch, outer, queries, keys))
    wanted = functional.scaled_dot_product_attention(
        *(double(item) for item in (query, key, value)),
        attn_mask=torch.from_numpy(seen) if seen is not None else None,
        is_causal=causal,
        scale=scale,
        enable_gqa=outer != inner,
    )
    assert_agrees(attention(query, key, value, seen, causal=causal, scale=scale), wanted)


def eager(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, change: Any = lambda scores: scores
) -> torch.Tensor:
    scores = query @ key.mT / query.shape[-1] ** 0.5
    return torch.softmax(change(scores), -1) @ value


@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_softcap_bends_the_scores(scale: float) -> None:
    q, k, v = (values(n, 2, 3, 5, 4, scale=scale) for n in range(3))
    wanted = eager(double(q), double(k), double(v), lambda scores: 30 * torch.tanh(scores / 30))
    assert_agrees(attention(q, k, v, softcap=30.0), wanted)


@pytest.mark.parametrize(("offset", "window"), [(0, 2), (3, None), (3, 2), (-1, 4)])
def test_windows_and_offsets(offset: int, window: int | None) -> None:
    q, k, v = values(0, 2, 4, 4), values(1, 2, 7, 4), values(2, 2, 7, 4)
    places = torch.arange(4)[:, None] + offset
    seen = torch.arange(7) <= places
    if window is not None:
        seen &= torch.arange(7) > places - window
    wanted = functional.scaled_dot_product_attention(double(q), double(k), double(v), attn_mask=seen)
    assert_agrees(attention(q, k, v, causal=True, offset=offset, window=window), wanted)


def test_heads_of_keys_may_be_tiled() -> None:
    q, k, v = values(0, 1, 4, 3, 5), values(1, 1, 2, 6, 5), values(2, 1, 2, 6, 5)
    wanted = eager(double(q), double(k).tile(1, 2, 1, 1), double(v).tile(1, 2, 1, 1))
    assert_agrees(attention(q, k, v, kv_heads="tile"), wanted)
    assert np.abs(attention(q, k, v) - attention(q, k, v, kv_heads="tile")).max() > 0.01


def test_a_query_that_sees_nothing_gives_zero_or_nan() -> None:
    q, seen = values(0, 3, 4), np.array([[True] * 3, [False] * 3, [True] * 3])
    assert (attention(q, q, q, seen)[1] == 0).all()
    assert np.isnan(attention(q, q, q, seen, masked_rows="nan")[1]).all()
    assert np.isfinite(attention(q, q, q, seen, masked_rows="nan")[[0, 2]]).all()


def test_the_lowest_finite_number_is_a_mask_too() -> None:
    q, low = values(0, 3, 4), np.where(np.tri(3), 0.0, np.finfo(np.float32).min)
    assert_agrees(attention(q, q, q, low), eager(*[double(q)] * 3, lambda scores: scores + double(low)))


@pytest.mark.parametrize("scale", [1e3, 1e-160, 1e150])
def test_huge_and_tiny_scores(scale: float) -> None:
    q, v = values(0, 5, 4) * scale, values(1, 5, 4)
    assert_agrees(attention(q, q, v), functional.scaled_dot_product_attention(double(q), double(q), double(v)))


def test_weights_alone() -> None:
    q, k = values(0, 2, 3, 4), values(1, 2, 5, 4)
    assert_agrees(attention_weights(q, k), torch.softmax(double(q) @ double(k).mT / 2, -1))


def test_blocks_give_what_one_piece_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    q, k, v = (values(n, 2, 3, 9, 4) for n in range(3))
    mask = np.random.default_rng(1).random((2, 1, 9, 9)) < 0.7
    whole = attention(q, k, v, mask, causal=True)
    monkeypatch.setattr(module, "_BLOCK", 100)
    np.testing.assert_allclose(attention(q, k, v, mask, causal=True), whole, rtol=1e-13, atol=1e-13)


def test_no_queries_and_no_keys() -> None:
    assert attention(np.zeros((2, 0, 4)), np.zeros((2, 3, 4)), np.zeros((2, 3, 5))).shape == (2, 0, 5)
    assert (attention(np.zeros((2, 3, 4)), np.zeros((2, 0, 4)), np.zeros((2, 0, 5))) == np.zeros((2, 3, 5))).all()


def test_heads_that_cannot_be_shared_are_refused() -> None:
    q, k = values(0, 1, 4, 3, 5), values(1, 1, 3, 3, 5)
    with pytest.raises(ValueError, match="4 heads of queries cannot share 3"):
        attention(q, k, k)
    with pytest.raises(ValueError, match="kv_heads is 'mirror'"):
        attention(values(0, 1, 6, 3, 5), k, k, kv_heads="mirror")


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("average", [False, True])
def test_multi_head_attention_is_torchs(batch_first: bool, average: bool) -> None:
    torch_module = nn.MultiheadAttention(8, 2, batch_first=batch_first).double()
    held = {name: item.detach().numpy() for name, item in torch_module.named_parameters()}
    shape = (3, 5) if batch_first else (5, 3)
    query, key = values(1, *shape, 8), values(2, *(shape if batch_first else (7, 3)), 8)
    wanted = torch_module(double(query), double(key), double(key), average_attn_weights=average)
    found = multi_head_attention(
        query,
        key,
        key,
        *np.split(held["in_proj_weight"], 3),
        held["out_proj.weight"],
        held["in_proj_bias"],
        held["out_proj.bias"],
        heads=2,
        batch_first=batch_first,
        average_weights=average,
    )
    assert_agrees(found[0], wanted[0])
    assert_agrees(found[1], wanted[1])
