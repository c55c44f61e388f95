"""The scale of what a mask leaves."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from firstdiff.comparing import compare
from firstdiff.comparing.rejudge import rejudge
from firstdiff.judge import Rules
from firstdiff.measure import measure_statistics, shown_deviation
from firstdiff.trace import ArraySource

LENGTH = 48


def scores(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((2, LENGTH, LENGTH)).astype(np.float32)


def causal(values: np.ndarray, filler: float) -> np.ndarray:
    return np.where(np.tril(np.ones((LENGTH, LENGTH), bool)), values, np.float32(filler))


def deviation(values: np.ndarray) -> float:
    source = ArraySource(values)
    return shown_deviation(source, measure_statistics(source))


@pytest.mark.parametrize("filler", [-1e4, -1e9, float(np.finfo(np.float32).min), 1e9])
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_a_filler_is_left_out(filler: float, dtype: type) -> None:
    values = causal(scores(), filler).astype(dtype)
    shown = values.astype(np.float64)[np.abs(values.astype(np.float64)) < 1e3]
    assert deviation(values) == pytest.approx(shown.std(), rel=1e-9)


def test_a_mask_that_is_added_is_left_out() -> None:
    values = scores() + causal(np.zeros_like(scores()), -1e4)
    assert deviation(values) == pytest.approx(values[values > -1e3].std(), rel=1e-4)


@pytest.mark.parametrize(
    "values",
    [scores() * 5000, np.full((4, 4), -1e9, np.float32), np.array([], np.float32), np.array([0, -(10**9)] * 50)],
    ids=["large", "nothing else", "empty", "whole numbers"],
)
def test_other_tensors_keep_their_own(values: np.ndarray) -> None:
    assert deviation(values) == (measure_statistics(ArraySource(values)).std or 0.0)


def test_a_lone_outlier_belongs_to_the_values() -> None:
    values = scores()
    values[0, 0, 0] = 1e6
    assert deviation(values) == measure_statistics(ArraySource(values)).std


@pytest.mark.parametrize("filler", [-1e9, float(np.finfo(np.float32).min)])
def test_wrong_scores_beside_a_mask_do_not_pass(filler: float) -> None:
    right, wrong = causal(scores(), filler), causal(scores() * 1.01, filler)
    comparison = compare({"scores": right}, {"scores": wrong})
    assert comparison.verdict == "mismatch"
    assert compare({"scores": right}, {"scores": causal(scores() * (1 + 1e-7), filler)}).verdict == "match"
    assert rejudge(comparison, Rules()).verdict == "mismatch"
