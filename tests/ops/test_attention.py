"""Attention against torch, and as modules and functions record it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
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
from tests.ops.captured import Operation, assert_reproduced, function_call, operations
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


G = torch.Generator().manual_seed(1)
Q, KV = torch.randn(2, 4, 6, 8, generator=G), torch.randn(2, 2, 6, 8, generator=G)
X = torch.randn(2, 6, 16, generator=G)
SEEN = torch.rand(2, 1, 6, 6, generator=G) < 0.7
SEEN[0, 0, 2] = False  # a query that sees nothing
HIDDEN = torch.rand(6, 6, generator=G) < 0.3

sdpa = functional.scaled_dot_product_attention


@pytest.mark.parametrize(
    "function",
    [
        lambda q, k: sdpa(q, q, q),
        lambda q, k: sdpa(q, q * 2, q, is_causal=True, scale=0.3),
        lambda q, k: sdpa(q, q, q, SEEN),
        lambda q, k: sdpa(q, q, q, attn_mask=torch.where(SEEN, 0.0, float("-inf")).to(q.dtype)),
        lambda q, k: sdpa(q, k, k, enable_gqa=True, is_causal=True),
        lambda q, k: sdpa(q[:, :, :3], q, q),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_attention_by_function(tmp_path: Path, function: Callable[..., Any], dtype: torch.dtype) -> None:
    assert_reproduced(function_call(function, tmp_path, Q.to(dtype), KV.to(dtype)), "attention")


def test_the_scale_is_a_number_also_where_it_was_left_out(tmp_path: Path) -> None:
    assert_reproduced(function_call(lambda q: sdpa(q, q, q), tmp_path, Q), "attention", scale=1 / 8**0.5)


def multi_head(path: Path, module: nn.Module, *args: Any, **kwargs: Any) -> Operation:
    return next(found for found in operations(module, path, *args, **kwargs) if found.name == "root")


@pytest.mark.filterwarnings("ignore::firstdiff.capturing.CaptureWarning")
@pytest.mark.parametrize(
    "how",
    [
        {},
        {"attn_mask": HIDDEN},
        {"attn_mask": torch.where(HIDDEN, -1e4, 0.0)},
        {"key_padding_mask": torch.tensor([[False] * 6, [False] * 4 + [True] * 2])},
        {"key_padding_mask": torch.tensor([[False] * 6, [True] * 6]), "attn_mask": HIDDEN},
        {"need_weights": False},
        {"average_attn_weights": False},
        {"attn_mask": HIDDEN.repeat(8, 1, 1)},
    ],
)
@pytest.mark.parametrize("batch_first", [False, True])
def test_multi_head_attention_of_torch(tmp_path: Path, how: dict[str, Any], batch_first: bool) -> None:
    module = nn.MultiheadAttention(16, 4, batch_first=batch_first).eval()
    x = X if batch_first else X.transpose(0, 1)
    assert_reproduced(multi_head(tmp_path, module, x, x, x, **how), "multi_head_attention", heads=4)


@pytest.mark.filterwarnings("ignore::firstdiff.capturing.CaptureWarning")
def test_keys_and_values_of_other_sizes(tmp_path: Path) -> None:
    module = nn.MultiheadAttention(16, 4, kdim=8, vdim=12, batch_first=True, bias=False).eval()
    found = multi_head(tmp_path, module, X, X[..., :8].contiguous(), X[..., :12].contiguous())
    assert_reproduced(found, "multi_head_attention")


@pytest.mark.filterwarnings("ignore::firstdiff.capturing.CaptureWarning")
def test_without_a_batch(tmp_path: Path) -> None:
    module = nn.MultiheadAttention(16, 4).eval()
    assert_reproduced(multi_head(tmp_path, module, X[0], X[0], X[0]), "multi_head_attention")
