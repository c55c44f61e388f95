from __future__ import annotations

import numpy as np
import pytest

from firstdiff import dtypes
from firstdiff.ops.arrays import doubles, mean, tuple_of, whole_numbers


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
