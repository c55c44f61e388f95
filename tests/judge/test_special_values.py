from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from firstdiff.judge.special_values import filler_places, is_whole, may_have_fillers

LOWEST = {
    "float64": np.finfo(np.float64).min,
    "float32": np.finfo(np.float32).min,
    "bfloat16": float(ml_dtypes.finfo(ml_dtypes.bfloat16).min),
    "float16": -65504.0,
    "inf": -np.inf,
    "-1e9": -1e9,
    "-1e4": -1e4,
}


def masked(filler: float, dtype: type = np.float64) -> np.ndarray:
    scores = np.linspace(-8, 8, 64).reshape(8, 8)
    return np.where(np.tri(8, dtype=bool), scores, filler).astype(dtype)


@pytest.mark.parametrize("ours", LOWEST)
@pytest.mark.parametrize("theirs", LOWEST)
def test_fillers_of_any_kind_in_the_same_places_are_equal(ours: str, theirs: str) -> None:
    found = filler_places(masked(LOWEST[ours]), masked(LOWEST[theirs]))
    assert found is not None
    assert found.agree
    np.testing.assert_array_equal(found.hidden, ~np.tri(8, dtype=bool))


@pytest.mark.parametrize("filler", LOWEST.values())
def test_a_tensor_of_nothing_but_fillers_is_hidden_everywhere(filler: float) -> None:
    found = filler_places(np.full((4, 4), LOWEST["float32"]), np.full((4, 4), filler))
    assert found is not None
    assert found.hidden.all()


def test_a_score_added_to_a_filler_is_still_one() -> None:
    scores = masked(0.0).astype(np.float16)
    mask = np.where(np.tri(8, dtype=bool), 0, -65504).astype(np.float16)
    found = filler_places(masked(LOWEST["float32"], np.float32), scores + mask)
    assert found is not None
    assert found.agree


def test_other_places_are_counted_by_side() -> None:
    candidate = masked(-1e9)
    candidate[0, 1] = 0.5
    candidate[5, 0] = -1e9
    found = filler_places(masked(-np.inf), candidate)
    assert found is not None
    assert (found.reference_only, found.candidate_only) == (1, 1)
    assert not found.agree


def test_a_mask_of_one_side_only_is_all_other_places() -> None:
    found = filler_places(masked(0.0), masked(-1e9))
    assert found is not None
    assert (found.reference_only, found.candidate_only) == (0, 28)


def test_values_that_overflowed_both_ways_are_no_mask() -> None:
    assert filler_places(np.float16([0.5, 2, -3]), np.float16([0.5, np.inf, -np.inf])) is None


def test_ordinary_values_have_no_fillers_however_large() -> None:
    assert filler_places(masked(-3.0), masked(-3.1)) is None
    large = np.linspace(-2e4, 2e4, 64)
    assert filler_places(large, large) is None
    assert not may_have_fillers(-3000.0, 0)
    assert may_have_fillers(-1e4, 0)
    assert may_have_fillers(0.0, 1)


@pytest.mark.parametrize(
    ("numbers", "whole"),
    [
        (np.float32([0, 1, 1, 0]), True),
        (np.float32([3, 17, 4096]), True),
        (np.float32([0.5, 1]), False),
        (np.float32([0, 0]), False),
        (np.float32([1e20, 2e20]), False),
        (np.array([1, 2]), False),
        (np.array([300, 1], dtype=ml_dtypes.bfloat16), False),
        (np.float32([np.inf, 1]), False),
        (np.float32([]), False),
    ],
)
def test_whole_numbers_are_those_a_type_holds_exactly(numbers: np.ndarray, whole: bool) -> None:
    assert is_whole(numbers) is whole
