from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firstdiff.audio.levels import measure_levels
from firstdiff.audio.report import Delay
from firstdiff.audio.sound import BLOCK, Centred, sound_of
from firstdiff.audio.timing import find_delay, loudest
from tests.audio.sounds import RATE, late, noise, speech


def delay_of(reference: np.ndarray, candidate: np.ndarray, rate: float = RATE) -> Delay | None:
    ours, theirs = sound_of(reference, rate), sound_of(candidate, rate)
    levels = [measure_levels(side) for side in (ours, theirs)]
    centred = [Centred(side, level.mean) for side, level in zip((ours, theirs), levels, strict=True)]
    return find_delay(*centred, levels[0].energies)


@settings(max_examples=25)
@given(st.integers(-900, 900), st.floats(0.01, 50), st.booleans())
def test_any_delay_is_found_whatever_the_gain_and_polarity(frames: int, gain: float, inverted: bool) -> None:
    sound = speech(6000)
    found = delay_of(sound, late(sound, frames) * np.float32(-gain if inverted else gain))
    assert found is not None
    assert found.whole == frames
    assert (found.correlation < 0) == inverted


@pytest.mark.parametrize("part", [0.1, 0.25, 0.5, -0.4])
def test_parts_of_a_sample_are_found(part: float) -> None:
    sound = noise(1 << 14).astype(np.float64)
    bins = np.fft.rfft(sound)
    bins[len(bins) // 2 :] = 0
    steps = np.arange(len(bins)) / len(sound)
    moved = np.fft.irfft(bins * np.exp(-2j * np.pi * steps * (7 + part)), len(sound))
    found = delay_of(np.fft.irfft(bins, len(sound)), moved)
    assert found is not None
    assert found.samples == pytest.approx(7 + part, abs=0.01)


def test_a_constant_offset_does_not_hide_a_delay() -> None:
    sound = speech(8000)
    found = delay_of(sound + 1, late(sound, 33) + 3)
    assert found is not None
    assert found.whole == 33


def test_noise_of_another_seed_has_none() -> None:
    assert delay_of(noise(20000, 1), noise(20000, 2)) is None


def test_a_tone_fits_at_many_delays_and_the_nearest_is_meant() -> None:
    tone = np.sin(2 * np.pi * np.arange(24000) / 60)
    found = delay_of(tone, np.roll(tone, 10))
    assert found is not None
    assert (found.whole, found.period) == (10, 30)


def test_a_slow_wave_is_not_taken_for_undelayed() -> None:
    wave = np.sin(2 * np.pi * 50 * np.arange(48000) / 48000) * np.hanning(48000)
    found = delay_of(wave, late(wave, 5), 48000)
    assert found is not None
    assert found.whole == 5


@pytest.mark.parametrize("frames", [0, 1, 2])
def test_next_to_nothing(frames: int) -> None:
    found = delay_of(np.zeros(frames), np.zeros(frames))
    assert found is None


def test_a_long_sound_is_looked_at_where_it_is_loud() -> None:
    frames = 5 * BLOCK * 4
    sound = np.zeros(frames, np.float32)
    start = 3 * BLOCK + 1000
    sound[start : start + 30000] = speech(30000)
    sound[-1] = 1e-3
    found = delay_of(sound, late(sound, 4321))
    assert found is not None
    assert found.whole == 4321


def test_loudest_stretches_do_not_overlap() -> None:
    energies = [1.0, 9.0, 8.0, 0.0, 7.0, 0.0, 0.0, 5.0]
    found = loudest(8 * BLOCK, energies, 2 * BLOCK, 3)
    assert found == [(BLOCK, 3 * BLOCK), (4 * BLOCK, 6 * BLOCK), (6 * BLOCK, 8 * BLOCK)]
    assert loudest(100, [1.0], 1000, 3) == [(0, 100)]
    assert loudest(0, [], 10, 1) == []
