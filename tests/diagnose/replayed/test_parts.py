from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.diagnose.pairs import Calls, assert_first, assert_not_sure_of, compared, randn

X = [randn(2, 9, 32)]
THREE = [randn(2, 2, 9, 8, seed=seed) for seed in range(3)]


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        (lambda x: functional.glu(x), lambda x: functional.glu(torch.cat(x.chunk(2, -1)[::-1], -1))),  # noqa: PLW0108
        (lambda x: torch.cat((x, 2 * x), -1), lambda x: torch.cat((2 * x, x), -1)),
        (lambda x: x - x.mean(-1, keepdim=True), lambda x: x.mean(-1, keepdim=True) - x),
    ],
    ids=["gate", "cat", "sub"],
)
def test_parts_in_the_place_of_each_other(tmp_path: Path, right: Any, wrong: Any) -> None:
    found = compared(Calls(right), Calls(wrong), X, tmp_path)
    assert found.diagnosis
    assert found.diagnosis[0].cause in ("layout.chunk_swap", "sign.flip"), found.diagnosis


class Attention(nn.Module):
    def __init__(self, order: tuple[int, int, int] = (0, 1, 2)) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.qkv, self.order = nn.Linear(32, 96), order

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = [part.reshape(2, 9, 4, 8).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1)]
        q, k, v = (parts[at] for at in self.order)
        return functional.scaled_dot_product_attention(q, k, v)


@pytest.mark.parametrize("order", [(1, 0, 2), (0, 2, 1), (2, 0, 1)])
def test_query_key_and_value_in_another_order(tmp_path: Path, order: tuple[int, int, int]) -> None:
    found = compared(Attention(), Attention(order), X, tmp_path)
    assert found.diagnosis
    assert found.diagnosis[0].cause in ("layout.qkv_order", "layout.chunk_swap"), found.diagnosis


class Modulated(nn.Module):
    """Shift and scale come out of one layer."""

    def __init__(self, *order: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.both, self.order = nn.Linear(32, 64), order

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = self.both(x).chunk(2, dim=-1)
        shift, scale = (parts[at] for at in self.order)
        return x * (1 + scale) + shift


@pytest.mark.parametrize("bare", [False, True])
def test_an_operation_on_another_part(tmp_path: Path, bare: bool) -> None:
    cause = assert_first(compared(Modulated(0, 1), Modulated(1, 0), X, tmp_path, bare=bare), "layout.chunk_swap")
    assert "root.chunk in place of root.chunk:out.1" in cause.evidence


class Gated(Modulated):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = self.both(x).chunk(2, dim=-1)
        gate, up = (parts[at] for at in self.order)
        return nn.functional.gelu(gate) * up


def test_an_input_that_is_another_part_is_not_taken_for_an_old_value(tmp_path: Path) -> None:
    assert_first(compared(Gated(0, 1), Gated(1, 0), X, tmp_path), "layout.chunk_swap")


@pytest.mark.parametrize("cause", ["layout.qkv_order", "layout.chunk_swap"])
def test_another_fault_is_not_taken_for_another_order(tmp_path: Path, cause: str) -> None:
    made = Attention()
    with torch.no_grad():
        made.qkv.bias.add_(0.3)
    found = compared(Attention(), made, X, tmp_path)
    assert found.verdict == "mismatch"
    assert_not_sure_of(found, cause)


def test_the_same_order_has_no_cause(tmp_path: Path) -> None:
    assert compared(Attention(), Attention(), X, tmp_path).verdict == "match"
