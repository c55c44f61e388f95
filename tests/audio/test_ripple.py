from __future__ import annotations

import numpy as np
import pytest

from firstdiff.audio.artifacts import find_ripple, gain_profile
from tests.audio.sounds import noise, speech


def rippled(sound: np.ndarray, period: int, depth: float) -> np.ndarray:
    return sound * (1 + depth * np.cos(2 * np.pi * np.arange(len(sound)) / period))


@pytest.mark.parametrize("period", [64, 200, 256, 333, 512])
@pytest.mark.parametrize("depth", [0.3, 0.001])
def test_a_gain_that_repeats_is_found(period: int, depth: float) -> None:
    sound = speech(24000).astype(np.float64)
    found = find_ripple(sound, rippled(sound, period, depth) - sound)
    assert found is not None
    assert found.period == period
    assert found.high_db - found.low_db == pytest.approx(20 * np.log10((1 + depth) / (1 - depth)), rel=0.02)
    assert found.snr_db > 150


def test_the_shortest_period_is_meant_and_not_a_multiple() -> None:
    sound = noise(24000).astype(np.float64)
    found = find_ripple(sound, rippled(sound, 100, 0.2) - sound, hints=[1600])
    assert found is not None
    assert found.period == 100


@pytest.mark.parametrize(
    "rest",
    [0.01 * noise(24000, 5), 0.1 * speech(24000), np.zeros(24000), 1e-3 * speech(24000) ** 2],
    ids=["noise", "gain", "nothing", "distortion"],
)
def test_what_does_not_repeat_is_no_ripple(rest: np.ndarray) -> None:
    sound = speech(24000).astype(np.float64)
    gain = (rest @ sound) / (sound @ sound)
    assert find_ripple(sound, rest - gain * sound) is None


def test_a_short_sound_has_too_few_repeats() -> None:
    assert find_ripple(np.ones(60), 0.1 * np.ones(60)) is None


def test_the_profile_is_the_gain_within_the_period() -> None:
    sound = noise(10000).astype(np.float64)
    added = np.array([0.0, 0.5, -0.25])
    found = gain_profile(sound, sound * np.resize(added, 10000), 3)
    assert found == pytest.approx(added)
