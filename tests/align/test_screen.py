from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from firstdiff.align import could_be_rearranged
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
