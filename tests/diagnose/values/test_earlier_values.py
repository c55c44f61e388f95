"""Earlier tensors: used again, not added, added twice."""

from __future__ import annotations

import numpy as np
import pytest

from tests.diagnose.values.planted import confidence_in, diagnosed, first_cause, noisy, normal

A, B, C = (normal(2, 16, 64, seed=seed) for seed in (1, 2, 3))
RUN = {"a": A, "b": B, "c": C}


def test_the_values_of_an_earlier_tensor_are_stale() -> None:
    found = diagnosed(RUN, {"a": noisy(A), "b": noisy(B), "c": noisy(A)})
    assert found[0].cause == "values.stale"
    assert "the values of a" in found[0].evidence


def test_without_records_what_came_right_before_leaves_both_open() -> None:
    found = diagnosed(RUN, {"a": noisy(A), "b": noisy(B), "c": noisy(B)})
    assert {one.cause for one in found[:2]} == {"op.skipped", "values.stale"}
    assert max(one.confidence for one in found) < 0.9


def test_zeros_are_not_stale_zeros() -> None:
    found = diagnosed({"a": 0 * A, "b": B}, {"a": 0 * A, "b": 0 * B})
    assert found[0].cause == "values.zero"
    assert confidence_in("values.stale", found) == 0.0


def test_what_is_rightly_equal_to_something_earlier_is_not_stale() -> None:
    found = diagnosed({"a": A, "b": A}, {"a": A, "b": noisy(2 * A)})
    assert found[0].cause == "scale.constant"
    assert confidence_in("values.stale", found) == 0.0


def test_a_residual_that_is_not_added_is_named() -> None:
    found = diagnosed({"a": A, "b": B, "c": A + C}, {"a": noisy(A), "b": noisy(B), "c": noisy(C)})
    assert found[0].cause == "residual.missing"
    assert "a is not added" in found[0].evidence


def test_a_residual_that_is_added_twice_is_named() -> None:
    found = diagnosed({"a": A, "b": B, "c": A + C}, {"a": noisy(A), "b": noisy(B), "c": noisy(2 * A + C)})
    assert found[0].cause == "residual.missing"
    assert "once too often" in found[0].evidence


@pytest.mark.parametrize("weight", [0.5, -1.0])
def test_another_weight_of_a_residual_is_told(weight: float) -> None:
    candidate = {"a": noisy(A), "b": noisy(B), "c": noisy(C + np.float32(weight) * A)}
    found = diagnosed({"a": A, "b": B, "c": A + C}, candidate)
    assert found[0].cause == "residual.missing"


def test_other_values_are_neither() -> None:
    found = diagnosed(RUN, {"a": noisy(A), "b": noisy(B), "c": normal(2, 16, 64, seed=9)})
    assert first_cause(RUN, {"a": noisy(A), "b": noisy(B), "c": normal(2, 16, 64, seed=9)}) == "values.uncorrelated"
    assert not [one for one in found if one.cause in ("values.stale", "op.skipped", "residual.missing")]
