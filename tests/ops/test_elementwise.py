"""Elementwise functions, softmax and the error function against torch."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from firstdiff.ops.elementwise import FUNCTIONS, elementwise, erf, erfc, log_softmax, softmax
from tests.ops.oracle import assert_agrees, double, dtypes, seeds, values

NOT_IN_TORCH_ITSELF = {"softsign": functional.softsign, "tanhshrink": functional.tanhshrink}


@pytest.mark.parametrize("kind", FUNCTIONS)
def test_functions_are_torchs(kind: str) -> None:
    theirs = NOT_IN_TORCH_ITSELF.get(kind) or getattr(torch, kind)
    for x in (values(1, 4, 5), np.array([0.0, 0.5, 1.5, 2.5, np.inf, -np.inf, np.nan, -1.0]), np.array(0.3)):
        assert_agrees(elementwise(x, kind=kind), theirs(double(x)))


def test_unknown_functions_are_refused() -> None:
    with pytest.raises(ValueError, match="no function is called 'cube'"):
        elementwise(np.zeros(1), kind="cube")


SAMPLES = np.concatenate(
    [np.linspace(-7, 7, 20_012), 10.0 ** np.linspace(-300, 0, 601), -(10.0 ** np.linspace(-20, 0, 41))]
)


def test_erf_is_that_of_the_c_library_to_the_last_digits() -> None:
    wanted = np.array([math.erf(x) for x in SAMPLES])
    assert np.max(np.abs(erf(SAMPLES) - wanted) / np.abs(wanted)) < 1e-15


def test_erfc_keeps_its_digits_in_the_tail() -> None:
    x = np.linspace(-6, 26, 10_007)
    wanted = np.array([math.erfc(value) for value in x])
    assert np.max(np.abs(erfc(x) - wanted) / wanted) < 1e-13


def test_erf_agrees_with_torch() -> None:
    assert np.max(np.abs(erf(SAMPLES) - torch.erf(torch.from_numpy(SAMPLES)).numpy())) < 1e-15


def test_infinities_nan_and_signed_zeros() -> None:
    found = erf(np.array([np.inf, -np.inf, np.nan, 0.0, -0.0]))
    np.testing.assert_array_equal(found, [1.0, -1.0, np.nan, 0.0, -0.0])
    assert np.signbit(found[-1])
    np.testing.assert_array_equal(erfc(np.array([np.inf, -np.inf, np.nan])), [0.0, 2.0, np.nan])


def test_shapes_are_kept_also_of_a_lone_number_and_of_none() -> None:
    assert erf(np.array(0.5)).shape == ()
    assert erf(np.zeros((0, 3))).shape == (0, 3)
    strided = np.linspace(-2, 2, 24).reshape(4, 6).T
    np.testing.assert_array_equal(erfc(strided), erfc(strided.copy()))


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
