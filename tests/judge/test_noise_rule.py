from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstdiff import dtypes
from firstdiff.judge.noise_figures import (
    NoiseFigures,
    median,
    noise_figures,
    suspicious_rows,
    worst_elements,
)
from firstdiff.judge.noise_rule import (
    HALF,
    NoiseVerdict,
    judge_alone,
    judge_outputs,
    level_limit,
    sentence_of,
    smallest_scale_seen,
    worst_part,
)
from firstdiff.judge.noise_sums import NoiseSums

BF16 = np.dtype(ml_dtypes.bfloat16)
FP32 = np.dtype(np.float32)
EPS = dtypes.eps_of(BF16)


def values(seed: int = 0, rows: int = 64, channels: int = 96) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((rows, channels))


def noisy(reference: np.ndarray, noise: float, seed: int = 1) -> np.ndarray:
    """Noise of so many bf16 eps, and the rounding of the result."""
    moved = reference + noise * EPS * np.random.default_rng(seed).standard_normal(reference.shape)
    return moved.astype(BF16).astype(np.float64)


def figures(reference: np.ndarray, candidate: np.ndarray, eps: float = EPS) -> NoiseFigures | None:
    sums = NoiseSums.of(reference, candidate)
    found = noise_figures(sums, eps)
    if found is None:
        return None
    return found.with_worst(worst_elements(reference, candidate, sums.rows.sizes, sums.channels.sizes), eps)


def judged(reference: np.ndarray, candidate: np.ndarray, upstream: float | None = None) -> NoiseVerdict:
    return judge_outputs(figures(reference, candidate), BF16, upstream)


def parts(verdict: NoiseVerdict) -> set[str]:
    return {failed.part for failed in verdict.failed}


@pytest.mark.parametrize("noise", [0.0, 0.5, 1.0, 2.0, 4.0])
def test_noise_of_any_healthy_amount_matches(noise: float) -> None:
    reference = values()
    verdict = judged(reference, noisy(reference, noise))
    assert verdict.matches
    assert verdict.note is not None


def test_equal_sides_match_without_a_note() -> None:
    assert judged(values(), values()) == NoiseVerdict()


def test_all_values_too_large_is_scale_and_says_by_how_much() -> None:
    reference = values()
    verdict = judged(reference, noisy(1.02 * reference, 0.5))
    assert parts(verdict) == {"scale"}
    (failed,) = verdict.failed
    assert sentence_of([failed], BF16).startswith("all values are 2.0 % too large; healthy bf16 runs stay within 0.")
    assert failed.figure == pytest.approx(0.02, rel=0.05)
    assert failed.limit < failed.figure


def test_all_values_too_small_is_named_so() -> None:
    verdict = judged(values(), noisy(0.95 * values(), 0.5))
    assert "too small" in verdict.failed[0].text


def test_a_constant_that_one_side_rounds_is_no_scale_error() -> None:
    """1 / sqrt(d), multiplied or divided by: all values are one rounding larger."""
    reference = values().astype(np.float32)
    eps = float(np.finfo(np.float32).eps)
    for factor in (1 + eps, 1 - eps):
        candidate = (reference * np.float32(factor)).astype(np.float64)
        assert judge_outputs(figures(reference.astype(np.float64), candidate, eps), np.dtype(np.float32)).matches


def test_a_gain_of_a_few_rows_or_channels_alone_is_no_scale() -> None:
    """Attention gives some heads and some tokens another share; a wrong factor is in all of them."""
    reference = values()
    partly = noisy(reference, 1)
    partly[:, :60] *= 1.02
    assert "scale" not in parts(judged(reference, partly))
    wholly = noisy(1.02 * reference, 1)
    assert "scale" in parts(judged(reference, wholly))


def test_what_healthy_runs_stay_within_is_said_once() -> None:
    reference = values()
    verdict = judged(reference, noisy(1.3 * reference, 0.5))
    assert len(verdict.failed) > 1
    said = sentence_of(verdict.failed, BF16)
    assert said.count("healthy bf16 runs stay within") == 1
    assert all(failed.text in said for failed in verdict.failed)


def test_the_part_that_is_furthest_beyond_its_limit_is_told_first() -> None:
    reference = values()
    candidate = noisy(reference, 1)
    candidate[:, 7] *= 3
    failed = judged(reference, candidate).failed
    beyond = [part.figure / part.limit for part in failed]
    assert len(beyond) > 1
    assert beyond == sorted(beyond, reverse=True)
    assert failed[0].index == 7


def test_a_constant_added_is_shift() -> None:
    reference = values() + 0.1
    assert "shift" in parts(judged(reference, noisy(reference + 0.02, 0.5)))
    assert "shift" in parts(judged(reference, noisy(reference - 0.02, 0.5)))


def test_a_lost_row_is_row_with_its_index() -> None:
    reference = values()
    candidate = noisy(reference, 1)
    candidate[17] = 0
    verdict = judged(reference, candidate)
    assert {"row"} <= parts(verdict)
    assert next(failed.index for failed in verdict.failed if failed.part == "row") == 17


def test_a_lost_row_shows_beside_massive_values_and_much_noise_upstream() -> None:
    reference = values()
    reference[0, 5] = 3000
    candidate = noisy(reference, 1)
    candidate[17] = 0
    assert "row" in parts(judged(reference, candidate, upstream=8.0))


def test_a_lost_channel_is_channel_with_its_index() -> None:
    reference = values()
    candidate = noisy(reference, 1)
    candidate[:, 30] = 0
    found = {failed.part: failed.index for failed in judged(reference, candidate).failed}
    assert found["channel"] == 30


def test_one_scaled_channel_is_odd() -> None:
    reference = values()
    candidate = noisy(reference, 0.5)
    candidate[:, 30] *= 1.15
    verdict = judged(reference, candidate)
    assert parts(verdict) == {"odd_channel"}
    assert verdict.failed[0].text.startswith("channel 30 is 1")


def test_a_channel_that_lives_in_one_row_is_not_odd() -> None:
    reference = np.maximum(values() - 0.5, 0)
    reference[:, 30] = 0
    reference[5, 30] = 6
    candidate = noisy(reference, 0.5) * (reference > 0)
    candidate[5, 30] *= 1.04
    assert judged(reference, candidate).matches


def test_a_small_channel_takes_noise_from_the_others() -> None:
    """A channel that is nearly the same in all rows differs by one amount in all of them, and none of it is its own."""
    rng = np.random.default_rng(4)
    reference = values() + rng.standard_normal((1, 96))
    reference[:, 30] = 0.08
    candidate = noisy(reference + EPS * rng.standard_normal((1, 96)), 0.5)
    candidate[:, 30] = 0.08 + 2 * EPS
    assert judged(reference, candidate).matches


def test_one_massive_element_is_no_lost_row_or_channel() -> None:
    reference = values()
    reference[5, 30] = 60
    candidate = noisy(reference, 1)
    candidate[5, 30] = 20
    assert not parts(judged(reference, candidate, upstream=4.0)) & {"row", "channel"}
    for lost in (np.s_[5], np.s_[:, 30]):
        candidate = noisy(reference, 1)
        candidate[lost] = 0
        assert parts(judged(reference, candidate)) & {"row", "channel"}


def test_noise_in_one_row_is_row_noise_with_its_index() -> None:
    reference = values()
    candidate = noisy(reference, 1)
    candidate[17] += 0.2 * np.random.default_rng(2).standard_normal(reference.shape[1])
    verdict = judged(reference, candidate, upstream=1.0)
    assert [(failed.part, failed.index) for failed in verdict.failed] == [("row_noise", 17)]
    assert sentence_of(verdict.failed, BF16).startswith("the values of row 17 differ by 1")


def test_one_element_where_a_massive_row_meets_a_massive_channel_is_no_row_noise() -> None:
    reference = values()
    reference[5, 7] = 14
    candidate = noisy(reference, 1)
    candidate[5, 30] += 1.0
    assert judged(reference, candidate, upstream=4.0).matches


def test_one_spike_is_element() -> None:
    reference = values()
    candidate = noisy(reference, 0.5)
    candidate[3, 4] += 4
    assert "element" in parts(judged(reference, candidate))


def test_coarse_rounding_of_everything_is_level() -> None:
    reference = values()
    step = np.abs(reference).max(axis=1, keepdims=True) / 15
    assert "level" in parts(judged(reference, np.round(reference / step) * step, upstream=1.0))


def test_limits_grow_with_the_noise_upstream() -> None:
    reference = values()
    candidate = noisy(reference, 10)
    assert parts(judged(reference, candidate)) == {"level"}
    assert judged(reference, candidate, upstream=9.0).matches


def test_limits_are_half_where_everything_upstream_is_quiet() -> None:
    reference = values()
    candidate = noisy(reference, 5)
    assert judged(reference, candidate).matches
    assert parts(judged(reference, candidate, upstream=0.0)) == {"level"}


def test_a_match_in_much_noise_says_that_it_cannot_judge() -> None:
    reference = values()
    verdict = judged(reference, noisy(reference, 7))
    assert verdict.matches
    assert verdict.note is not None
    assert "too high to judge" in verdict.note


@given(st.floats(0.0, 6.0), st.integers(0, 50), st.sampled_from([-1, 1]), st.none() | st.floats(0.0, 12.0))
def test_what_a_match_says_it_would_see_it_does_see(noise: float, seed: int, sign: int, upstream: float | None) -> None:
    reference = values(seed)
    clean = figures(reference, noisy(reference, noise, seed + 1000))
    assert clean is not None
    seen = smallest_scale_seen(clean, HALF, upstream) * EPS
    above = judged(reference, noisy(reference * (1 + 1.1 * sign * seen), noise, seed + 1000), upstream)
    below = judged(reference, noisy(reference * (1 + 0.5 * sign * seen), noise, seed + 1000), upstream)
    assert "scale" in parts(above) or "level" in parts(above)
    assert "scale" not in parts(below)


def test_float32_sees_a_thousandth_of_it() -> None:
    reference = values().astype(np.float32)
    rng = np.random.default_rng(3)
    healthy = (reference.astype(np.float64) * (1 + 5e-7 * rng.standard_normal(reference.shape))).astype(np.float32)
    wrong = (healthy.astype(np.float64) * 1.00002).astype(np.float32)
    eps = dtypes.eps_of(FP32)
    assert judge_outputs(figures(reference, healthy, eps), FP32).matches
    assert "scale" in parts(judge_outputs(figures(reference, wrong, eps), FP32))


def test_an_operation_alone_is_held_to_one_rounding() -> None:
    computed = values()
    rounded = computed.astype(BF16).astype(np.float64)
    assert judge_alone(figures(computed, rounded), BF16).matches
    for wrong in (1.01 * rounded, rounded + 0.01, noisy(computed, 1)):
        assert not judge_alone(figures(computed, wrong), BF16).matches


def test_sums_leave_out_what_is_not_finite_or_not_counted() -> None:
    reference, candidate = values(rows=8), values(rows=8)
    reference[0, 0], candidate[1, 1], candidate[2, 2] = np.nan, np.inf, -1e9
    counted = np.ones(reference.shape, dtype=bool)
    counted[2, 2] = False
    sums = NoiseSums.of(reference, candidate, counted)
    assert sums.rows.dd.sum() == 0
    assert sums.rows.count.tolist() == [95, 95, 95, 96, 96, 96, 96, 96]
    assert sums.channels.count[:3].tolist() == [7, 7, 7]


@given(st.integers(0, 1000), st.floats(1.0, 100.0), st.floats(0.1, 10.0))
def test_rows_that_are_not_suspicious_are_within_both_limits(seed: int, element: float, row_noise: float) -> None:
    reference = values(seed, 12, 16)
    candidate = reference.copy()
    rng = np.random.default_rng(seed)
    candidate[rng.integers(12), rng.integers(16)] += rng.standard_normal() * element
    candidate[rng.integers(12)] += rng.standard_normal(16) * row_noise
    sums = NoiseSums.of(reference, candidate)
    suspects = set(suspicious_rows(sums, element, row_noise).tolist())
    sizes = sums.rows.sizes, sums.channels.sizes
    for row in set(range(12)) - suspects:
        found = worst_elements(reference[row], candidate[row], sizes[0][row : row + 1], sizes[1])
        assert found.element <= element
        assert found.row_noise <= row_noise


def test_zeros_against_zeros_and_single_values_are_judged_without_a_consensus() -> None:
    assert figures(np.zeros((4, 4)), np.zeros((4, 4))) is None
    assert judged(np.ones((1, 1)), np.full((1, 1), 1 + EPS)).matches
    assert not judged(np.ones((1, 1)), np.full((1, 1), 2.0)).matches


@given(st.lists(st.floats(-1e300, 1e300) | st.sampled_from([np.nan, np.inf]), min_size=1, max_size=9))
def test_the_median_is_that_of_numpy(numbers: list[float]) -> None:
    with np.errstate(all="ignore"):
        expected = float(np.median(numbers))
    assert median(np.array(numbers)) == expected or np.isnan(expected)
    assert np.isnan(median(np.array(numbers))) == np.isnan(expected)


_SIZES = st.floats(0, 1e3)


@given(
    sizes=st.fixed_dictionaries(
        dict.fromkeys(("noise", "level", "typical", "row", "channel", "odd_channel", "element", "row_noise"), _SIZES)
    ),
    scale=st.floats(-50, 50),
    sure=st.floats(0, 1),
    shift=st.floats(-50, 50),
    upstream=st.none() | st.floats(0, 60),
    dtype=st.sampled_from([BF16, FP32]),
)
def test_the_worst_part_is_beyond_its_limit_where_a_part_fails(
    sizes: dict[str, float], scale: float, sure: float, shift: float, upstream: float | None, dtype: np.dtype
) -> None:
    given = NoiseFigures(
        **{"rows": 64, "channels": 64, "row_index": 0, "channel_index": 0, "odd_index": 0, "odd_gain": 9.0},
        **{
            "scale": scale,
            "sure_scale": sure * scale,
            "own_scale": abs(scale),
            "shift": shift,
            "sure_shift": sure * shift,
        },
        **sizes,
    )
    assert (worst_part(given, dtype, upstream) > 1) == bool(judge_outputs(given, dtype, upstream).failed)


def test_the_level_that_is_allowed_follows_the_noise_upstream() -> None:
    reference = values()
    for upstream, allowed in ((None, 8 * EPS), (0.0, 4 * EPS), (6.0, 16 * EPS)):
        assert level_limit(BF16, upstream) == pytest.approx(allowed)
        above = noisy(reference, 1.1 * allowed / EPS)
        assert "level" in parts(judged(reference, above, upstream))


def test_values_of_something_else_widen_no_limit() -> None:
    reference = values()
    verdict = judged(reference, values(7))
    assert "scale" in parts(verdict)
    assert all(failed.limit <= HALF.level * EPS for failed in verdict.failed if failed.part in ("scale", "shift"))
