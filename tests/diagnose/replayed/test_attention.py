from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional

from tests.diagnose.pairs import Calls, assert_first, assert_not_sure_of, compared, randn

HEADS, TOKENS, SIZE = 4, 12, 16
QKV = [2.0 * randn(2, HEADS, TOKENS, SIZE, seed=seed) for seed in range(3)]
SHARED = [QKV[0], *(2.0 * randn(2, 2, TOKENS, SIZE, seed=seed) for seed in (3, 4))]


def causal(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **more: Any) -> torch.Tensor:
    return functional.scaled_dot_product_attention(q, k, v, is_causal=True, **more)


def masked(diagonal: int = 0, window: int = 100) -> Any:
    seen = torch.ones(TOKENS, TOKENS, dtype=torch.bool).tril(diagonal).triu(1 - window)
    return lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, attn_mask=seen)


def in_steps(scale: float = SIZE**-0.5, cap: float | None = None, dim: int = -1, future: int = 1) -> Any:
    def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        scores = (q @ k.transpose(-1, -2)) * scale
        if cap:
            scores = cap * torch.tanh(scores / cap)
        hidden = torch.ones(TOKENS, TOKENS, dtype=torch.bool).triu(future)
        return functional.softmax(scores.masked_fill(hidden, -1e9), dim=dim) @ v

    return attention


@pytest.mark.parametrize(
    "wrong",
    [functional.scaled_dot_product_attention, masked(1), masked(window=4)],
    ids=["missing", "one more", "window"],
)
def test_another_mask(tmp_path: Path, wrong: Any) -> None:
    assert_first(compared(Calls(causal), Calls(wrong), QKV, tmp_path), "attention.mask")


def test_a_mask_where_there_should_be_none(tmp_path: Path) -> None:
    assert_first(
        compared(Calls(functional.scaled_dot_product_attention), Calls(causal), QKV, tmp_path, bare=True),
        "attention.mask",
    )


@pytest.mark.parametrize("scale", [1.0, 1 / SIZE, 0.31])
def test_another_scale(tmp_path: Path, scale: float) -> None:
    found = compared(Calls(causal), Calls(lambda q, k, v: causal(q, k, v, scale=scale)), QKV, tmp_path)
    cause = assert_first(found, "attention.scale")
    assert "instead of 0.25" in cause.evidence


def test_another_scale_in_front_of_softmax(tmp_path: Path) -> None:
    assert_first(compared(Calls(in_steps()), Calls(in_steps(1.0)), QKV, tmp_path), "attention.scale")


@pytest.mark.parametrize("cap", [2.0, 50.0, 3.7])
def test_scores_that_are_capped(tmp_path: Path, cap: float) -> None:
    def capped(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        with torch._C.DisableTorchFunction():
            return in_steps(cap=cap)(q, k, v)  # type: ignore[no-any-return]

    found = compared(Calls(causal), Calls(causal), QKV, tmp_path)
    assert found.verdict == "match"

    class Fused(Calls):
        def forward(self, *inputs: Any) -> Any:
            return capped(*inputs)

    found = compared(Calls(causal), Fused(None), QKV, tmp_path)
    assert_first(found, "attention.softcap", 0.85)


def test_softmax_along_the_queries(tmp_path: Path) -> None:
    cause = assert_first(compared(Calls(in_steps()), Calls(in_steps(dim=-2)), QKV, tmp_path), "softmax.axis")
    assert "along axis 2 instead of 3" in cause.evidence


def test_heads_tiled_instead_of_repeated(tmp_path: Path) -> None:
    def shared(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, tiled: bool = False) -> torch.Tensor:
        k, v = (x.repeat(1, 2, 1, 1) if tiled else x.repeat_interleave(2, dim=1) for x in (k, v))
        return causal(q, k, v)

    found = compared(Calls(shared), Calls(lambda *qkv: shared(*qkv, tiled=True)), SHARED, tmp_path)
    assert_first(found, "attention.kv_heads")


@pytest.mark.parametrize("cause", ["attention.mask", "attention.scale", "attention.softcap", "attention.kv_heads"])
def test_another_fault_is_not_taken_for_one_of_attention(tmp_path: Path, cause: str) -> None:
    found = compared(Calls(causal), Calls(lambda q, k, v: causal(q, k, v.roll(1, -1))), QKV, tmp_path)
    assert found.verdict == "mismatch"
    assert_not_sure_of(found, cause)


def test_healthy_attention_in_steps_has_no_cause(tmp_path: Path) -> None:
    assert compared(Calls(in_steps()), Calls(in_steps(1 / math.sqrt(SIZE))), QKV, tmp_path).verdict == "match"
