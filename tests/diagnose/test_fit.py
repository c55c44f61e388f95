from __future__ import annotations

from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from firstdiff.diagnose.hypothesis import Floor

F32 = np.dtype(np.float32)
VALUES = np.random.default_rng(0).standard_normal(1000)


def floor(values: np.ndarray, steps: float = 256) -> Floor:
    return Floor(values, F32, steps)


def test_the_unit_is_what_is_allowed_of_deviation_and_value() -> None:
    off = VALUES.copy()
    off[7] += 100 * np.finfo(np.float32).eps * (VALUES.std() + abs(VALUES[7]))
    found = floor(VALUES, 50).fit(off)
    assert found.worst == pytest.approx(2.0, rel=1e-6)
    assert found.rms == pytest.approx(2.0 / np.sqrt(1000), rel=1e-6)
    assert found.max_abs == pytest.approx(abs(off[7] - VALUES[7]))
    assert not found.reaches_floor


@given(arrays(np.float64, 20, elements=st.floats(-1e300, 1e300)))
def test_anything_fits_itself(values: np.ndarray) -> None:
    found = floor(values).fit(values)
    assert (found.worst, found.rms, found.max_abs) == (0.0, 0.0, 0.0)


def test_nan_fits_nan_and_an_infinity_itself_and_nothing_else() -> None:
    odd = np.array([1.0, np.nan, inf, -inf])
    assert floor(odd).fit(odd).worst == 0
    assert floor(odd).fit(np.array([1.0, np.nan, inf, inf])).worst == inf
    assert floor(odd).fit(np.array([1.0, 0.0, inf, -inf])).worst == inf
    assert floor(np.array([1.0, 2.0])).fit(np.array([1.0, np.nan])).worst == inf


def test_another_shape_fits_nowhere() -> None:
    assert floor(VALUES).fit(VALUES[:1]).worst == inf


def test_what_masks_put_for_minus_infinity_does_not_widen_the_floor() -> None:
    masked = np.concatenate([VALUES, np.full(10, -3.4e38)])
    assert floor(masked).allowed[:1000].max() == pytest.approx(floor(VALUES).allowed.max())


def test_whole_numbers_are_exact() -> None:
    ids = np.arange(10.0)
    exact = Floor(ids, np.dtype(np.int64), 0)
    assert exact.fit(ids).reaches_floor
    assert not exact.fit(ids + 1).reaches_floor


def test_nothing_fits_nothing() -> None:
    assert floor(np.zeros(0)).fit(np.zeros(0)).reaches_floor
