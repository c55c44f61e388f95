"""Values on the grid of a shorter type, and beyond its range."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import firstdiff as fd
from tests.diagnose.values.planted import bf16, confidence_in, diagnosed, first_cause, noisy, normal

X = normal(2, 16, 64)
SHORTER = {"dtype.bf16": ml_dtypes.bfloat16, "dtype.fp16": np.float16, "dtype.fp8": ml_dtypes.float8_e4m3fn}


@pytest.mark.parametrize("cause", SHORTER)
def test_values_rounded_to_a_shorter_type_are_told(cause: str) -> None:
    assert first_cause(X, noisy(X).astype(SHORTER[cause]).astype(np.float32)) == cause


@pytest.mark.parametrize("levels", [127, 7])
def test_values_on_even_steps_are_quantised(levels: int) -> None:
    step = np.abs(X).max() / levels
    found = diagnosed(X, (np.round(X / step) * step).astype(np.float32))
    assert found[0].cause == "dtype.int8"
    assert f"int{8 if levels == 127 else 4}" in found[0].evidence


def test_a_step_for_every_channel_is_found() -> None:
    step = np.abs(X).max(axis=(0, 1)) / 127
    found = diagnosed(X, (np.round(X / step) * step).astype(np.float32))
    assert found[0].cause == "dtype.int8"
    assert "one for each index of axis 2" in found[0].evidence


def test_a_scale_in_a_shorter_type_is_still_a_scale() -> None:
    found = diagnosed(X, bf16(X * 3))
    assert confidence_in("scale.constant", found) > 0
    assert found[0].cause != "dtype.bf16"


def test_whole_numbers_as_floats_are_not_quantised() -> None:
    whole = np.arange(-60, 60, dtype=np.float32).reshape(4, 30)
    assert confidence_in("dtype.int8", diagnosed(whole, whole + 7)) == 0.0


def test_noise_of_no_direction_is_called_no_more_than_alike() -> None:
    found = diagnosed(X, X * (1 + 2e-3 * normal(2, 16, 64, seed=4)))
    assert confidence_in("dtype.bf16", found) < 0.6


def test_noise_with_one_value_far_off_is_not_that_of_a_type() -> None:
    candidate = X * (1 + 1e-3 * normal(2, 16, 64, seed=4))
    candidate[:, :, 7] += 0.1 * normal(2, 16, seed=5)
    assert confidence_in("dtype.bf16", diagnosed(X, candidate)) > 0
    candidate[0, 3, 7] += 0.5
    assert confidence_in("dtype.bf16", diagnosed(X, candidate)) == 0.0


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
def test_numbers_beyond_float16_overflow() -> None:
    large = X * 30000
    found = diagnosed(large, large.astype(np.float16).astype(np.float32))
    assert found[0].cause == "overflow"
    assert "65504" in found[0].evidence
    assert "float32" in found[0].fix


def test_scores_that_masks_fill_with_other_numbers_do_not_overflow() -> None:
    hidden = np.triu(np.ones((16, 64), bool), 40)
    lowest, infinite = (np.where(hidden, x, X).astype(np.float32) for x in (np.finfo(np.float32).min, -np.inf))
    found = fd.compare({"x": lowest}, {"x": np.where(hidden, infinite, X * 1.25).astype(np.float32)})
    assert found.verdict == "mismatch"
    assert confidence_in("overflow", found.diagnosis) == 0.0


def test_nan_of_moderate_numbers_is_no_overflow() -> None:
    candidate = noisy(X)
    candidate[0, 3] = np.nan
    found = diagnosed(X, candidate)
    assert found[0].cause == "values.nonfinite"
    assert "64 NaN" in found[0].evidence
    assert "whole vectors along the last axis" in found[0].evidence


def test_all_nan_is_told() -> None:
    assert first_cause(X, X * np.float32(np.nan)) == "values.nonfinite"


def test_nan_on_both_sides_does_not_hide_a_scale() -> None:
    values = np.where(X > 2, np.float32(np.nan), X)
    assert first_cause(values, noisy_where(values) * 2) == "scale.constant"


def test_another_filler_of_masked_places_is_told_where_a_tolerance_is_stated() -> None:
    hidden = np.triu(np.ones((16, 64), bool), 1)
    sides = {"x": np.where(hidden, -np.inf, X)}, {"x": np.where(hidden, np.float32(-1e9), noisy(X))}
    assert fd.compare(*sides).verdict == "match"
    found = fd.compare(*sides, atol=1e-3, rtol=1e-3).diagnosis
    assert found[0].cause == "values.filler"
    assert "-1e+09 in place of -inf" in found[0].evidence


def test_a_filler_beside_other_errors_is_not_all() -> None:
    hidden = np.triu(np.ones((16, 64), bool), 1)
    found = diagnosed(np.where(hidden, -np.inf, X), np.where(hidden, np.float32(-1e9), 2 * X))
    assert confidence_in("values.filler", found) == 0.0


def noisy_where(values: np.ndarray) -> np.ndarray:
    return np.where(np.isfinite(values), noisy(np.nan_to_num(values)), values)
