from __future__ import annotations

import numpy as np
import pytest

from firstdiff.align import Recipe, Slice, map_slices
from firstdiff.errors import UsageError
from firstdiff.trace import ArraySource

X = np.random.default_rng(0).standard_normal((4, 5, 6)).astype(np.float32)


def test_each_side_is_sliced_on_its_own() -> None:
    turned = ArraySource(np.ascontiguousarray(X.transpose(2, 0, 1)))
    mapped = map_slices(ArraySource(X), turned, Slice([1, 2], {0: 3}), Slice([2, 0], {1: 3}))
    np.testing.assert_array_equal(mapped.reference, X[3])
    np.testing.assert_array_equal(mapped.candidate, X[3])
    assert (mapped.max_abs, mapped.mean_abs, mapped.differing, mapped.covers) == (0.0, 0.0, 0, True)
    assert mapped.correlation == pytest.approx(1.0)


def test_slices_of_different_size_are_compared_over_what_they_share() -> None:
    mapped = map_slices(ArraySource(X), ArraySource(X[:, :3]), Slice([1], {}), Slice([1], {2: 1}))
    assert mapped.reference.shape == (3,)
    assert not mapped.covers
    assert mapped.max_abs == pytest.approx(float(np.abs(X[0, :3, 0] - X[0, :3, 1]).max()))
    assert mapped.differing == 3


def test_what_is_not_finite_is_counted_and_left_out() -> None:
    one, other = np.array([1.0, np.nan, np.nan, np.inf]), np.array([1.5, np.nan, 2.0, np.inf])
    mapped = map_slices(ArraySource(one), ArraySource(other), Slice([0], {}), Slice([0], {}))
    assert (mapped.max_abs, mapped.differing, mapped.correlation) == (0.5, 2, None)


def test_nothing_finite_gives_no_figures() -> None:
    nothing = ArraySource(np.full(3, np.nan))
    mapped = map_slices(nothing, nothing, Slice([0], {}), Slice([0], {}))
    assert (mapped.max_abs, mapped.mean_abs, mapped.differing) == (None, None, 0)


def test_a_constant_slice_has_no_correlation() -> None:
    ones = ArraySource(np.ones(5))
    assert map_slices(ones, ones, Slice([0], {}), Slice([0], {})).correlation is None


def test_single_values_can_be_shown() -> None:
    mapped = map_slices(ArraySource(X), ArraySource(X), Slice([], {0: 1, 1: 2, 2: 3}), Slice([], {0: 1, 1: 2, 2: 4}))
    assert mapped.reference.shape == ()
    assert mapped.max_abs == pytest.approx(abs(float(X[1, 2, 3]) - float(X[1, 2, 4])))


def test_what_a_recipe_made_can_be_sliced_without_reading_the_rest() -> None:
    turned = Recipe.parse("a b c -> c (a b)").apply([ArraySource(X)])
    mapped = map_slices(turned, turned, Slice([1], {0: 2}), Slice([1], {0: 2}))
    np.testing.assert_array_equal(mapped.reference, X[:, :, 2].ravel())


@pytest.mark.parametrize(
    ("of_reference", "of_candidate", "part"),
    [
        (Slice([3], {}), Slice([0], {}), r"dimensions \[3\] cannot be shown of the reference, which is \[4, 5, 6\]"),
        (Slice([0, 0], {}), Slice([0, 1], {}), "cannot be shown of the reference"),
        (Slice([0], {}), Slice([0], {1: 9}), "dimension 1 of the candidate has 5 elements, none at 9"),
        (Slice([0], {}), Slice([0, 1], {}), "1 dimensions of the reference cannot be laid beside 2"),
    ],
)
def test_slices_that_are_not_there_are_refused(of_reference: Slice, of_candidate: Slice, part: str) -> None:
    with pytest.raises(UsageError, match=part):
        map_slices(ArraySource(X), ArraySource(X), of_reference, of_candidate)
