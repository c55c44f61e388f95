"""Samples of generators that are not shared are compared by their distributions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import firstdiff as fd
from firstdiff.comparing import DistributionRow
from firstdiff.measure.two_samples import chi_square_tail, compare_samples, kolmogorov_tail
from firstdiff.trace import Record, TraceWriter

Draw = Callable[[np.random.Generator], np.ndarray]


def draws(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def only_row(ours: np.ndarray, theirs: np.ndarray) -> DistributionRow:
    return fd.compare_distributions({"x": ours}, {"x": theirs}).rows[0]


@pytest.mark.parametrize("freedom", [1, 2, 5, 63, 400])
@pytest.mark.parametrize("factor", [0.2, 0.9, 1.0, 1.4, 4.0])
def test_the_tail_of_chi_square_is_that_of_scipy(freedom: int, factor: float) -> None:
    stats = pytest.importorskip("scipy.stats")
    expected = stats.chi2.sf(freedom * factor, freedom)
    assert chi_square_tail(freedom * factor, freedom) == pytest.approx(expected, rel=1e-9, abs=1e-14)


def test_the_kolmogorov_smirnov_test_is_that_of_scipy() -> None:
    stats = pytest.importorskip("scipy.stats")
    ours, theirs = draws(0).normal(size=800), draws(1).normal(0.1, 1, size=500)
    found = compare_samples(ours, theirs, 0.01).tests[2]
    expected = stats.ks_2samp(ours, theirs, method="exact")
    assert found.statistic == pytest.approx(expected.statistic)
    assert found.p == pytest.approx(expected.pvalue, rel=0.05)
    assert kolmogorov_tail(0.0, 100, 100) == 1.0


@pytest.mark.parametrize(
    "draw",
    [
        lambda r: r.normal(size=(500, 8)).astype(np.float32),
        lambda r: r.integers(0, 50_000, size=4_000),
        lambda r: r.choice(65, size=(40, 128), p=np.arange(1, 66) / 2145).astype(np.int32),
        lambda r: r.random(3_000) < 0.02,
        lambda r: np.full(200, 3.0),
    ],
)
def test_two_samples_of_one_distribution_match(draw: Draw) -> None:
    found = [only_row(draw(draws(seed)), draw(draws(seed + 100))).status for seed in range(20)]
    assert found == ["match"] * 20


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (lambda r: r.normal(size=2_000), lambda r: r.normal(0, 1.2, size=2_000)),
        (lambda r: r.normal(size=2_000), lambda r: r.uniform(-1.732, 1.732, size=2_000)),
        (lambda r: r.integers(0, 20, 3_000), lambda r: np.minimum(r.integers(0, 21, 3_000), 19)),
        (lambda r: np.zeros(200), lambda r: np.ones(200)),
    ],
)
def test_other_distributions_are_a_mismatch(ours: Draw, theirs: Draw) -> None:
    row = only_row(ours(draws(0)), theirs(draws(1)))
    assert row.status == "mismatch"
    assert "differ by more than chance" in str(row.reason)


def test_changed_columns_are_found_though_the_whole_agrees() -> None:
    scale = np.array([1.0, 5.0])
    row = only_row(draws(0).normal(size=(1000, 2)) * scale, draws(1).normal(size=(1000, 2)) * scale[::-1])
    assert row.status == "mismatch"
    assert "all values together agree" in str(row.reason)


def test_too_few_samples_are_inconclusive_and_never_a_match() -> None:
    found = fd.compare_distributions({"x": np.zeros(99)}, {"x": np.zeros(500)})
    assert (found.rows[0].status, found.verdict) == ("inconclusive", "not_compared")
    assert "99 and 500 samples are too few" in str(found.rows[0].reason)


@pytest.mark.parametrize(
    ("ours", "theirs", "status", "text"),
    [
        (np.zeros(200), np.zeros(200, np.int64), "failed", "float64 and int64 are samples of different kinds"),
        (np.zeros(200, complex), np.zeros(200, complex), "failed", "complex values have no order"),
        (
            np.zeros(200),
            np.full(200, np.nan),
            "mismatch",
            "200 samples of the candidate and 0 of the reference are NaN",
        ),
    ],
)
def test_samples_that_cannot_be_compared_say_why(ours: np.ndarray, theirs: np.ndarray, status: str, text: str) -> None:
    row = only_row(ours, theirs)
    assert row.status == status
    assert text in str(row.reason)


def test_weights_are_left_out(tmp_path: Path) -> None:
    with TraceWriter(tmp_path / "a.trace") as trace:
        trace.write(Record(name="noise"), draws(0).normal(size=500))
        trace.write(Record(name="weight", role="param"), np.zeros(500))
    found = fd.compare_distributions(tmp_path / "a.trace", tmp_path / "a.trace")
    assert [row.key for row in found.rows] == ["noise"]
    assert "1 weights are no samples" in found.warnings[-1]
