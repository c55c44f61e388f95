from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firstdiff.json_text import to_json
from firstdiff.measure import Allowed, Engine, Envelope, measure_pair, pair
from firstdiff.measure.hull import CAPACITY, Hull
from firstdiff.trace import ArraySource
from tests.measure.arrays import Recipe, arrays, recipes

TOLERANCES = [0.0, 1e-9, 1e-7, 1e-5, 1e-3, 0.1, 1.0, 30.0]


def envelope_of(reference: np.ndarray, candidate: np.ndarray, engine: Engine = "auto") -> Envelope:
    return measure_pair(ArraySource(reference), ArraySource(candidate), Allowed(1e300, 0.0), engine=engine).envelope


def assert_judges(envelope: Envelope, reference: np.ndarray, candidate: np.ndarray) -> None:
    """Every tolerance of a grid, and those that only just do, against the elements themselves."""
    r, c = reference.astype(np.float64), candidate.astype(np.float64)
    finite = np.isfinite(r) & np.isfinite(c)
    x, d = np.abs(r[finite]), np.abs(c - r)[finite]
    for rtol in TOLERANCES:
        least = float(np.maximum(d - rtol * x, 0.0).max(initial=0.0))
        for atol in [*TOLERANCES, least * (1 + 1e-9), least * (1 - 1e-9)]:
            verdict = envelope.admits(atol, rtol)
            if verdict is None:
                assert abs(atol - least) <= 2 * envelope.slack * d.max(), (atol, rtol)
            else:
                assert verdict == bool((d <= atol + rtol * x).all()), (atol, rtol)
                assert (envelope.approximate_count(atol, rtol) == 0) == verdict


@settings(max_examples=80)
@given(recipes(max_size=3000), st.sampled_from(["float32", "float64", "bfloat16"]))
def test_every_tolerance_is_judged_as_the_elements_judge_it(recipe: Recipe, dtype: str) -> None:
    sides = arrays(recipe, dtype, dtype)
    with np.errstate(all="ignore"):
        assert_judges(envelope_of(*sides), *sides)


@settings(max_examples=50)
@given(recipes(max_size=9000))
def test_both_engines_keep_an_envelope_of_large_pairs(recipe: Recipe) -> None:
    sides = arrays(recipe, "float32", "float32")
    with pytest.MonkeyPatch.context() as patch, np.errstate(all="ignore"):
        patch.setattr(pair, "SMALL", 0)
        assert_judges(envelope_of(*sides, engine="auto"), *sides)
        assert_judges(envelope_of(*sides, engine="numpy"), *sides)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("steps", [(1.0,), (1.0, 2.0), (1.0, 1.5, 1.75)])
def test_one_point_over_many_that_lie_on_the_curve_is_kept(steps: tuple[float, ...], dtype: type) -> None:
    rng = np.random.default_rng(0)
    # every difference is one of the corners' own heights, or 0 ...
    reference = rng.integers(0, 9, 5000).astype(dtype)
    candidate = reference + rng.choice([0.0, *steps], reference.size).astype(dtype)
    candidate[reference == 0] = 0
    # ... but for one that is a unit in float32's last place higher
    reference[4321], candidate[4321] = 8, np.nextafter(np.float32(8 + steps[-1]), np.float32(99))
    envelope = envelope_of(reference, candidate)
    assert envelope.corners[-1] == (8.0, float(candidate[4321]) - 8.0)
    assert_judges(envelope, reference, candidate)


@pytest.mark.parametrize("engine", ["numpy", "auto"])
def test_a_curve_of_endless_corners_is_thinned_and_stays_on_the_safe_side(engine: Engine) -> None:
    reference = np.random.default_rng(0).uniform(0.01, 4.0, 200_000).astype(np.float32)
    candidate = reference + np.sqrt(reference)
    envelope = envelope_of(reference, candidate, engine)
    assert len(envelope.corners) <= CAPACITY
    assert 1e-12 < envelope.slack < 1e-2
    assert_judges(envelope, reference, candidate)


@given(st.lists(st.tuples(st.floats(1e-6, 10), st.floats(0, 10)), max_size=60), st.integers(0, 60))
def test_merging_gives_the_hull_of_all_points(points: list[tuple[float, float]], cut: int) -> None:
    whole, first, second = Hull(), Hull(), Hull()
    for hull, part in ((whole, points), (first, points[:cut]), (second, points[cut:])):
        array = np.array(part).reshape(-1, 2)
        hull.add(
            array[:, 0],
            array[:, 1],
            float(array[:, 1].max(initial=0.0)),
            lambda at, array=array: (array[at, 0], array[at, 1]),
        )
    first.merge(second)
    assert first.steepest == whole.steepest
    for x in np.linspace(0.0, 12.0, 40):
        assert np.interp(x, *first.curve()) == pytest.approx(np.interp(x, *whole.curve()), rel=1e-9, abs=1e-12)


def test_required_tolerances_are_the_largest_differences() -> None:
    envelope = envelope_of(np.array([1.0, -4.0, 2.0]), np.array([1.5, -4.0, 1.8]))
    assert envelope.required_atol() == 0.5
    assert envelope.required_rtol() == 0.5
    assert envelope.admits(0.5, 0.0) is True
    assert envelope.admits(0.499, 0.0) is False


def test_no_rtol_alone_does_where_the_reference_is_zero() -> None:
    envelope = envelope_of(np.array([0.0, 1.0]), np.array([1e-9, 1.0]))
    assert envelope.required_rtol() is None
    assert envelope.admits(0.0, 1e9) is False
    assert envelope.admits(1e-9, 0.0) is True


def test_an_envelope_survives_json() -> None:
    reference = np.array([0.0, 1.0, -1e308, 3.0])
    envelope = envelope_of(reference, np.array([0.5, 1.25, 1e308, 3.0]))
    assert envelope.required_atol() == math.inf
    assert Envelope.from_plain(json.loads(to_json(envelope.to_plain()))) == envelope


@pytest.mark.parametrize("atol", [5e-8, 1e-7, 2e-7])
def test_counts_are_about_right(atol: float) -> None:
    rng = np.random.default_rng(0)
    reference = rng.standard_normal(500_000)
    candidate = reference + 1e-7 * rng.standard_normal(500_000)
    actual = int((np.abs(candidate - reference) > atol).sum())
    assert 0.2 * actual < envelope_of(reference, candidate).approximate_count(atol, 0.0) < 5 * actual
