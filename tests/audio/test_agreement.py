from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firstdiff.audio.levels import measure_agreement, shared_range
from firstdiff.audio.sound import Shifted, sound_of
from tests.audio.sounds import noise


def plain_si_snr(reference: np.ndarray, candidate: np.ndarray) -> float:
    """As its definition says."""
    r, c = reference - reference.mean(), candidate - candidate.mean()
    target = (c @ r) / (r @ r) * r
    return float(10 * np.log10((target @ target) / ((c - target) @ (c - target))))


@settings(max_examples=40)
@given(
    st.floats(0.05, 3) | st.floats(-3, -0.05),
    st.floats(1e-4, 2),
    st.floats(-1, 1),
    st.sampled_from([1.0, 2.0, -0.5, 1024.0]),
)
def test_figures_are_those_of_the_definitions(gain: float, spoilt: float, offset: float, scale: float) -> None:
    r = noise(3000, 1).astype(np.float64)
    c = gain * r + spoilt * noise(3000, 2) + offset
    found = measure_agreement(sound_of(r, 8000), sound_of(c, 8000), scale=scale)
    slope, constant = np.polyfit(r, c, 1)
    assert found.gain == pytest.approx(slope, rel=1e-6, abs=1e-9)
    assert found.offset == pytest.approx(constant, rel=1e-6, abs=1e-9)
    assert found.si_snr_db == pytest.approx(plain_si_snr(r, c), abs=0.01)
    plain = measure_agreement(sound_of(r, 8000), sound_of(c, 8000))
    assert plain.snr_db == pytest.approx(10 * np.log10((r @ r) / ((c - r) @ (c - r))), abs=1e-9)


def test_equal_sounds_agree_without_end() -> None:
    sound = sound_of(noise(100), 8000)
    found = measure_agreement(sound, sound)
    assert (found.snr_db, found.si_snr_db, found.gain) == (math.inf, math.inf, 1.0)


def test_very_quiet_candidates_keep_their_digits_once_scaled() -> None:
    r = noise(5000).astype(np.float64)
    c = (r + 1e-6 * noise(5000, 2)) / 32768
    found = measure_agreement(sound_of(r, 8000), sound_of(c, 8000), scale=32768.0)
    assert found.si_snr_db == pytest.approx(120, abs=0.5)


def test_samples_that_are_not_finite_on_one_side_are_left_out() -> None:
    r = np.array([1.0, 2.0, np.inf, 4.0])
    c = np.array([1.0, np.nan, 3.0, 5.0])
    found = measure_agreement(sound_of(r, 8000), sound_of(c, 8000))
    assert (found.count, found.rr, found.dd) == (2, 17.0, 1.0)


@pytest.mark.parametrize(
    ("delay", "expected"), [(0, (0, 80)), (30, (0, 50)), (-30, (30, 100)), (200, (0, 0)), (-200, (200, 200))]
)
def test_the_shared_part_follows_the_shift(delay: int, expected: tuple[int, int]) -> None:
    found = shared_range(sound_of(np.ones(100), 8000), Shifted(sound_of(np.ones(80), 8000), delay))
    assert found == expected


def test_nothing_shared_is_nothing_measured() -> None:
    found = measure_agreement(sound_of(np.ones(0), 8000), sound_of(np.ones(5), 8000))
    assert (found.count, found.snr_db, found.si_snr_db, found.gain, found.offset) == (0, None, None, 1.0, 0.0)
