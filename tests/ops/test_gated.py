"""Gated MLPs against torch, and as modules record them."""

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

from firstdiff.ops import NotReplayable
from firstdiff.ops.gated import gated_mlp, glu, mlp
from tests.ops.captured import assert_reproduced, function_call, operation
from tests.ops.oracle import assert_agrees, double, dtypes, seeds, values

GATES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "sigmoid": torch.sigmoid,
    "silu": functional.silu,
    "gelu": functional.gelu,
    "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "relu": functional.relu,
}


@settings(max_examples=40)
@given(
    seed=seeds,
    shape=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    axis=st.integers(0, 2),
    gate=st.sampled_from(sorted(GATES)),
    first=st.booleans(),
    interleaved=st.booleans(),
    dtype=dtypes,
)
def test_glu_and_its_kin_are_torchs(
    seed: int, shape: list[int], axis: int, gate: str, first: bool, interleaved: bool, dtype: np.dtype
) -> None:
    dim = axis % len(shape)
    shape[dim] *= 2
    x = values(seed, *shape, dtype=dtype)
    along = double(x).movedim(dim, -1)
    left, right = (along[..., 0::2], along[..., 1::2]) if interleaved else along.chunk(2, -1)
    wanted = (right * GATES[gate](left)) if first else (left * GATES[gate](right))
    found = glu(x, dim=dim, activation=gate, gate_first=first, interleaved=interleaved)
    assert_agrees(found, wanted.movedim(-1, dim))


def test_plain_glu_is_torchs() -> None:
    x = values(1, 3, 8, 5)
    assert_agrees(glu(x, dim=1), functional.glu(double(x), 1))


def test_an_odd_axis_has_no_halves() -> None:
    with pytest.raises(ValueError, match="7 has no halves"):
        glu(values(1, 3, 7))


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("gate", sorted(GATES))
def test_mlps_are_torchs(gate: str, biased: bool, transposed: bool) -> None:
    x = values(1, 2, 3, 8, dtype=np.dtype(np.float32))
    one, two, back = values(2, 12, 8), values(3, 12, 8), values(4, 8, 12)
    biases = [values(5 + n, size) if biased else None for n, size in enumerate((12, 12, 8))]
    hidden = GATES[gate](functional.linear(double(x), double(one), double(biases[0])))
    up = functional.linear(double(x), double(two), double(biases[1]))
    weights = [weight.T if transposed else weight for weight in (one, two, back)]
    found = gated_mlp(x, *weights, *biases, activation=gate, transposed=transposed)
    assert_agrees(found, functional.linear(hidden * up, double(back), double(biases[2])))
    found = mlp(x, weights[0], weights[2], biases[0], biases[2], activation=gate, transposed=transposed)
    assert_agrees(found, functional.linear(hidden, double(back), double(biases[2])))


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
