"""Two-sample tests for the same distribution, each with its significance level."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

LEAST_SAMPLES = 100
# more values than this are numbers and get bins; up to it every value is a category of its own
_MOST_CATEGORIES = 256
_BINS = 64
# the approximation by a chi-square distribution wants this many expected in every bin
_LEAST_EXPECTED = 5.0

TestName = Literal["total_variation", "chi_square", "kolmogorov_smirnov"]


@dataclass(frozen=True, slots=True)
class SampleTest:
    """One test of two samples.

    statistic: the distance, or the chi-square sum
    limit: what it stays below for two samples of one distribution, but for `level` of all cases; None where the
        chance is given instead
    p: the chance of such a statistic, or a larger one, for two samples of one distribution; an upper bound for
        the total variation
    """

    name: TestName
    statistic: float
    p: float
    limit: float | None = None
    freedom: int | None = None


@dataclass(frozen=True, slots=True)
class TwoSamples:
    """The three tests of two samples, with how the values were binned."""

    bins: int
    are_categories: bool
    tests: tuple[SampleTest, ...]

    def smallest(self) -> SampleTest:
        """Return the test that speaks most against one distribution."""
        return min(self.tests, key=lambda test: test.p)


def compare_samples(reference: np.ndarray, candidate: np.ndarray, level: float) -> TwoSamples:
    """Test whether two samples, flat and without NaN, are of one distribution.

    level: the chance, for each test, of finding a difference where there is none
    """
    both = np.concatenate([reference, candidate])
    values = np.unique(both)
    are_categories = both.dtype.kind in "biu" or len(values) <= _MOST_CATEGORIES
    if are_categories:
        ref, cand = (
            np.bincount(np.searchsorted(values, side), minlength=len(values)) for side in (reference, candidate)
        )
    else:
        edges = np.unique(np.quantile(both, np.linspace(0, 1, _BINS + 1)[1:-1], method="nearest"))
        ref, cand = (
            np.bincount(np.searchsorted(edges, side, side="left"), minlength=len(edges) + 1)
            for side in (reference, candidate)
        )
    tests = (
        total_variation(ref, cand, level),
        chi_square(ref, cand),
        kolmogorov_smirnov(reference, candidate),
    )
    return TwoSamples(len(ref), are_categories, tests)


def total_variation(reference: np.ndarray, candidate: np.ndarray, level: float) -> SampleTest:
    """Return the distance of two counts, half the sum of what shares differ by, and what chance alone may make it.

    Its expectation is bounded by the deviations of the bins' shares; one sample more or less moves it by 1/n, so that
    McDiarmid's inequality bounds the rest.
    """
    n, m = int(reference.sum()), int(candidate.sum())
    spread = 1 / n + 1 / m
    distance = float(np.abs(reference / n - candidate / m).sum() / 2)
    share = (reference + candidate) / (n + m)
    expected = float(np.sqrt(share * (1 - share) * spread).sum() / 2)
    beyond = max(distance - expected, 0.0)
    p = math.exp(-2 * beyond * beyond / spread)
    return SampleTest("total_variation", distance, p, expected + math.sqrt(math.log(1 / level) * spread / 2))


def chi_square(reference: np.ndarray, candidate: np.ndarray) -> SampleTest:
    """Test two counts for homogeneity; bins that are too rare to be tested are put together."""
    n, m = float(reference.sum()), float(candidate.sum())
    rare = (reference + candidate) * (min(n, m) / (n + m)) < _LEAST_EXPECTED
    counts = np.stack([reference, candidate]).astype(np.float64)
    if rare.any():
        together = counts[:, rare].sum(axis=1, keepdims=True)
        counts = np.concatenate([counts[:, ~rare], together], axis=1)
        if counts.shape[1] > 1 and together.sum() * (min(n, m) / (n + m)) < _LEAST_EXPECTED:
            counts[:, -2] += counts[:, -1]
            counts = counts[:, :-1]
    freedom = counts.shape[1] - 1
    if freedom == 0:
        return SampleTest("chi_square", 0.0, 1.0, freedom=0)
    expected = counts.sum(axis=0) * np.array([[n], [m]]) / (n + m)
    statistic = float(((counts - expected) ** 2 / expected).sum())
    return SampleTest("chi_square", statistic, chi_square_tail(statistic, freedom), freedom=freedom)


def kolmogorov_smirnov(reference: np.ndarray, candidate: np.ndarray) -> SampleTest:
    """Return the largest distance of the two cumulative distributions; on the safe side where values repeat."""
    ref, cand = np.sort(reference), np.sort(candidate)
    both = np.concatenate([ref, cand])
    below = (
        np.searchsorted(ref, both, side="right") / len(ref),
        np.searchsorted(cand, both, side="right") / len(cand),
    )
    distance = float(np.abs(below[0] - below[1]).max())
    return SampleTest("kolmogorov_smirnov", distance, kolmogorov_tail(distance, len(ref), len(cand)))


def kolmogorov_tail(distance: float, n: int, m: int) -> float:
    """Return the chance of such a distance, or a larger one, of two samples (Stephens' approximation)."""
    root = math.sqrt(n * m / (n + m))
    scaled = (root + 0.12 + 0.11 / root) * distance
    if scaled < 0.2:  # the series does not converge there, and the chance is 1 to twelve digits
        return 1.0
    terms = (2 * (-1) ** (k - 1) * math.exp(-2 * (k * scaled) ** 2) for k in range(1, 101))
    return min(max(math.fsum(terms), 0.0), 1.0)


def chi_square_tail(statistic: float, freedom: int) -> float:
    """Return the chance that a chi-square variable exceeds a value: the upper incomplete gamma function."""
    a, x = freedom / 2, statistic / 2
    if x <= 0:
        return 1.0
    front = math.exp(a * math.log(x) - x - math.lgamma(a)) if a * math.log(x) - x - math.lgamma(a) > -745 else 0.0
    if x < a + 1:
        term = total = 1 / a
        k = a
        while term > total * 1e-15:
            k += 1
            term *= x / k
            total += term
        return min(max(1 - front * total, 0.0), 1.0)
    # Lentz's continued fraction
    b = x + 1 - a
    c, d = 1e300, 1 / b
    result = d
    for i in range(1, 10_000):
        step = -i * (i - a)
        b += 2
        d = 1 / (step * d + b or 1e-300)
        c = b + step / c or 1e-300
        factor = d * c
        result *= factor
        if abs(factor - 1) < 1e-15:
            break
    return min(max(front * result, 0.0), 1.0)
