from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from firstdiff.align import could_be_rearranged, solve
from firstdiff.align.lazy import Lazy
from firstdiff.align.prechecks import SharedValues, could_have_moved, has_duplicates
from firstdiff.align.recipe import lazy
from firstdiff.align.sampling import Noise
from firstdiff.measure import measure_statistics
from firstdiff.schema import Statistics
from firstdiff.trace import ArraySource

X = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
HOLED = np.where(X > 3, np.nan, X)


def statistics(array: np.ndarray) -> Statistics:
    return measure_statistics(ArraySource(np.ascontiguousarray(array)))


@pytest.mark.parametrize("moved", [X.T, X[::-1], X.T.astype(ml_dtypes.bfloat16)], ids=["turned", "reversed", "bf16"])
def test_values_that_only_moved_pass(moved: np.ndarray) -> None:
    assert could_be_rearranged(statistics(X), statistics(moved))


@pytest.mark.parametrize(
    "other",
    [X * 1.1, X + 0.1, np.clip(X, -2, 2), HOLED, np.zeros_like(X)],
    ids=["scaled", "moved", "clipped", "nan", "0"],
)
def test_values_that_changed_do_not(other: np.ndarray) -> None:
    assert not could_be_rearranged(statistics(X), statistics(other))


def test_nothing_finite_on_both_sides_may_be_anything() -> None:
    nothing = Statistics(None, None, None, None, 4, 0)
    assert could_be_rearranged(nothing, nothing)


STRICT = Noise(1e-5, 1e-5)
OTHER = np.random.default_rng(1).standard_normal((64, 64)).astype(np.float32)
ZEROED = np.where(np.arange(64) < 8, 0, X.T).astype(np.float32)


def tensor(array: np.ndarray) -> Lazy:
    return lazy(ArraySource(np.ascontiguousarray(array)))


@pytest.mark.parametrize(
    "candidate",
    [X.T, X[8:24], X[::-1] * np.float32(1 + 1e-6), np.repeat(X, 3, 0), ZEROED, np.where(X > 3, np.nan, X)],
    ids=["turned", "part", "rounded", "repeated", "partly zero", "partly nan"],
)
def test_tensors_that_may_be_rearranged_share_values(candidate: np.ndarray) -> None:
    assert SharedValues(tensor(X), tensor(candidate), np.nan).possible(STRICT)
    assert SharedValues(tensor(candidate), tensor(X), np.nan).possible(STRICT)


@pytest.mark.parametrize(
    "candidate", [OTHER, OTHER[:8], X * 1.1, X + 0.01 * OTHER], ids=["other", "part of another", "scaled", "off"]
)
def test_unrelated_tensors_share_too_few(candidate: np.ndarray) -> None:
    assert not SharedValues(tensor(X), tensor(candidate), np.nan).possible(STRICT)


@pytest.mark.parametrize("dtype", ["complex64", "int32", ">f4", ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn], ids=str)
def test_every_type_can_be_looked_up(dtype: object) -> None:
    x = (20 * X).astype(dtype)
    assert SharedValues(tensor(x), tensor(x.T), 0.0).possible(STRICT)


def test_values_that_moved_are_the_same_where_the_tensors_differ() -> None:
    swapped = X.copy()
    swapped[:, 8:16], swapped[:, 24:32] = X[:, 24:32], X[:, 8:16]
    assert could_have_moved(tensor(X), tensor(swapped), np.nan, STRICT)
    damaged = np.where(np.arange(64) < 8, OTHER, X)
    assert not could_have_moved(tensor(X), tensor(damaged), np.nan, STRICT)
    assert not could_have_moved(tensor(damaged), tensor(X), np.nan, STRICT)


def test_a_repeated_tensor_has_its_values_twice() -> None:
    assert has_duplicates(tensor(np.repeat(X, 2, 0)), STRICT)
    assert has_duplicates(tensor(np.tile(X, (1, 3))), STRICT)
    assert not has_duplicates(tensor(X), STRICT)


@pytest.mark.parametrize("error", [0.03, 0.3])
def test_an_error_that_is_merely_inherited_leads_to_no_layout(error: float) -> None:
    solution = solve(ArraySource(X), ArraySource(X + np.float32(error) * OTHER))
    assert solution.is_identity
    assert not solution.fits
    assert solution.complete


def test_values_a_little_off_in_their_places_are_not_searched_for_elsewhere() -> None:
    assert solve(ArraySource(X), ArraySource(X + np.float32(0.03) * OTHER)).tried == ()


TURNED = X.reshape(8, 8, 64).transpose(2, 1, 0)
REPEATED = X[:, None].repeat(4, 1)


@pytest.mark.parametrize(
    ("candidate", "error", "recipe"),
    [
        (TURNED, 0.03, "a b c -> (c b) a"),
        (TURNED, 0.1, "a b c -> (c b) a"),
        (TURNED, 0.3, "a b c -> (c b) a"),
        (REPEATED, 0.03, "reference: a b -> a r=4 b"),
        (REPEATED, 0.1, "reference: a b -> a r=4 b"),
    ],
    ids=lambda value: str(value) if isinstance(value, float) else "",
)
def test_the_layout_of_a_row_that_inherits_an_error_still_shows(
    candidate: np.ndarray, error: float, recipe: str
) -> None:
    noise = np.random.default_rng(2).standard_normal(candidate.shape).astype(np.float32)
    solution = solve(ArraySource(X), ArraySource(candidate + np.float32(error) * noise))
    assert str(solution.alignment) == recipe
    assert not solution.fits


def test_a_padded_tensor_that_inherits_an_error_is_still_cropped() -> None:
    padded = np.pad(X + np.float32(0.03) * OTHER, ((0, 16), (0, 0)))
    solution = solve(ArraySource(X), ArraySource(padded))
    assert str(solution.alignment) == "[0:64]"
    assert not solution.fits
