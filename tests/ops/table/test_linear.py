from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from firstdiff.ops import NotReplayable, replay
from tests.ops.captured import assert_reproduced, function_call, operation
from tests.ops.oracle import values

X = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(1))


class Conv1D(nn.Module):
    """GPT-2's linear layer, its weight stored the other way round."""

    def __init__(self) -> None:
        super().__init__()
        self.nf = 12
        self.weight = nn.Parameter(torch.randn(8, 12))
        self.bias = nn.Parameter(torch.randn(12))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.weight + self.bias


class ScaledLinear(nn.Module):
    """Not a plain product."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.weight * 0.5


class TransposedLinear(nn.Module):
    def __init__(self, out: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, out))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.weight


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("bias", [False, True])
def test_linear_layers(tmp_path: Path, dtype: torch.dtype, bias: bool) -> None:
    module = nn.Linear(8, 12, bias=bias).to(dtype)
    assert_reproduced(operation(module, tmp_path, X.to(dtype)), "linear", transposed=False)


def test_conv1d_of_gpt2(tmp_path: Path) -> None:
    assert_reproduced(operation(Conv1D(), tmp_path, X), "linear", transposed=True)


@pytest.mark.parametrize("out", [8, 12])
def test_the_way_a_weight_lies_is_found_from_shapes_or_numbers(tmp_path: Path, out: int) -> None:
    again = assert_reproduced(operation(TransposedLinear(out), tmp_path, X), "linear", transposed=True)
    assert again.plan.assumed == (("transposed",) if out == 8 else ())


def test_a_linear_layer_that_does_more_is_not_taken_for_one(tmp_path: Path) -> None:
    found = operation(ScaledLinear(), tmp_path, X).reproduce()
    assert isinstance(found, NotReplayable)
    assert "does not give its recorded output again" in found.reason


def test_a_weight_of_another_kind_is_said() -> None:
    found = replay("QuantLinear", {}, {"0": values(1, 2, 8)}, {"weight": values(2, 8, 3, 3)}, name="fc")
    assert isinstance(found, NotReplayable)
    assert found.reason == "fc has a weight of [8, 3, 3] and an input of [2, 8], which is no product of matrices"


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x @ x.mT,
        lambda x: torch.bmm(x, x.mT),
        lambda x: torch.mm(x[0], x[1].T),
        lambda x: torch.mv(x[0], x[1, 0]),
        lambda x: torch.dot(x[0, 0], x[1, 0]),
        lambda x: torch.addmm(x[0, 0], x[0, :, :5], x[1], beta=0.5, alpha=2),
        lambda x: torch.baddbmm(x[:, :, :5], x, x.mT, alpha=0.3),
        lambda x: torch.addbmm(x[0, :, :5], x, x.mT),
        lambda x: torch.einsum("bid, bjd -> bij", x, x),
        lambda x: torch.outer(x[0, 0], x[1, 0]),
        lambda x: nn.functional.linear(x, x[0], x[0, :, 0]),
    ],
)
def test_products_by_function(tmp_path: Path, function: Callable[..., Any]) -> None:
    assert_reproduced(function_call(function, tmp_path, X))
