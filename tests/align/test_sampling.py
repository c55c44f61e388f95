from __future__ import annotations

import numpy as np
import pytest

from firstdiff.align.sampling import Noise, common_value, noises, sample_positions, score, spread_of

NAN, INF = float("nan"), float("inf")


def test_places_never_change() -> None:
    assert sample_positions(1_000_000, 5).tolist() == [7535, 355700, 545679, 742444, 894747]


@pytest.mark.parametrize(("size", "count"), [(10, 100), (1000, 64), (10**13, 64)])
def test_places_rise_and_stay_inside(size: int, count: int) -> None:
    found = sample_positions(size, count)
    assert len(found) == min(size, count)
    assert (np.diff(found) > 0).all()
    assert 0 <= found[0] <= found[-1] < size


@pytest.mark.parametrize(
    ("reference", "candidate", "same"),
    [
        (1.0, 1.0009, True),
        (1.0, 1.1, False),
        (NAN, NAN, True),
        (NAN, 1.0, False),
        (INF, INF, True),
        (INF, -INF, False),
        (INF, 1.0, False),
        (1.0, INF, False),
        (0.0, -0.0, True),
    ],
)
def test_nan_and_infinity_are_values_with_a_place(reference: float, candidate: float, same: bool) -> None:
    assert Noise(0.0, 1e-3).same(np.array([reference]), np.array([candidate])).tolist() == [same]


def test_whole_numbers_have_no_noise() -> None:
    assert noises(np.arange(5.0), np.dtype(np.int64)) == [Noise(0.0, 0.0)]


def test_float32_values_may_have_been_bf16_once() -> None:
    strict, lenient = noises(np.arange(5.0), np.dtype(np.float32))
    assert strict.rtol < 1e-4
    assert lenient.rtol > 1e-2


@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e300])
def test_the_spread_of_huge_and_tiny_numbers_is_a_number(scale: float) -> None:
    assert spread_of(np.array([-scale, scale, NAN, INF])) == pytest.approx(scale)


def test_a_value_is_common_if_many_have_it() -> None:
    assert common_value(np.array([0.0] * 50 + list(range(1, 51)))) == 0.0
    assert np.isnan(common_value(np.arange(100.0)))
    assert common_value(np.array([-INF] * 50 + list(range(50)))) == -INF


def test_agreement_that_anything_would_reach_is_no_evidence() -> None:
    zeros = np.zeros(500)
    assert score(zeros, zeros, Noise(0, 0), 0.0, zeros).evidence == 0.0
    coins = np.arange(500) % 2 * 1.0
    random = np.random.default_rng(0).random(500)
    weak = score(coins, coins, Noise(0, 0), NAN, coins).evidence
    strong = score(random, random, Noise(0, 0), NAN, random).evidence
    assert 0 < weak < strong / 5


def test_rare_values_at_the_right_places_are_strong_evidence() -> None:
    sparse = np.zeros(1000)
    sparse[::100] = 1.0
    assert score(sparse, sparse, Noise(0, 0), 0.0, sparse).evidence > 20
    assert score(sparse, np.roll(sparse, 7), Noise(0, 0), 0.0, sparse).agreement == 0.0
