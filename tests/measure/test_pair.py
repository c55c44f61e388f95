from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from firstdiff.measure import EXACT, Allowed, measure_pair
from firstdiff.trace import ArraySource
from tests.measure.agreement import assert_agrees
from tests.measure.arrays import COMPLEX, FLOATS, WHOLE, arrays, recipes

TOLERANCES = st.sampled_from([EXACT, Allowed(1e-3, 0.0), Allowed(0.0, 1e-3), Allowed(1e-5, 1.3e-6), Allowed(1.0, 0.5)])


@settings(max_examples=150)
@given(recipes(), st.sampled_from(FLOATS), st.sampled_from(FLOATS), TOLERANCES, st.booleans())
def test_float_pairs_agree_with_the_definitions(recipe, reference, candidate, allowed, equal_nan):
    assert_agrees(*arrays(recipe, reference, candidate), allowed, equal_nan=equal_nan)


@settings(max_examples=100)
@given(recipes(), st.sampled_from(WHOLE), st.sampled_from(WHOLE), TOLERANCES)
def test_whole_pairs_agree_with_the_definitions(recipe, reference, candidate, allowed):
    assert_agrees(*arrays(recipe, reference, candidate), allowed)


@settings(max_examples=60)
@given(recipes(), st.sampled_from(COMPLEX), st.sampled_from([*COMPLEX, "float32", "bfloat16", "int16"]), TOLERANCES)
def test_complex_pairs_agree_with_the_definitions(recipe, reference, candidate, allowed):
    assert_agrees(*arrays(recipe, reference, candidate), allowed)


@settings(max_examples=60)
@given(recipes(), st.sampled_from(FLOATS), st.sampled_from(["int8", "uint8", "int32", "bool"]), TOLERANCES)
def test_floats_against_whole_numbers_agree_with_the_definitions(recipe, reference, candidate, allowed):
    assert_agrees(*arrays(recipe, reference, candidate), allowed)
    assert_agrees(*arrays(recipe, candidate, reference), allowed)


@settings(max_examples=40)
@given(recipes(scales=(-320, 308)), TOLERANCES)
def test_float64_of_any_magnitude_never_gives_nan_by_accident(recipe, allowed):
    reference, candidate = arrays(recipe, "float64", "float64")
    metrics = measure_pair(ArraySource(reference), ArraySource(candidate), allowed).metrics
    for name in type(metrics).__dataclass_fields__:
        value = getattr(metrics, name)
        assert not (isinstance(value, float) and np.isnan(value)), name
