"""Conversion to arrays and rounding."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from firstdiff import dtypes
from firstdiff.dtypes import doubles
from firstdiff.ops.arrays import mean, quantised, rounded, tuple_of, whole_numbers
from tests.ops.oracle import double, values


@pytest.mark.parametrize("name", [name for name in dtypes.BY_NAME if not name.startswith("complex")])
def test_every_type_becomes_float64_without_loss(name: str) -> None:
    dtype = dtypes.from_name(name)
    held = np.array([0, 1, 2, 4], dtype=np.float64).astype(dtype)
    np.testing.assert_array_equal(doubles(held), held.astype(np.float64))
    assert doubles(held).dtype == np.float64


@pytest.mark.parametrize("name", ["bfloat16", "float16", "float8_e4m3fn"])
def test_no_nan_complains(name: str) -> None:
    bits = np.dtype(f"u{dtypes.from_name(name).itemsize}")
    every = np.arange(np.iinfo(bits).max + 1, dtype=np.int64).astype(bits).view(dtypes.from_name(name))
    assert np.isnan(doubles(every)).any()


def test_complex_and_foreign_byte_order_and_plain_numbers() -> None:
    assert doubles(np.array([1 + 2j], dtype=np.complex64)).dtype == np.complex128
    np.testing.assert_array_equal(doubles(np.array([1.5, -2.0], dtype=">f4")), [1.5, -2.0])
    assert doubles(3).shape == ()


def test_the_mean_of_nothing_is_nan_and_no_warning() -> None:
    assert np.isnan(mean(np.zeros((0, 3)), 0, keepdims=False)).tolist() == [True] * 3
    assert mean(np.zeros((0, 3)), 1).shape == (0, 1)


@pytest.mark.parametrize(("given", "wanted"), [(3, (3, 3)), ([3], (3, 3)), ([3, 4], (3, 4)), ((1, 2), (1, 2))])
def test_one_number_stands_for_all_axes(given: object, wanted: tuple[int, ...]) -> None:
    assert tuple_of(given, 2) == wanted


@pytest.mark.parametrize("dtype", ["int8", "uint64", "bool", "float32", "bfloat16"])
def test_whole_numbers_come_in_any_type(dtype: str) -> None:
    found = whole_numbers(np.array([0, 1, 1]).astype(dtypes.from_name(dtype)))
    assert found.dtype == np.int64
    assert found.tolist() == [0, 1, 1]


@pytest.mark.parametrize("values", [[0.5], [np.nan], [np.inf], [1 + 1j], [1e300]])
def test_other_numbers_choose_nothing(values: list[complex]) -> None:
    with pytest.raises(ValueError, match="no whole numbers"):
        whole_numbers(values)


numbers = st.lists(st.floats(width=32), min_size=1, max_size=20)


@pytest.mark.parametrize("name", ["bfloat16", "float16", "float32", "float8_e4m3fn", "float8_e5m2"])
@given(given_values=numbers)
def test_rounding_is_torchs(name: str, given_values: list[float]) -> None:
    x = np.array(given_values)
    if name.startswith("float8"):
        x = np.clip(x, -200, 200)  # beyond their range torch saturates or not as it likes
    wanted = torch.tensor(x, dtype=torch.float32).to(getattr(torch, name)).double().numpy()
    np.testing.assert_array_equal(rounded(x, name), wanted)


def test_overflow_is_infinite_and_no_warning() -> None:
    np.testing.assert_array_equal(rounded(np.array([1e5, -1e5, 1e300]), "float16"), [np.inf, -np.inf, np.inf])


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("axis", [None, 0, -1])
def test_a_grid_is_never_further_than_half_a_step(symmetric: bool, axis: int | None) -> None:
    x = values(1, 6, 40)
    found = quantised(x, axis=axis, symmetric=symmetric)
    across = {None: (0, 1), 0: (1,), -1: (0,)}[axis]
    top, low = x.max(axis=across, keepdims=True), x.min(axis=across, keepdims=True)
    step = (
        np.abs(x).max(axis=across, keepdims=True) / 127
        if symmetric
        else (np.maximum(top, 0) - np.minimum(low, 0)) / 255
    )
    assert (np.abs(found - x) <= step * (0.501 if symmetric else 1.001)).all()
    levels = np.unique(np.round(found / np.broadcast_to(step, found.shape), 6))
    assert len(levels) <= 256


def test_symmetric_grids_are_torchs() -> None:
    x = values(1, 50)
    step = float(np.abs(x).max() / 127)
    wanted = torch.fake_quantize_per_tensor_affine(double(x).float(), step, 0, -127, 127)
    np.testing.assert_allclose(quantised(x), wanted.double().numpy(), rtol=1e-5)


def test_zeros_and_nothing_stay() -> None:
    for symmetric in (False, True):
        np.testing.assert_array_equal(quantised(np.zeros(4), symmetric=symmetric), np.zeros(4))
        assert quantised(np.zeros((0, 2)), symmetric=symmetric).shape == (0, 2)
