from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from firstdiff.ops.gated import gated_mlp, glu, mlp
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
