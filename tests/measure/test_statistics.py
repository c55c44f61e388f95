from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firstdiff import dtypes
from firstdiff.measure import measure_statistics
from firstdiff.measure.definitions import plain_statistics
from firstdiff.schema import Statistics
from firstdiff.trace import ArraySource
from tests.measure.agreement import assert_statistics
from tests.measure.arrays import Recipe, arrays, recipes


@settings(max_examples=150)
@given(recipes(max_size=400), st.sampled_from(sorted(dtypes.BY_NAME)))
def test_every_type_agrees_with_the_definitions(recipe: Recipe, dtype: str) -> None:
    values, _ = arrays(recipe, dtype, dtype)
    with np.errstate(all="ignore"):
        plain = plain_statistics(values)
    assert_statistics(measure_statistics(ArraySource(values)), plain)


def test_an_offset_does_not_drown_the_spread() -> None:
    values = np.random.default_rng(0).standard_normal(100_000) * 1e-3 + 1e6
    found = measure_statistics(ArraySource(values))
    assert found.std == pytest.approx(float(values.std()), rel=1e-9)


def test_a_constant_has_no_spread() -> None:
    assert measure_statistics(ArraySource(np.full(100_000, 0.1, np.float32))).std == 0.0


def test_huge_values_have_a_finite_mean() -> None:
    found = measure_statistics(ArraySource(np.array([1.5e308, 1.5e308, 1.7e308])))
    assert found.mean == pytest.approx(1.5666e308, rel=1e-3)


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
def test_whole_bounds_are_exact(dtype: str) -> None:
    limits = np.iinfo(dtype)
    found = measure_statistics(ArraySource(np.array([limits.max, limits.min, limits.max - 1], dtype)))
    assert (found.min, found.max) == (limits.min, limits.max)


def test_bools_count_as_zero_and_one() -> None:
    found = measure_statistics(ArraySource(np.array([True, False, True, True])))
    assert (found.mean, found.min, found.max) == (0.75, 0, 1)


def test_a_scalar_has_itself_for_a_mean() -> None:
    assert measure_statistics(ArraySource(np.array(3.5))) == Statistics(3.5, 0.0, 3.5, 3.5, 0, 0)


def test_nothing_finite_leaves_only_counts() -> None:
    found = measure_statistics(ArraySource(np.array([np.nan, np.inf, -np.inf])))
    assert found == Statistics(None, None, None, None, 1, 2)


def test_progress_is_told_window_by_window() -> None:
    heard: list[int] = []
    measure_statistics(ArraySource(np.zeros(4_000_000, np.float32)), progress=heard.append)
    assert heard == [3_145_728, 4_000_000]
