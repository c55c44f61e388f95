from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from firstdiff.judge import worst_ratio
from firstdiff.measure import EXACT, measure_pair
from firstdiff.trace import ArraySource

numbers = st.floats(-1e3, 1e3, width=32)


@given(
    pairs=st.lists(st.tuples(numbers, numbers), min_size=1, max_size=40),
    atol=st.sampled_from([0.0, 1e-3, 1.0]),
    rtol=st.sampled_from([0.0, 1e-3, 1.0]),
)
def test_it_is_the_largest_of_all_elements(pairs: list[tuple[float, float]], atol: float, rtol: float) -> None:
    reference, candidate = np.array(pairs, np.float64).T.copy()
    measured = measure_pair(ArraySource(reference), ArraySource(candidate), EXACT)
    apart, allowed = np.abs(candidate - reference), atol + rtol * np.abs(reference)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(apart == 0, 0.0, apart / allowed)
    found = worst_ratio(measured.envelope, atol, rtol)
    assert math.isclose(found, float(ratios.max()), rel_tol=1e-9)
