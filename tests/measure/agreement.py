"""Assert that a measurement agrees with the plain definitions."""

from __future__ import annotations

import math

import numpy as np
import pytest

from firstdiff.measure import Allowed, Engine, PairMeasurement, measure_pair
from firstdiff.measure.definitions import plain_metrics, plain_statistics
from firstdiff.schema import Metrics, Statistics
from firstdiff.trace import ArraySource

EXACTLY = (
    "elements mismatched max_abs max_rel zero_reference argmax max_ulp "
    "nan_reference nan_candidate inf_reference inf_candidate"
).split()
CLOSELY = "mean_abs mean_rel mse rmse rel_l2 nmse sqnr_db".split()
CHOSEN_BY_SAMPLE = {"max_ulp", "mean_rel", "abs_percentiles"}


def assert_agrees(
    reference: np.ndarray,
    candidate: np.ndarray,
    allowed: Allowed,
    *,
    equal_nan: bool = False,
    engine: Engine = "auto",
) -> PairMeasurement:
    """Measure a pair and hold every figure to its definition."""
    measured = measure_pair(ArraySource(reference), ArraySource(candidate), allowed, equal_nan=equal_nan, engine=engine)
    with np.errstate(all="ignore"):
        plain = plain_metrics(reference, candidate, allowed, equal_nan=equal_nan)
        assert_statistics(measured.reference, plain_statistics(reference))
        assert_statistics(measured.candidate, plain_statistics(candidate))
    assert_metrics(measured.metrics, plain)
    return measured


def assert_statistics(found: Statistics, plain: Statistics) -> None:
    assert (found.min, found.max, found.nan, found.inf) == (plain.min, plain.max, plain.nan, plain.inf)
    if plain.mean is None:
        assert found.mean is found.std is None
        return
    reach = max(abs(plain.min), abs(plain.max))
    assert found.mean == pytest.approx(plain.mean, rel=1e-6, abs=1e-7 * float(reach))
    assert found.std == pytest.approx(plain.std, rel=1e-6, abs=1e-14 * float(reach))


def assert_metrics(found: Metrics, plain: Metrics) -> None:
    for name in EXACTLY:
        if name not in found.sampled:
            assert getattr(found, name) == getattr(plain, name), name
    for name in CLOSELY:
        if name not in found.sampled:
            assert_close(getattr(found, name), getattr(plain, name), name)
    assert _same_number(found.reference_at_max, plain.reference_at_max)
    assert _same_number(found.candidate_at_max, plain.candidate_at_max)
    assert_cosine(found, plain)
    if "abs_percentiles" not in found.sampled:
        assert_percentiles(found, plain)


def assert_close(found: float | None, plain: float | None, name: str) -> None:
    if plain is None or not math.isfinite(plain):
        assert found == plain, name
    else:
        assert found == pytest.approx(plain, rel=1e-6, abs=1e-5 if name == "sqnr_db" else 0.0), name


def assert_cosine(found: Metrics, plain: Metrics) -> None:
    if plain.one_minus_cosine is None:
        assert found.one_minus_cosine is found.cosine is None
        return
    unknowable = 1e-28  # the square of what rounding a float64 turns a vector by
    assert found.one_minus_cosine == pytest.approx(plain.one_minus_cosine, rel=1e-6, abs=unknowable)
    assert found.cosine == 1.0 - found.one_minus_cosine
    assert found.cosine <= 1.0


def assert_percentiles(found: Metrics, plain: Metrics) -> None:
    assert found.abs_percentiles.keys() == plain.abs_percentiles.keys()
    for p, value in plain.abs_percentiles.items():
        assert found.abs_percentiles[p] == pytest.approx(float(value), rel=2.0**-6, abs=1e-300), p


def _same_number(found: object, plain: object) -> bool:
    return type(found) is type(plain) and found == plain
