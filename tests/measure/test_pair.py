from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firstdiff.errors import UsageError
from firstdiff.measure import EXACT, Allowed, PairMeasurement, measure_pair, scan_pair
from firstdiff.schema import Statistics
from firstdiff.trace import ArraySource
from tests.measure.agreement import assert_agrees
from tests.measure.arrays import COMPLEX, FLOATS, WHOLE, Recipe, arrays, recipes

TOLERANCES = st.sampled_from([EXACT, Allowed(1e-3, 0.0), Allowed(0.0, 1e-3), Allowed(1e-5, 1.3e-6), Allowed(1.0, 0.5)])


def measured(reference: object, candidate: object, allowed: Allowed = EXACT, **options: bool) -> PairMeasurement:
    return measure_pair(ArraySource(np.asarray(reference)), ArraySource(np.asarray(candidate)), allowed, **options)


@settings(max_examples=120)
@given(recipes(), st.sampled_from(FLOATS), st.sampled_from(FLOATS), TOLERANCES, st.booleans())
def test_float_pairs_agree_with_the_definitions(
    recipe: Recipe, reference: str, candidate: str, allowed: Allowed, equal_nan: bool
) -> None:
    assert_agrees(*arrays(recipe, reference, candidate), allowed, equal_nan=equal_nan)


@settings(max_examples=80)
@given(recipes(), st.sampled_from(WHOLE), st.sampled_from(WHOLE), TOLERANCES)
def test_whole_pairs_agree_with_the_definitions(
    recipe: Recipe, reference: str, candidate: str, allowed: Allowed
) -> None:
    assert_agrees(*arrays(recipe, reference, candidate), allowed)


@settings(max_examples=60)
@given(recipes(), st.sampled_from(COMPLEX), st.sampled_from([*COMPLEX, "float32", "bfloat16", "int16"]), TOLERANCES)
def test_complex_pairs_agree_with_the_definitions(
    recipe: Recipe, reference: str, candidate: str, allowed: Allowed
) -> None:
    assert_agrees(*arrays(recipe, reference, candidate), allowed)


@settings(max_examples=40)
@given(recipes(), st.sampled_from(FLOATS), st.sampled_from(["int8", "uint8", "int32", "bool"]), TOLERANCES)
def test_floats_against_whole_numbers_agree_with_the_definitions(
    recipe: Recipe, reference: str, candidate: str, allowed: Allowed
) -> None:
    assert_agrees(*arrays(recipe, reference, candidate), allowed)
    assert_agrees(*arrays(recipe, candidate, reference), allowed)


@settings(max_examples=40)
@given(recipes(scales=(-320, 308)), TOLERANCES)
def test_float64_of_any_magnitude_never_gives_nan_by_accident(recipe: Recipe, allowed: Allowed) -> None:
    found = measured(*arrays(recipe, "float64", "float64"), allowed)
    for part in (found.metrics, found.reference, found.candidate):
        values = {name: getattr(part, name) for name in type(part).__dataclass_fields__}
        assert [name for name, value in values.items() if isinstance(value, float) and math.isnan(value)] == []


@settings(max_examples=40)
@given(recipes(max_size=600), st.sampled_from(["float32", "bfloat16", "int64", "complex64"]))
def test_memory_layout_makes_no_difference(recipe: Recipe, dtype: str) -> None:
    flat = [side[: side.size // 6 * 6].reshape(2, -1, 3) for side in arrays(recipe, dtype, dtype)]
    strided = [np.moveaxis(np.ascontiguousarray(np.moveaxis(side, 0, 2)), 2, 0) for side in flat]
    swapped = strided[1].astype(strided[1].dtype.newbyteorder(">"))
    expected = measured(*flat)
    assert measured(strided[0], swapped) == expected
    assert measured(flat[0], strided[1]) == expected


def test_case_1_one_element_of_a_million_off_by_half_is_found_by_its_index() -> None:
    reference = np.random.default_rng(0).standard_normal((100, 100, 100)).astype(np.float32)
    candidate = reference.copy()
    candidate[7, 42, 99] += 0.5
    metrics = measured(reference, candidate, Allowed(1e-5, 1e-5)).metrics
    assert (metrics.mismatched, metrics.argmax) == (1, (7, 42, 99))
    assert metrics.reference_at_max == float(reference[7, 42, 99])
    assert metrics.candidate_at_max == float(candidate[7, 42, 99])
    assert metrics.sampled == ()


def test_case_3_a_channel_three_percent_off_shows_in_the_largest_relative_difference() -> None:
    reference = np.random.default_rng(0).standard_normal((64, 32)).astype(np.float32)
    candidate = reference.copy()
    candidate[:, 5] *= 1.03
    metrics = measured(reference, candidate, Allowed(1e-6, 1e-5)).metrics
    assert metrics.mismatched == 64
    assert metrics.argmax is not None
    assert metrics.argmax[1] == 5
    assert metrics.max_rel == pytest.approx(0.03, rel=1e-4)


def test_case_4_nan_against_a_number_is_counted_apart() -> None:
    found = measured([1.0, 2.0, 4.0], [1.0, math.nan, 4.5], Allowed(1.0, 0.0))
    assert (found.metrics.mismatched, found.metrics.nan_candidate, found.metrics.max_abs) == (1, 1, 0.5)
    assert (found.nonfinite.conflicting, found.nonfinite.first) == (1, 1)
    assert found.metrics.cosine is None
    assert found.candidate == Statistics(2.75, 1.75, 1.0, 4.5, 1, 0)


def test_case_5_only_equal_infinities_match() -> None:
    found = measured([math.inf, math.inf, -math.inf, 1.0], [math.inf, -math.inf, 3.0, math.inf])
    assert (found.metrics.mismatched, found.nonfinite.equal_inf, found.nonfinite.conflicting) == (3, 1, 3)
    assert (found.metrics.inf_reference, found.metrics.inf_candidate, found.nonfinite.first) == (3, 3, 1)
    assert found.metrics.max_abs is None


@pytest.mark.parametrize(("equal_nan", "mismatched"), [(False, 2), (True, 0)])
def test_case_6_nan_on_both_sides_matches_only_if_asked(equal_nan: bool, mismatched: int) -> None:
    found = measured([math.nan, 1.0, math.nan], [math.nan, 1.0, math.nan], equal_nan=equal_nan)
    assert found.metrics.mismatched == mismatched
    assert (found.nonfinite.both_nan, found.nonfinite.conflicting, found.nonfinite.first_both_nan) == (2, 0, 0)


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "complex64", "bfloat16"])
def test_case_9_an_empty_pair_has_no_elements_and_no_figures(dtype: str) -> None:
    empty = np.zeros((0, 3), np.dtype(dtype) if dtype != "bfloat16" else ml_dtypes.bfloat16)
    found = measured(empty, empty)
    assert (found.metrics.elements, found.metrics.mismatched) == (0, 0)
    assert {found.metrics.max_abs, found.metrics.mean_rel, found.metrics.cosine, found.metrics.argmax} == {None}
    assert found.reference == Statistics(None, None, None, None, 0, 0)
    assert found.envelope.admits(0.0, 0.0) is True


def test_case_13_a_scalar_against_a_tensor_of_one_element() -> None:
    assert measured(np.int64(7), np.array([7])).metrics.mismatched == 0
    metrics = measured(np.int64(7), np.array(8)).metrics
    assert (metrics.mismatched, metrics.max_abs, metrics.argmax) == (1, 1, ())


def test_case_14_zeros_against_noise() -> None:
    metrics = measured(np.zeros(8, np.float32), np.full(8, 1e-9, np.float32)).metrics
    assert (metrics.mismatched, metrics.zero_reference, metrics.max_rel, metrics.max_ulp) == (8, 8, None, None)
    assert (metrics.rel_l2, metrics.nmse, metrics.sqnr_db, metrics.cosine) == (math.inf, math.inf, -math.inf, 0.0)


def test_case_15_the_sign_of_zero_is_no_difference() -> None:
    found = measured([0.0, -0.0, 1.0], [-0.0, 0.0, 1.0])
    assert (found.metrics.mismatched, found.metrics.max_abs, found.metrics.argmax) == (0, 0.0, None)
    assert found.metrics.one_minus_cosine == 0.0


def test_case_17_bf16_of_the_same_values_is_off_by_half_a_unit_at_most() -> None:
    reference = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    metrics = measured(reference, reference.astype(ml_dtypes.bfloat16), Allowed(0.0, 2.0**-8)).metrics
    assert metrics.mismatched == 0
    assert metrics.max_ulp is not None
    assert 0.4 < metrics.max_ulp <= 0.5


@pytest.mark.parametrize("offset", [0, 2**53, 2**62])
def test_case_18_a_token_off_by_one_is_found_however_large(offset: int) -> None:
    reference = np.arange(10, dtype=np.int64) + offset
    candidate = reference.copy()
    candidate[3] += 1
    metrics = measured(reference, candidate).metrics
    assert (metrics.mismatched, metrics.max_abs, metrics.argmax) == (1, 1, (3,))
    assert (metrics.reference_at_max, metrics.candidate_at_max) == (3 + offset, 4 + offset)
    assert metrics.max_ulp is None


def test_case_20_float64_of_float32_values_is_equal() -> None:
    reference = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    assert measured(reference.astype(np.float64), reference).metrics.mismatched == 0


def test_case_21_tiny_values_reversed_are_as_far_apart_as_large_ones() -> None:
    values = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    tiny, large = measured(values * 1e-8, values[::-1] * 1e-8).metrics, measured(values, values[::-1]).metrics
    assert tiny.rel_l2 == pytest.approx(large.rel_l2, rel=1e-5)
    assert tiny.cosine == pytest.approx(large.cosine, abs=1e-5)


def test_differences_beyond_64_bits_are_exact() -> None:
    lowest, highest = np.array([-(2**63)], np.int64), np.array([2**64 - 1], np.uint64)
    metrics = measured(lowest, highest, Allowed(float(2**64), 0.0)).metrics
    assert metrics.max_abs == 2**64 + 2**63 - 1
    assert metrics.mismatched == 1
    assert measured(highest, lowest, Allowed(float(2**65), 0.0)).metrics.mismatched == 0


def test_of_equal_maxima_the_first_is_named() -> None:
    reference = np.zeros((300, 300), np.float32)
    candidate = reference.copy()
    candidate[[5, 100, 299], [7, 0, 299]] = [-2.0, 2.0, 2.0]
    assert measured(reference, candidate).metrics.argmax == (5, 7)


@pytest.mark.parametrize(("r", "c", "cosine"), [([0.0], [0.0], 1.0), ([0.0], [1.0], 0.0), ([2.0], [0.0], 0.0)])
def test_the_cosine_of_zeros(r: list[float], c: list[float], cosine: float) -> None:
    assert measured(r, c).metrics.cosine == cosine


@given(st.integers(0, 1000), st.sampled_from([1e-3, 1e-5, 1e-6, 1e-7]))
@settings(max_examples=30)
def test_one_minus_cosine_keeps_its_digits(seed: int, angle: float) -> None:
    rng = np.random.default_rng(seed)
    reference, other = rng.standard_normal((2, 500))
    other -= reference * (other @ reference) / (reference @ reference)
    other *= np.sqrt((reference @ reference) / (other @ other))
    candidate = reference * np.cos(angle) + other * np.sin(angle)
    found = measured(reference, candidate).metrics.one_minus_cosine
    exact = np.longdouble(1) - _longdouble_cosine(reference, candidate)
    assert found == pytest.approx(2.0 * np.sin(angle / 2.0) ** 2, rel=1e-6, abs=1e-20)
    assert found == pytest.approx(float(exact), rel=1e-4, abs=1e-18)


def test_one_scan_is_measured_under_several_tolerances() -> None:
    scan = scan_pair(ArraySource(np.array([-1.0, 1.0])), ArraySource(np.array([-1.4, 1.6])))
    found = scan.measure(Allowed((scan.reference.std or 0.0) * 0.5, 0.0))
    assert (found.allowed, found.metrics.mismatched) == (Allowed(0.5, 0.0), 1)
    assert found.reference == scan.reference
    assert [scan.measure(Allowed(atol, 0.0)).metrics.mismatched for atol in (0.0, 0.5, 1.0)] == [2, 1, 0]


def test_a_scan_stays_what_it_was_however_often_it_is_measured() -> None:
    rng = np.random.default_rng(0)
    sides = [ArraySource(rng.standard_normal(100_000).astype(np.float32)) for _ in range(2)]
    scan = scan_pair(*sides)
    far, near = Allowed(100.0, 0.0), Allowed(1e-3, 0.0)
    first = scan.measure(far)
    assert scan.measure(near).metrics.sampled == ()
    assert scan.measure(far) == first == measure_pair(*sides, far)


@pytest.mark.parametrize("bad", [Allowed(-1.0, 0.0), Allowed(0.0, math.nan)])
def test_a_tolerance_that_makes_no_sense_is_refused(bad: Allowed) -> None:
    with pytest.raises(UsageError, match="makes no sense"):
        measured([1.0], [1.0], bad)


def test_pairs_of_other_sizes_are_refused() -> None:
    with pytest.raises(UsageError, match="2 and 3 elements cannot be measured"):
        measured([1.0, 2.0], [1.0, 2.0, 3.0])


def _longdouble_cosine(reference: np.ndarray, candidate: np.ndarray) -> np.longdouble:
    r, c = reference.astype(np.longdouble), candidate.astype(np.longdouble)
    return (r @ c) / np.sqrt((r @ r) * (c @ c))
