"""Whole sounds: late, louder, of another rate, with clicks, and overlapped wrongly."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import signal

from firstdiff.ops.spectral import hann_window
from tests.audio.frames import healthy, resynthesised
from tests.audio.sounds import late, noise, speech
from tests.diagnose.sound.planted import RATE, heard, noisy

VOICE = speech(RATE)


@pytest.mark.parametrize("samples", [1, 37, 256, -12])
def test_a_delay_is_told_in_samples(tmp_path: Path, samples: int) -> None:
    found = heard(tmp_path, VOICE, noisy(late(VOICE, samples)))
    assert found[0].cause in ("audio.delay", "shift.sequence")
    delay = next(one for one in found if one.cause == "audio.delay")
    assert f"{abs(samples)} samples" in delay.evidence
    assert ("late" if samples > 0 else "early") in delay.evidence


def test_a_delay_of_half_a_window_says_what_it_may_be(tmp_path: Path) -> None:
    found = heard(tmp_path, VOICE, noisy(late(VOICE, 512)))
    assert "half a window of 1,024" in next(one for one in found if one.cause == "audio.delay").fix


@pytest.mark.parametrize(("gain", "says"), [(0.5, "-6.02 dB"), (1.25, "+1.94 dB"), (32768.0, "32768")])
def test_a_gain_is_told_in_decibels(tmp_path: Path, gain: float, says: str) -> None:
    found = heard(tmp_path, VOICE, noisy(VOICE * np.float32(gain)))
    assert found[0].cause == "audio.gain"
    assert says in found[0].evidence
    assert "scale.constant" in found[0].implies


def test_a_gain_to_a_usual_peak_is_a_normalisation(tmp_path: Path) -> None:
    found = heard(tmp_path, VOICE, VOICE * np.float32(0.95 / np.abs(VOICE).max()))
    assert found[0].cause == "audio.gain"
    assert "brings the peak to 0.95" in found[0].evidence


def test_a_turned_polarity_is_a_sign_and_no_gain(tmp_path: Path) -> None:
    found = heard(tmp_path, VOICE, noisy(-VOICE))
    assert found[0].cause == "sign.flip"
    assert not [one for one in found if one.cause == "audio.gain"]


@pytest.mark.parametrize("window", [None, np.ones(512), np.hamming(512)], ids=["not divided", "none", "Hamming"])
def test_frames_that_do_not_add_up_are_a_window(tmp_path: Path, window: np.ndarray | None) -> None:
    found = heard(tmp_path, VOICE, resynthesised(VOICE, hop=256, window=window))
    if window is not None and np.ptp(window) == 0:  # a Hann window overlapped by half adds up by itself
        assert not [one for one in found if one.cause == "audio.window" and one.confidence > 0.5]
        return
    assert found[0].cause == "audio.window"
    assert "256 samples" in found[0].evidence


@pytest.mark.parametrize("hop", [100, 160])
def test_frames_set_down_at_another_hop(tmp_path: Path, hop: int) -> None:
    found = heard(tmp_path, speech(2 * RATE), resynthesised(speech(2 * RATE), hop=128, synthesis_hop=hop))
    assert found[0].cause == "audio.hop"
    assert f"a hop of {hop} instead of 128" in found[0].evidence or "stretched" in found[0].evidence


def test_clicks_at_every_seam_are_a_window(tmp_path: Path) -> None:
    spoilt = VOICE.copy()
    spoilt[300::300] += 0.05 * np.sign(np.sin(np.arange(len(spoilt[300::300]))))
    found = heard(tmp_path, VOICE, spoilt)
    assert any(one.cause == "audio.window" and "every 300 samples" in one.evidence for one in found)


def test_clicks_here_and_there_are_clicks(tmp_path: Path) -> None:
    spoilt = VOICE.copy()
    spoilt[[1200, 5003, 9777, 18011]] += np.float32([0.4, -0.3, 0.5, 0.3])
    found = heard(tmp_path, VOICE, spoilt)
    assert found[0].cause == "audio.clicks"
    assert "1,200" in found[0].evidence


@pytest.mark.parametrize(("up", "down", "rate"), [(2, 3, "16,000 Hz"), (147, 160, "22,050 Hz")])
def test_samples_of_another_rate(tmp_path: Path, up: int, down: int, rate: str) -> None:
    found = heard(tmp_path, VOICE, signal.resample_poly(VOICE, up, down).astype(np.float32))
    assert found[0].cause == "audio.sample_rate"
    assert rate in found[0].evidence


def test_sound_that_was_resampled_and_says_so(tmp_path: Path) -> None:
    found = heard(tmp_path, VOICE, signal.resample_poly(VOICE, 2, 3).astype(np.float32), RATE, 16000)
    assert found[0].cause == "audio.sample_rate"
    assert "16,000 Hz" in found[0].evidence


def test_another_voice_is_none_of_these(tmp_path: Path) -> None:
    found = heard(tmp_path, VOICE, speech(RATE, 3))
    assert not [one for one in found if one.cause.startswith("audio.") and one.confidence > 0.5]


def test_noise_is_none_of_these(tmp_path: Path) -> None:
    found = heard(tmp_path, VOICE, noise(RATE))
    assert not [one for one in found if one.cause.startswith("audio.")]


@pytest.mark.parametrize("candidate", [VOICE, healthy(VOICE), noisy(VOICE)], ids=["same", "round trip", "noise"])
def test_healthy_sounds_raise_nothing(tmp_path: Path, candidate: np.ndarray) -> None:
    assert heard(tmp_path, VOICE, candidate) == ()


@pytest.mark.parametrize("frames", [0, 1, 2, 5])
def test_next_to_no_sound_proves_nothing(tmp_path: Path, frames: int) -> None:
    found = heard(tmp_path, VOICE[100 : 100 + frames], 3 * VOICE[100 : 100 + frames])
    assert all(one.confidence < 0.9 for one in found)


def test_the_hann_window_of_the_tests_is_the_real_one() -> None:
    assert np.allclose(np.asarray(hann_window(8)), signal.get_window("hann", 8))
