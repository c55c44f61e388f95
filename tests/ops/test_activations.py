"""Activations against torch, and as modules and functions record them."""

from __future__ import annotations

import math
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

from firstdiff.ops import Replayed, replay
from firstdiff.ops import activations as of
from tests.ops.captured import assert_reproduced, function_call, operation
from tests.ops.oracle import assert_agrees, double, dtypes, seeds, values

PAIRS: dict[str, tuple[Callable[..., np.ndarray], Callable[[torch.Tensor], torch.Tensor]]] = {
    "identity": (of.identity, lambda x: x),
    "relu": (of.relu, functional.relu),
    "relu_squared": (of.relu_squared, lambda x: functional.relu(x) ** 2),
    "sigmoid": (of.sigmoid, torch.sigmoid),
    "gelu": (of.gelu, functional.gelu),
    "gelu_tanh": (lambda x: of.gelu(x, approximate="tanh"), lambda x: functional.gelu(x, approximate="tanh")),
    "gelu_quick": (lambda x: of.gelu(x, approximate="quick"), lambda x: x * torch.sigmoid(1.702 * x)),
    "silu": (of.silu, functional.silu),
    "swish": (lambda x: of.silu(x, beta=1.5), lambda x: x * torch.sigmoid(1.5 * x)),
    "mish": (of.mish, functional.mish),
    "tanh": (of.tanh, torch.tanh),
    "softplus": (of.softplus, functional.softplus),
    "softplus_sharp": (lambda x: of.softplus(x, beta=3.0, threshold=5.0), lambda x: functional.softplus(x, 3.0, 5.0)),
    "leaky_relu": (of.leaky_relu, functional.leaky_relu),
    "leaky_relu_steep": (lambda x: of.leaky_relu(x, negative_slope=0.3), lambda x: functional.leaky_relu(x, 0.3)),
    "elu": (of.elu, functional.elu),
    "elu_high": (lambda x: of.elu(x, alpha=2.5), lambda x: functional.elu(x, 2.5)),
    "selu": (of.selu, functional.selu),
    "celu": (lambda x: of.celu(x, alpha=0.7), lambda x: functional.celu(x, 0.7)),
    "hardswish": (of.hardswish, functional.hardswish),
    "hardsigmoid": (of.hardsigmoid, functional.hardsigmoid),
    "logsigmoid": (of.logsigmoid, functional.logsigmoid),
    "clamp": (lambda x: of.clamp(x, min=-0.5, max=1.0), lambda x: torch.clamp(x, -0.5, 1.0)),
    "clamp_above": (lambda x: of.clamp(x, max=1.0), lambda x: torch.clamp(x, max=1.0)),
}
EXTREMES = np.array(
    [0.0, -0.0, 1e-320, -1e-320, 1e-8, 38.0, -38.0, 709.0, -709.0, 1e6, -1e6, 1e100, np.inf, -np.inf, np.nan]
)


@pytest.mark.parametrize("name", PAIRS)
@settings(max_examples=12)
@given(seed=seeds, scale=st.sampled_from([0.01, 1.0, 30.0]), dtype=dtypes)
def test_activations_are_torchs(name: str, seed: int, scale: float, dtype: np.dtype) -> None:
    ours, theirs = PAIRS[name]
    x = values(seed, 3, 17, dtype=dtype, scale=scale)
    assert_agrees(ours(x), theirs(double(x)))


@pytest.mark.parametrize("name", PAIRS)
def test_extremes_are_torchs(name: str) -> None:
    ours, theirs = PAIRS[name]
    cancelled = 1e-14 if name == "gelu" else 1e-322  # torch has 1 + erf(x), whose digits are gone far below 0
    wanted = theirs(double(EXTREMES)).numpy()
    np.testing.assert_allclose(ours(EXTREMES), wanted, rtol=1e-12, atol=cancelled)


@pytest.mark.parametrize("name", PAIRS)
def test_a_lone_number_and_none_at_all(name: str) -> None:
    ours, theirs = PAIRS[name]
    for x in (np.array(0.7), np.zeros((0, 4))):
        assert_agrees(ours(x), theirs(double(x)))


def test_gelu_keeps_its_digits_where_it_is_tiny() -> None:
    assert of.gelu(np.array(-12.0)) == pytest.approx(-6.0 * math.erfc(12 / math.sqrt(2)), rel=1e-13)


@pytest.mark.parametrize("logarithmic", [False, True])
@pytest.mark.parametrize("shape", [(1, 4, 1), (4,)], ids=str)
def test_snake_is_its_formula(logarithmic: bool, shape: tuple[int, ...]) -> None:
    x, alpha, beta = values(1, 2, 4, 9), np.abs(values(2, *shape)), np.abs(values(3, *shape))
    a, b = (double(item).reshape(1, 4, 1) for item in (alpha, beta))
    a, b = (a.exp(), b.exp()) if logarithmic else (a, b)
    wanted = double(x) + torch.sin(double(x) * a) ** 2 / (b + 1e-9)
    assert_agrees(of.snake(x, alpha, beta, logarithmic=logarithmic), wanted)
    wanted = double(x) + torch.sin(double(x) * a) ** 2 / (a + 1e-9)
    assert_agrees(of.snake(x, alpha, logarithmic=logarithmic), wanted)


@pytest.mark.parametrize("slopes", [1, 4])
def test_prelu_is_torchs(slopes: int) -> None:
    x, weight = values(1, 2, 4, 3), values(2, slopes)
    assert_agrees(of.prelu(x, weight), functional.prelu(double(x), double(weight)))


@pytest.mark.parametrize("name", of.ACTIVATIONS)
def test_every_activation_has_its_name(name: str) -> None:
    x = values(1, 5)
    np.testing.assert_array_equal(of.activate(x, activation=name), of.ACTIVATIONS[name](x))


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ValueError, match="no activation is called 'sine'"):
        of.activate(np.zeros(1), activation="sine")
    with pytest.raises(ValueError, match="approximate is 'erf'"):
        of.gelu(np.zeros(1), approximate="erf")


X = torch.randn(2, 6, 8, generator=torch.Generator().manual_seed(1)) * 3

MODULES: list[Callable[[], nn.Module]] = [
    *(nn.ReLU, nn.ReLU6, nn.GELU, nn.SiLU, nn.Mish, nn.Tanh, nn.Sigmoid, nn.LogSigmoid, nn.Softplus, nn.LeakyReLU),
    *(nn.ELU, nn.CELU, nn.SELU, nn.Hardswish, nn.Hardsigmoid, nn.Hardtanh, nn.PReLU, nn.Identity, nn.Softsign),
    nn.Tanhshrink,
    lambda: nn.GELU("tanh"),
    lambda: nn.Softplus(beta=2.0, threshold=3.0),
    lambda: nn.LeakyReLU(0.3),
    lambda: nn.ELU(0.5),
    lambda: nn.Hardtanh(-0.5, 2.0),
    lambda: nn.PReLU(6),
    lambda: nn.Softmax(1),
    lambda: nn.LogSoftmax(-1),
    lambda: nn.Dropout(0.5).eval(),
    lambda: nn.Dropout(0.0),
]


class NewGELUActivation(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.gelu(x, approximate="tanh")


class GELUActivation(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.gelu(x)


class QuickGELU(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.sigmoid(1.702 * x)


class OurGelu(NewGELUActivation):
    pass


class TheirGELU(QuickGELU):
    pass


class SnakeBeta(nn.Module):
    def __init__(self, told: bool) -> None:
        super().__init__()
        if told:
            self.alpha_logscale = True
        self.alpha = nn.Parameter(torch.linspace(-1, 1, 6))
        self.beta = nn.Parameter(torch.linspace(1, -1, 6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        alpha, beta = (item.exp()[None, :, None] for item in (self.alpha, self.beta))
        return x + torch.sin(x * alpha) ** 2 / (beta + 1e-9)


@pytest.mark.parametrize("module", MODULES, ids=range(len(MODULES)))
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_modules(tmp_path: Path, module: Callable[[], nn.Module], dtype: torch.dtype) -> None:
    again = assert_reproduced(operation(module().to(dtype), tmp_path, X.to(dtype)))
    assert again.plan.assumed == ()


@pytest.mark.parametrize(
    ("module", "approximate"),
    [
        (NewGELUActivation, "tanh"),
        (GELUActivation, "none"),
        (QuickGELU, "quick"),
        (OurGelu, "tanh"),
        (TheirGELU, "quick"),
    ],
)
def test_gelu_has_many_names(tmp_path: Path, module: Callable[[], nn.Module], approximate: str) -> None:
    assert_reproduced(operation(module(), tmp_path, X), "gelu", approximate=approximate)


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_a_gelu_that_does_not_tell_its_kind_is_settled_by_the_numbers(tmp_path: Path, approximate: str) -> None:
    from dataclasses import replace

    found = replace(operation(nn.GELU(approximate), tmp_path, X), attrs={})
    assert_reproduced(found, "gelu", approximate=approximate)


@pytest.mark.parametrize("told", [False, True])
def test_snake(tmp_path: Path, told: bool) -> None:
    again = assert_reproduced(operation(SnakeBeta(told), tmp_path, X), "snake", logarithmic=True)
    assert again.plan.assumed == (() if told else ("logarithmic",))


@pytest.mark.parametrize(
    "function",
    [
        *(functional.relu, functional.gelu, functional.silu, functional.mish, torch.tanh, torch.sigmoid, torch.erf),
        *(functional.softplus, functional.leaky_relu, functional.elu, functional.celu, functional.hardswish),
        *(
            torch.exp,
            torch.log1p,
            torch.sin,
            torch.cos,
            torch.rsqrt,
            torch.square,
            torch.reciprocal,
            torch.neg,
            torch.abs,
        ),
        lambda x: functional.gelu(x, approximate="tanh"),
        lambda x: functional.leaky_relu(x, 0.2),
        lambda x: functional.softplus(x, 2.0, 1.0),
        lambda x: torch.softmax(x, 1),
        lambda x: x.softmax(dim=0),
        lambda x: functional.log_softmax(x, dim=-1, dtype=torch.float32),
        lambda x: x.clamp(-1, 2),
        lambda x: torch.clamp(x, min=0.5),
        lambda x: functional.hardtanh(x, -2, 0.5),
        lambda x: -x,
        lambda x: functional.relu_(x.clone()),
    ],
)
def test_functions(tmp_path: Path, function: Callable[..., Any]) -> None:
    assert_reproduced(function_call(function, tmp_path, X.abs() + 0.1))
    assert_reproduced(function_call(function, tmp_path, X))


def test_one_that_does_not_tell_its_setting_has_it_assumed() -> None:
    again = replay("LeakyReLU", {}, {"0": values(1, 3)}, {})
    assert isinstance(again, Replayed)
    assert again.plan.assumed == ("negative_slope",)
