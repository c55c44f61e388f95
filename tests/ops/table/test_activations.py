from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from firstdiff.ops import Replayed, replay
from tests.ops.captured import assert_reproduced, function_call, operation
from tests.ops.oracle import values

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
