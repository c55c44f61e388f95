"""Matrix products against torch, and as modules and functions record them."""

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

from firstdiff.ops import NotReplayable, replay
from firstdiff.ops.linear import addbmm, addmm, einsum, linear, matmul, outer
from tests.ops.captured import assert_reproduced, function_call, operation
from tests.ops.oracle import assert_agrees, double, dtypes, seeds, values


@settings(max_examples=40)
@given(
    seed=seeds,
    batch=st.lists(st.integers(0, 4), max_size=3),
    sizes=st.tuples(st.integers(1, 40), st.integers(1, 20)),
    with_bias=st.booleans(),
    transposed=st.booleans(),
    dtype=dtypes,
)
def test_linear_is_torchs(
    seed: int, batch: list[int], sizes: tuple[int, int], with_bias: bool, transposed: bool, dtype: np.dtype
) -> None:
    size, out = sizes
    x, weight = values(seed, *batch, size, dtype=dtype), values(seed + 1, out, size, dtype=dtype)
    bias = values(seed + 2, out, dtype=dtype) if with_bias else None
    found = linear(x, weight.T if transposed else weight, bias, transposed=transposed)
    assert_agrees(found, functional.linear(double(x), double(weight), double(bias)))


def test_a_vector_for_a_weight_gives_one_number_each() -> None:
    x, weight = values(1, 3, 4), values(2, 4)
    assert_agrees(linear(x, weight), functional.linear(double(x), double(weight)))


def test_a_weight_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="mismatch"):
        linear(values(1, 3, 4), values(2, 6, 5))


@pytest.mark.parametrize(
    "shapes",
    [
        ((3,), (3,)),
        ((2, 3), (3,)),
        ((2, 3), (3, 4)),
        ((5, 2, 3), (5, 3, 4)),
        ((1, 4, 2, 3), (6, 1, 3, 2)),
        ((0, 3), (3, 2)),
    ],
    ids=str,
)
def test_matmul_is_torchs(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    left, right = values(1, *shapes[0], dtype=np.dtype(np.float32)), values(2, *shapes[1])
    assert_agrees(matmul(left, right), torch.matmul(double(left), double(right)))


def test_matmul_turns_either_side_if_asked() -> None:
    left, right = values(1, 2, 3, 4), values(2, 2, 5, 3)
    wanted = double(left).mT @ double(right).mT
    assert_agrees(matmul(left, right, transpose_input=True, transpose_other=True), wanted)


@pytest.mark.parametrize(("beta", "alpha"), [(1, 1), (0.5, -2.0), (0, 1)])
def test_addmm_and_its_kin_are_torchs(beta: float, alpha: float) -> None:
    x, left, right = values(1, 3, 5), values(2, 4, 3, 6), values(3, 4, 6, 5)
    how = {"beta": beta, "alpha": alpha}
    assert_agrees(addmm(x, left[0], right[0], **how), torch.addmm(double(x), double(left[0]), double(right[0]), **how))
    assert_agrees(addmm(x, left, right, **how), torch.baddbmm(double(x), double(left), double(right), **how))
    assert_agrees(addbmm(x, left, right, **how), torch.addbmm(double(x), double(left), double(right), **how))


def test_beta_0_leaves_out_an_input_of_nan() -> None:
    assert np.isfinite(addmm(np.full((2, 2), np.nan), np.eye(2), np.eye(2), beta=0)).all()


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("bhqd,bhkd->bhqk", ((2, 3, 4, 5), (2, 3, 6, 5))),
        ("...ij,jk->...ik", ((2, 2, 3, 4), (4, 5))),
        ("ij->ji", ((3, 4),)),
        ("ab,bc,cd->ad", ((2, 3), (3, 4), (4, 2))),
    ],
)
def test_einsum_is_torchs(equation: str, shapes: tuple[tuple[int, ...], ...]) -> None:
    operands = [values(number, *shape) for number, shape in enumerate(shapes)]
    assert_agrees(einsum(operands, equation=equation), torch.einsum(equation, *map(double, operands)))


def test_outer_is_torchs() -> None:
    left, right = values(1, 3), values(2, 4)
    assert_agrees(outer(left, right), torch.outer(double(left), double(right)))


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
