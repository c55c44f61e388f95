"""Values that are 0, all the same, or stop somewhere."""

from __future__ import annotations

import numpy as np
import pytest

from tests.diagnose.values.planted import confidence_in, diagnosed, first_cause, noisy, normal, uniform

X = normal(2, 16, 64)


@pytest.mark.parametrize(
    ("part", "where"),
    [
        (np.s_[...], "the candidate is 0"),
        (np.s_[..., :32], "in indices < 32 of the last axis, the candidate is 0"),
        (np.s_[:, 9:], "in indices >= 9 of axis 1, the candidate is 0"),
        (np.s_[..., 5], "in index 5 of the last axis, the candidate is 0"),
    ],
)
def test_zeros_are_told_where_they_are(part: tuple[slice, ...], where: str) -> None:
    candidate = noisy(X)
    candidate[part] = 0
    found = diagnosed(X, candidate)
    assert found[0].cause == "values.zero"
    assert found[0].evidence.startswith(where)


def test_zeros_that_the_reference_has_too_are_no_cause() -> None:
    values = np.maximum(X, 0)
    assert confidence_in("values.zero", diagnosed(values, noisy(values * 2))) == 0.0


def test_small_is_not_zero() -> None:
    assert first_cause(X, noisy(X * np.float32(1e-4))) == "scale.constant"


def test_one_number_everywhere_is_told() -> None:
    found = diagnosed(X, np.full_like(X, 3))
    assert found[0].cause == "values.constant"
    assert "3 everywhere" in found[0].evidence
    assert confidence_in("values.clipped", found) == 0.0


@pytest.mark.parametrize(("low", "high"), [(-1, 1), (None, 0.7), (-0.5, None), (-2, 0.25)])
def test_bounds_are_named(low: float | None, high: float | None) -> None:
    found = diagnosed(X, np.clip(noisy(X), low, high))
    assert found[0].cause == "values.clipped"
    assert all(f"{bound:.6g}" in found[0].evidence for bound in (low, high) if bound is not None)


def test_an_even_bound_that_one_end_meets_once_is_told_whole() -> None:
    values = normal(40)
    top = np.sort(values)[-4:].min() - np.float32(0.01)
    values[values < -top] = 0
    values[7] = -3
    found = diagnosed(values, np.clip(noisy(values), -top, top))
    assert found[0].cause == "values.clipped"
    assert f"{-top:.6g} and {top:.6g}" in found[0].evidence


def test_the_bound_of_float16_is_named() -> None:
    found = diagnosed(X * 40000, np.clip(noisy(X * 40000), -65504, 65504))
    assert found[0].cause == "values.clipped"
    assert "the largest float16" in found[0].evidence


def test_saturated_is_not_clipped() -> None:
    found = diagnosed(2 * X, noisy(np.tanh(2 * X)))
    assert found[0].cause == "activation.extra"
    assert confidence_in("values.clipped", found) == 0.0


def test_cut_off_at_0_is_a_relu_and_no_bound() -> None:
    assert first_cause(X, noisy(np.maximum(X, 0))) == "activation.extra"


def test_a_bound_that_is_met_once_is_a_largest_value() -> None:
    values = uniform(4, 50)
    assert confidence_in("values.clipped", diagnosed(values, noisy(values * np.float32(0.9)))) == 0.0


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_dropout_left_on_is_told(share: float) -> None:
    kept = np.random.default_rng(3).random(X.shape) >= share
    found = diagnosed(X, noisy(X) * kept / np.float32(1 - share))
    assert found[0].cause == "dropout.active"


def test_zeros_without_the_scale_of_dropout_are_no_dropout() -> None:
    kept = np.random.default_rng(3).random(X.shape) >= 0.3
    found = diagnosed(X, noisy(X) * kept)
    assert confidence_in("dropout.active", found) == 0.0
    assert found[0].cause == "values.zero"
