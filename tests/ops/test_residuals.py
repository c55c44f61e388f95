from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstdiff.ops.residuals import fit_limit, fits, recorded_type, residual
from tests.ops.oracle import DTYPES, dtypes, seeds, values

BF16 = np.dtype(ml_dtypes.bfloat16)


@given(seed=seeds, dtype=dtypes, scale=st.sampled_from([1e-30, 1e-3, 1.0, 1e3]))
def test_rounding_the_result_leaves_half_a_step_at_most(seed: int, dtype: np.dtype, scale: float) -> None:
    exact = values(seed, 40, scale=scale)
    assert residual(exact.astype(dtype), exact) <= 0.5


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_it_counts_steps_of_the_recorded_type(dtype: np.dtype) -> None:
    eps = float(ml_dtypes.finfo(dtype).eps)
    recorded = np.array([1.0, -1.0], dtype=dtype)
    assert residual(recorded, np.array([1.0, -1.0 - 20 * eps])) == pytest.approx(10.0, rel=1e-3)


def test_the_scale_of_the_tensor_counts_and_not_that_of_the_element() -> None:
    recorded = np.array([0.0, 2.0, -2.0], dtype=np.float32)
    assert residual(recorded, recorded + np.array([1e-7, 0, 0])) < 1.0
    tiny = recorded * np.float32(1e-8)
    assert residual(tiny, tiny[::-1]) > 1e6


@pytest.mark.parametrize(
    ("recorded", "computed"),
    [(np.nan, 1.0), (1.0, np.nan), (np.inf, -np.inf), (np.inf, 1.0), (1.0, np.inf), (np.nan, np.inf)],
)
def test_what_is_not_finite_on_one_side_fits_nowhere(recorded: float, computed: float) -> None:
    assert residual(np.array([0.0, recorded], dtype=np.float32), np.array([0.0, computed])) == np.inf


def test_nan_fits_nan_and_an_infinity_itself() -> None:
    odd = np.array([np.nan, np.inf, -np.inf, 1.0], dtype=np.float32)
    assert residual(odd, odd.astype(np.float64)) == 0


def test_overflow_of_the_recorded_type_is_no_error() -> None:
    recorded = np.array([np.inf, -np.inf, 1.0], dtype=np.float16)
    assert residual(recorded, np.array([1e5, -1e5, 1.0])) == 0
    assert residual(recorded, np.array([1e4, -1e5, 1.0])) == np.inf
    assert residual(recorded.astype(np.float32), np.array([1e5, -1e5, 1.0])) == np.inf
    without_infinity = np.array([np.nan, 1.0]).astype(ml_dtypes.float8_e4m3fn)
    assert residual(without_infinity, np.array([1e5, 1.0])) == 0


def test_overflow_of_the_stored_type_is_no_error_beside_a_coarser_one() -> None:
    recorded = np.array([1.0, -np.inf], np.float16)
    assert residual(recorded, np.array([1.0, -65540.0]), dtype="bfloat16") == 0
    assert residual(recorded, np.array([1.0, -60000.0]), dtype="bfloat16") == np.inf


def test_other_shapes_never_fit() -> None:
    assert residual(np.zeros((2, 3), dtype=np.float32), np.zeros((3, 2))) == np.inf


def test_whole_numbers_fit_exactly_or_not_at_all() -> None:
    recorded = np.array([1, 2, 3])
    assert residual(recorded, np.array([1.0, 2.0, 3.0])) == 0
    assert residual(recorded, np.array([1.0, 2.0, 4.0])) == np.inf
    assert residual(np.array([True, False]), np.array([1.0, 0.0])) == 0


def test_nothing_and_a_lone_number() -> None:
    assert residual(np.zeros((0, 3), dtype=np.float32), np.zeros((0, 3))) == 0
    assert residual(np.array(1.0, dtype=np.float32), np.array(1.0 + 2.0**-22)) == pytest.approx(2.0)


def test_complex_numbers_count_by_their_distance() -> None:
    recorded = np.array([1 + 1j, -1 - 1j], dtype=np.complex64)
    assert 0 < residual(recorded, recorded + 1e-6j) < 10


def test_huge_values_do_not_hide_an_error() -> None:
    recorded = np.array([1e200, -1e200, 0.0])
    assert residual(recorded, recorded * 1.001) > 1e6


def test_denormals_lose_digits_and_that_is_no_error() -> None:
    smallest = np.float32(1e-45)
    assert residual(np.array([smallest]), np.array([2.0 * float(smallest)])) <= 1.0


def test_the_type_before_storing_counts_if_it_is_coarser() -> None:
    assert recorded_type(np.zeros(1, dtype=np.float32), "bfloat16") == BF16
    assert recorded_type(np.zeros(1, dtype=np.float32), "float64") == np.float32
    assert recorded_type(np.zeros(1, dtype=np.float32), "complex32") == np.float32
    exact = values(1, 100)
    stored = exact.astype(BF16).astype(np.float32)
    assert residual(stored, exact) > 1000
    assert residual(stored, exact, dtype="bfloat16") <= 0.5


def test_half_precision_is_held_to_fewer_steps() -> None:
    assert fit_limit(np.dtype(np.float32)) > fit_limit(BF16) > fit_limit(np.dtype(ml_dtypes.float8_e5m2)) > 0
    assert fit_limit(np.dtype(np.int64)) == 0
    assert fits(0.0, np.dtype(np.int64))
    assert not fits(np.inf, np.dtype(np.float64))
