from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from firstdiff.ops.softmax import log_softmax, softmax
from tests.ops.oracle import assert_agrees, double, dtypes, seeds, values


@settings(max_examples=50)
@given(
    seed=seeds,
    shape=st.lists(st.integers(0, 5), min_size=1, max_size=4),
    axis=st.integers(-4, 3),
    scale=st.sampled_from([1e-3, 1.0, 50.0, 5000.0]),
    dtype=dtypes,
)
def test_softmax_and_its_logarithm_are_torchs(
    seed: int, shape: list[int], axis: int, scale: float, dtype: np.dtype
) -> None:
    x, dim = values(seed, *shape, dtype=dtype, scale=scale), axis % len(shape)
    assert_agrees(softmax(x, dim=dim), torch.softmax(double(x), dim))
    assert_agrees(log_softmax(x, dim=dim), torch.log_softmax(double(x), dim))


@pytest.mark.parametrize(
    "row",
    [
        [1e100, -1e100, 0.0],
        [-np.inf, 0.0, 1.0],
        [-np.inf] * 3,
        [np.inf, 0.0, 1.0],
        [np.nan, 0.0, 1.0],
        [5e-324, 0.0, 0.0],
    ],
    ids=str,
)
def test_extremes_are_torchs(row: list[float]) -> None:
    x = np.array([row, [0.0, 1.0, 2.0]])
    assert_agrees(softmax(x), torch.softmax(double(x), -1))
    assert_agrees(log_softmax(x), torch.log_softmax(double(x), -1))


def test_a_lone_number_is_everything() -> None:
    assert softmax(np.array(3.0), dim=0) == 1.0
    assert log_softmax(np.array(3.0), dim=0) == 0.0


def test_the_input_is_left_alone() -> None:
    x = values(1, 2, 3)
    before = x.copy()
    softmax(x)
    log_softmax(x, scale=2.0)
    np.testing.assert_array_equal(x, before)


def test_scale_comes_first() -> None:
    x = values(1, 2, 3)
    assert_agrees(softmax(x, scale=0.3), torch.softmax(double(x) * 0.3, -1))
    assert_agrees(log_softmax(x, scale=0.3), torch.log_softmax(double(x) * 0.3, -1))
