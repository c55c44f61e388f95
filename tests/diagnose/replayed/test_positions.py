from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.diagnose.pairs import assert_first, assert_not_sure_of, compared, randn

HEADS, TOKENS, SIZE = 2, 12, 16
QK = [randn(1, HEADS, TOKENS, SIZE, seed=0), randn(1, HEADS, TOKENS, SIZE, seed=1)]


def half(x: torch.Tensor) -> torch.Tensor:
    one, two = x.chunk(2, dim=-1)
    return torch.cat((-two, one), dim=-1)


def neighbours(x: torch.Tensor) -> torch.Tensor:
    return torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).flatten(-2)


class RotaryEmbedding(nn.Module):
    def __init__(self, base: float, offset: int) -> None:
        super().__init__()
        self.offset = offset
        self.register_buffer("inv_freq", base ** (-torch.arange(0, SIZE, 2).float() / SIZE))

    def forward(self, x: torch.Tensor, positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        with torch._C.DisableTorchFunction():
            angles = (positions + self.offset)[:, :, None].float() * self.inv_freq
            angles = torch.cat((angles, angles), dim=-1)
            return angles.cos(), angles.sin()


def apply_rotary_pos_emb(
    q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, pairs: str
) -> tuple[torch.Tensor, ...]:
    if pairs == "back":
        sin, pairs = -sin, "half"
    if pairs == "neighbours":
        cos, sin = (x[..., : SIZE // 2].repeat_interleave(2, dim=-1) for x in (cos, sin))
    turn = half if pairs == "half" else neighbours
    return tuple(x * cos[:, None] + turn(x) * sin[:, None] for x in (q, k))


class Rotary(nn.Module):
    def __init__(self, *, base: float = 10000.0, offset: int = 0, pairs: str = "half") -> None:
        super().__init__()
        self.rotary_emb, self.pairs = RotaryEmbedding(base, offset), pairs

    def forward(self, q: torch.Tensor, k: torch.Tensor) -> tuple[torch.Tensor, ...]:
        cos, sin = self.rotary_emb(q, torch.arange(TOKENS)[None])
        return apply_rotary_pos_emb(q, k, cos, sin, self.pairs)


@pytest.mark.parametrize("base", [500000.0, 1000000.0, 12345.0])
def test_another_base_of_rotary_embeddings(tmp_path: Path, base: float) -> None:
    cause = assert_first(compared(Rotary(), Rotary(base=base), QK, tmp_path, bare=True), "rope.base")
    assert f"with a base of {base:.6g} instead of 10000" in cause.evidence


def test_rotary_positions_that_begin_elsewhere(tmp_path: Path) -> None:
    assert_first(compared(Rotary(), Rotary(offset=1), QK, tmp_path, bare=True), "position.offset")


class Table(nn.Module):
    """Learned positions."""

    def __init__(self, offset: int = 0) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.offset, self.wpe = offset, nn.Embedding(64, SIZE)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.wpe(torch.arange(TOKENS)[None] + self.offset)  # type: ignore[no-any-return]


def test_learned_positions_that_begin_elsewhere(tmp_path: Path) -> None:
    found = compared(Table(), Table(offset=2), [randn(1, TOKENS, SIZE)], tmp_path, bare=True)
    assert_first(found, "position.offset")


@pytest.mark.parametrize("model", [Rotary, Table])
def test_the_same_positions_have_no_cause(tmp_path: Path, model: Any) -> None:
    inputs = QK if model is Rotary else [randn(1, TOKENS, SIZE)]
    assert compared(model(), model(), inputs, tmp_path).verdict == "match"


@pytest.mark.parametrize("cause", ["rope.base", "position.offset"])
def test_another_scale_is_not_taken_for_positions(tmp_path: Path, cause: str) -> None:
    made = Rotary()
    made.rotary_emb.register_forward_hook(lambda *given: tuple(1.1 * x for x in given[2]))
    found = compared(Rotary(), made, QK, tmp_path)
    assert found.verdict == "mismatch"
    assert_not_sure_of(found, cause)
