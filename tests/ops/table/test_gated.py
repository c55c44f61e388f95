from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from firstdiff.ops import NotReplayable
from tests.ops.captured import assert_reproduced, function_call, operation

X = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(1))
ACTS: dict[str, Callable[..., torch.Tensor]] = {
    "silu": functional.silu,
    "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "gelu": functional.gelu,
    "relu": functional.relu,
}


class GatedMLP(nn.Module):
    def __init__(self, act: str, names: tuple[str, str, str], told: bool = False, width: int = 12) -> None:
        super().__init__()
        self._act, self._names = ACTS[act], names
        if told:
            self.hidden_act = act
        for name, (size, out) in zip(names, ((8, width), (8, width), (width, 8)), strict=True):
            setattr(self, name, nn.Linear(size, out, bias=name == "down_proj"))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, up, down = (getattr(self, name) for name in self._names)
        return down(self._act(gate(x)) * up(x))


class FusedMLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate_up_proj, self.down_proj = nn.Linear(8, 24), nn.Linear(12, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, up = self.gate_up_proj(x).chunk(2, -1)
        return self.down_proj(functional.silu(gate) * up)


class FeedForward(nn.Module):
    def __init__(self, act: str) -> None:
        super().__init__()
        self._act = ACTS[act]
        self.fc1, self.fc2 = nn.Linear(8, 12), nn.Linear(12, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc2(self._act(self.fc1(x)))


class ResidualMLP(FeedForward):
    """An MLP that does more than it says."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + super().forward(x)


class SwiGLU(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, value = x.chunk(2, -1)
        return functional.silu(gate) * value


class GEGLU(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        value, gate = x.chunk(2, -1)
        return value * functional.gelu(gate)


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("names", [("gate_proj", "up_proj", "down_proj"), ("w1", "w3", "w2"), ("wi_0", "wi_1", "wo")])
def test_the_activation_of_a_gated_mlp_is_settled_by_the_numbers(
    tmp_path: Path, act: str, names: tuple[str, str, str]
) -> None:
    again = assert_reproduced(operation(GatedMLP(act, names), tmp_path, X), "gated_mlp", activation=act)
    assert again.plan.assumed == ("activation",)


def test_a_recorded_activation_is_not_assumed(tmp_path: Path) -> None:
    module = GatedMLP("silu", ("gate_proj", "up_proj", "down_proj"), told=True)
    again = assert_reproduced(operation(module, tmp_path, X), "gated_mlp", activation="silu")
    assert again.plan.assumed == ()


def test_gate_and_up_in_one_weight(tmp_path: Path) -> None:
    assert_reproduced(operation(FusedMLP(), tmp_path, X), "gated_mlp", activation="silu")


@pytest.mark.parametrize("act", ACTS)
def test_plain_mlps(tmp_path: Path, act: str) -> None:
    assert_reproduced(operation(FeedForward(act), tmp_path, X), "mlp", activation=act)


def test_an_mlp_that_does_more_is_left_alone(tmp_path: Path) -> None:
    found = operation(ResidualMLP("gelu"), tmp_path, X).reproduce()
    assert isinstance(found, NotReplayable)
    assert "does not give its recorded output again" in found.reason


@pytest.mark.parametrize(("module", "settings"), [(SwiGLU, {"gate_first": True}), (GEGLU, {"gate_first": False})])
def test_which_half_is_the_gate_is_settled_by_the_numbers(
    tmp_path: Path, module: Callable[[], nn.Module], settings: dict[str, Any]
) -> None:
    assert_reproduced(operation(module(), tmp_path, X), "glu", **settings)


@pytest.mark.parametrize("dim", [-1, 2])
def test_glu_of_torch(tmp_path: Path, dim: int) -> None:
    assert_reproduced(operation(nn.GLU(dim), tmp_path, X), "glu", activation="sigmoid")
    assert_reproduced(function_call(lambda x: functional.glu(x, dim), tmp_path, X), "glu")
