from __future__ import annotations

import json
import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import signal

from firstdiff.audio import AudioReport, compare_audio
from firstdiff.audio.sound import Sound
from firstdiff.json_text import to_json
from tests.audio.frames import healthy, resynthesised
from tests.audio.sounds import RATE, late, noise, speech

VOICE = speech(RATE)


def compared(candidate: np.ndarray, reference: np.ndarray = VOICE, **rates: float) -> AudioReport:
    return compare_audio(reference, candidate, sample_rate=RATE, **rates)


def test_late_and_quieter_is_said_in_words() -> None:
    quiet = late(VOICE, 12) * np.float32(10 ** (-3 / 20)) + 1e-6 * noise(RATE)
    found = compared(quiet)
    assert found.delay is not None
    assert (found.delay.whole, found.delay.samples) == (12, 12.0)
    assert found.gain_db == pytest.approx(-3, abs=1e-3)
    assert found.aligned_snr_db is not None
    assert found.verdict == (
        "the candidate is 12 samples (0.5 ms) late and 3.0 dB quieter; "
        f"apart from that they agree to {found.aligned_snr_db:.0f} dB"
    )


@settings(max_examples=10)
@given(st.integers(-300, 300), st.floats(-20, 20), st.booleans(), st.floats(-0.2, 0.2))
def test_delay_gain_polarity_and_offset_are_told_apart(
    delay: int, gain_db: float, inverted: bool, offset: float
) -> None:
    gain = 10 ** (gain_db / 20) * (-1 if inverted else 1)
    found = compared(gain * late(VOICE, delay).astype(np.float64) + offset)
    assert found.delay is not None
    assert found.delay.whole == delay
    assert found.gain_db == pytest.approx(gain_db, abs=0.01)
    assert found.polarity == (-1 if inverted else 1)
    assert found.dc_offset == pytest.approx(offset, abs=1e-5)
    assert found.aligned_snr_db is not None
    assert found.aligned_snr_db > 100


@pytest.mark.parametrize(
    ("candidate", "says"),
    [
        (VOICE, "the two are identical"),
        (-VOICE, "the candidate is inverted in polarity; apart from that they agree exactly"),
        (VOICE * 0, "the candidate is silent, the other is not"),
        (VOICE[:0], "the candidate is empty"),
        (VOICE * np.nan, "the candidate has 24,000 NaN and 0 Inf, left out; nothing is left of the candidate"),
        (np.where(np.arange(RATE) == 7, np.nan, VOICE), "1 NaN and 0 Inf, left out; elsewhere they agree exactly"),
        (VOICE[:-2400], "the reference is 1 s long, the candidate 0.9 s: 90 % of the one and 100 % of the other"),
        (VOICE + 0.01, "the candidate is off centre by +0.01"),
        (np.clip(VOICE, -0.1, 0.1), "it clips: "),
        (noise(RATE), "the two have nothing in common"),
        (32768 * VOICE, "90.3 dB louder; apart from that they agree exactly; 23,"),
        (np.stack((VOICE, VOICE), 1), "the mean of the channels of the candidate was compared; they agree exactly"),
        (late(VOICE, -100), "the candidate is 100 samples (4.17 ms) early"),
    ],
)
def test_the_verdict_says_what_was_found(candidate: np.ndarray, says: str) -> None:
    assert says in compared(candidate).verdict


@pytest.mark.parametrize(
    ("sides", "verdict"),
    [
        ((np.zeros(0), np.zeros(0)), "both are empty"),
        ((np.zeros(50), np.zeros(50)), "the two are identical"),
        ((np.zeros(50), np.zeros(60)), "the reference is 0.002083 s long"),
        ((np.zeros(50), np.ones(50)), "the reference is silent, the other is not"),
        ((np.ones(1), np.ones(1)), "the two are identical"),
        ((np.ones(1), np.full(1, 2.0)), "the two have nothing in common"),
        ((np.array(0.5), np.array(0.25)), "the two have nothing in common"),
        ((np.full(9, np.nan), np.full(9, np.nan)), "the reference has 9 NaN"),
        ((np.array([0.0, 1.0]), np.array([0.0, 2.0])), "the candidate is 6.0 dB louder"),
    ],
)
def test_next_to_nothing_is_no_trouble(sides: tuple[np.ndarray, np.ndarray], verdict: str) -> None:
    assert verdict in compare_audio(*sides, sample_rate=RATE).verdict


def test_other_rates_are_resampled_and_said() -> None:
    found = compared(signal.resample_poly(VOICE, 2, 3), candidate_rate=16000)
    assert found.sample_rate == 16000
    assert found.notes == ("the reference has 24,000 Hz, the candidate 16,000 Hz: the reference was resampled",)
    assert found.aligned_snr_db is not None
    assert found.aligned_snr_db > 35


def test_a_rate_that_is_only_stated_wrongly() -> None:
    found = compared(VOICE, candidate_rate=16000)
    assert found.rates_ignored
    assert not found.identical
    assert found.verdict.endswith("one of the rates is wrong; they agree exactly")


def test_another_speed_is_not_taken_for_a_delay() -> None:
    found = compared(signal.resample_poly(VOICE, 101, 100))
    assert (found.drift is not None, found.delay) == (True, None)
    assert "the candidate runs slower (1.0100 times as long), pitch and all" in found.verdict


def test_clicks_at_every_hop() -> None:
    spoilt = VOICE.copy()
    spoilt[256::256] += 0.05
    found = compared(spoilt)
    assert (found.clicks.count, found.clicks.period, found.clicks.positions[:2]) == (93, 256, (256, 512))
    assert "a click in the difference every 256 samples (93 clicks, the first at sample 256)" in found.verdict


def test_frames_overlapped_under_a_wrong_window_ripple() -> None:
    found = compared(resynthesised(VOICE, hop=256))
    assert found.ripple is not None
    assert found.ripple.period == 256
    assert "its gain ripples every 256 samples" in found.verdict


def test_frames_at_a_wrong_hop_drift() -> None:
    found = compared(resynthesised(VOICE, hop=128, synthesis_hop=160))
    assert found.drift is not None
    assert "runs slower at the same pitch (1.25" in found.verdict


def test_a_healthy_round_trip_has_nothing_wrong_with_it() -> None:
    found = compared(healthy(VOICE))
    assert found.aligned_snr_db is not None
    assert found.aligned_snr_db > 120
    assert (found.clicks.count, found.ripple, found.drift, found.verdict.count(";")) == (0, None, None, 0)


@pytest.mark.parametrize("steps", [2**7, 2**15])
def test_quantising_is_no_click_no_ripple_and_no_clipping(steps: int) -> None:
    found = compared((np.round(VOICE * steps) / steps).astype(np.float32))
    assert (found.clicks.count, found.candidate.clipping.count, found.ripple) == (0, 0, None)


def test_parts_of_a_sample_are_taken_out_where_that_helps() -> None:
    bins = np.fft.rfft(VOICE)
    moved = np.fft.irfft(bins * np.exp(-2j * np.pi * np.arange(len(bins)) / RATE * 3.3), RATE)
    found = compared(moved)
    assert found.delay is not None
    assert found.delay.samples == pytest.approx(3.3, abs=0.02)
    assert "3.30 samples" in found.verdict


@pytest.mark.parametrize("rate", [8000, 22050, 48000, 192000])
def test_every_usual_rate(rate: float) -> None:
    sound = speech(rate // 2, rate=rate)
    found = compare_audio(sound, late(sound, 20), sample_rate=rate)
    assert found.delay is not None
    assert (found.delay.whole, found.delay.seconds) == (20, 20 / rate)


def test_the_json_is_valid_whatever_the_numbers() -> None:
    plain = compared(-VOICE).as_plain()
    assert plain["aligned_snr_db"] == "inf"
    assert json.loads(to_json(plain)) == plain
    assert set(plain["delay"]) == {"samples", "whole", "seconds", "correlation", "period", "reach"}


def test_int16_and_float_of_one_sound_agree() -> None:
    found = compared(VOICE, np.round(VOICE * 32768).astype(np.int16))
    assert found.snr_db is not None
    assert found.snr_db > 60
    assert found.snr_db != math.inf


class Minutes(Sound):
    """More than a minute that is never in memory as a whole."""

    channels, rate = 1, 16000.0
    frames = 75 * 16000

    def __init__(self, delay: int) -> None:
        self._delay = delay
        self._piece = speech(16000 * 7, rate=16000).astype(np.float64)

    def _frames(self, start: int, stop: int) -> np.ndarray:
        at = np.arange(start, stop) - self._delay
        return (self._piece[at % len(self._piece)] * (1 + 0.5 * np.sin(at * 3e-6)))[:, None]


def test_minutes_are_compared_in_bounded_memory() -> None:
    tracemalloc.start()
    found = compare_audio(Minutes(0), Minutes(500), sample_rate=16000)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.delay is not None
    assert found.delay.whole == 500
    assert most < 60e6  # windows and their spectra; grows neither with the length nor with the rate
