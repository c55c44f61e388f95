from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from firstdiff.ops import activations as of
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


@pytest.mark.parametrize("name", of.BY_NAME)
def test_every_activation_has_its_name(name: str) -> None:
    x = values(1, 5)
    np.testing.assert_array_equal(of.activate(x, activation=name), of.BY_NAME[name](x))


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ValueError, match="no activation is called 'sine'"):
        of.activate(np.zeros(1), activation="sine")
    with pytest.raises(ValueError, match="approximate is 'erf'"):
        of.gelu(np.zeros(1), approximate="erf")
