from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from firstdiff.ops import arithmetic as of
from tests.ops.oracle import assert_agrees, double, dtypes, seeds, values

PAIRS: dict[str, tuple[Callable[..., np.ndarray], Callable[..., torch.Tensor]]] = {
    "add": (of.add, torch.add),
    "add_scaled": (lambda x, y: of.add(x, y, alpha=0.3), lambda x, y: torch.add(x, y, alpha=0.3)),
    "sub": (of.sub, torch.sub),
    "sub_scaled": (lambda x, y: of.sub(x, y, alpha=2), lambda x, y: torch.sub(x, y, alpha=2)),
    "mul": (of.mul, torch.mul),
    "div": (of.div, torch.div),
    "div_trunc": (lambda x, y: of.div(x, y, rounding="trunc"), lambda x, y: torch.div(x, y, rounding_mode="trunc")),
    "div_floor": (lambda x, y: of.div(x, y, rounding="floor"), lambda x, y: torch.div(x, y, rounding_mode="floor")),
    "remainder": (of.remainder, torch.remainder),
    "maximum": (of.maximum, torch.maximum),
    "minimum": (of.minimum, torch.minimum),
    "power": (lambda x, y: of.power(np.abs(x), y), lambda x, y: torch.pow(x.abs(), y)),
}


@pytest.mark.parametrize("name", PAIRS)
@settings(max_examples=12)
@given(
    seed=seeds,
    shapes=st.sampled_from([((2, 3), (2, 3)), ((2, 1, 4), (3, 1)), ((), (3,)), ((0, 2), (1,)), ((4,), ())]),
    dtype=dtypes,
)
def test_operators_are_torchs(name: str, seed: int, shapes: Any, dtype: np.dtype) -> None:
    ours, theirs = PAIRS[name]
    left, right = values(seed, *shapes[0], dtype=dtype, scale=5.0), values(seed + 1, *shapes[1], dtype=dtype)
    left, right = np.asarray(left, dtype=dtype), np.asarray(right, dtype=dtype)
    assert_agrees(ours(left, right), theirs(double(left), double(right)))


def test_plain_numbers_are_operands_too() -> None:
    x = values(1, 3)
    np.testing.assert_array_equal(of.add(x, 2), x + 2)
    np.testing.assert_array_equal(of.sub(1, x), 1 - x)
    np.testing.assert_array_equal(of.power(x, 3), x**3)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "maximum"])
def test_nonfinite_operands_are_torchs(name: str) -> None:
    ours, theirs = PAIRS[name]
    odd = np.array([0.0, -0.0, 1.0, np.inf, -np.inf, np.nan])
    left, right = (part.ravel() for part in np.meshgrid(odd, odd))
    assert_agrees(ours(left, right), theirs(double(left), double(right)))


def test_ternary_operators_are_torchs() -> None:
    x, y, z = (values(n, 2, 3) for n in range(3))
    assert_agrees(of.lerp(x, y, z), torch.lerp(double(x), double(y), double(z)))
    assert_agrees(of.lerp(x, y, 0.25), torch.lerp(double(x), double(y), 0.25))
    assert_agrees(of.addcmul(x, y, z, value=0.5), torch.addcmul(double(x), double(y), double(z), value=0.5))
    assert_agrees(of.addcdiv(x, y, z, value=0.5), torch.addcdiv(double(x), double(y), double(z), value=0.5))


@pytest.mark.parametrize("shape", [(2, 8), (2, 1, 8), (8,)], ids=str)
def test_modulate_is_its_formula(shape: tuple[int, ...]) -> None:
    x, shift, scale = values(1, 2, 5, 8), values(2, *shape), values(3, *shape)
    shift3, scale3 = (double(item).reshape(-1, 1, 8) for item in (shift, scale))
    assert_agrees(of.modulate(x, shift, scale), double(x) * (1 + scale3) + shift3)
    assert_agrees(of.modulate(x, shift, scale, one_plus=False), double(x) * scale3 + shift3)
