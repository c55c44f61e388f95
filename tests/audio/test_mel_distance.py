from __future__ import annotations

import numpy as np
import pytest

from firstdiff.audio.mel_distance import band_powers, log_mel_distance, window_size
from firstdiff.audio.sound import sound_of
from tests.audio.sounds import RATE, noise, speech


def distance(reference: np.ndarray, candidate: np.ndarray, rate: float = RATE) -> float | None:
    return log_mel_distance(sound_of(reference, rate), sound_of(candidate, rate), 0, len(reference))


def test_a_gain_is_its_decibels_in_every_band() -> None:
    sound = noise(RATE)
    assert distance(sound, 0.5 * sound) == pytest.approx(6.02, abs=0.01)


def test_an_ear_hears_no_phase() -> None:
    sound = noise(RATE)
    assert distance(sound, -sound) == pytest.approx(0, abs=1e-9)
    moved = distance(sound, np.roll(sound, 40))
    assert moved is not None
    assert moved < 1.5


def test_other_sounds_are_far_apart() -> None:
    found = distance(speech(RATE), noise(RATE))
    assert found is not None
    assert found > 10


@pytest.mark.parametrize("rate", [8000, 16000, 44100, 192000])
def test_every_usual_rate_has_its_window(rate: float) -> None:
    assert 0.03 < window_size(rate) / rate < 0.07
    assert distance(noise(rate // 4), noise(rate // 4), rate) == 0.0


def test_silence_and_next_to_nothing() -> None:
    assert distance(np.zeros(2000), np.zeros(2000)) == 0.0
    assert distance(np.zeros(0), np.zeros(0)) is None
    assert distance(np.ones(1), np.ones(1)) == 0.0


def test_a_tone_is_loudest_in_its_own_band() -> None:
    tone = sound_of(np.sin(2 * np.pi * 1000 * np.arange(8000) / 8000), 8000)
    powers = band_powers(tone, np.array([0, 1000]), 512, 20)
    assert powers.shape == (2, 20)
    assert powers.argmax(axis=1).tolist() == [powers[0].argmax()] * 2
