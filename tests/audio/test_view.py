from __future__ import annotations

import io

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from firstdiff.audio import compare_audio, sound_of
from firstdiff.audio.view import Difference, peaks, spectrogram, wav
from tests.audio.sounds import RATE, late, noise, speech


@settings(max_examples=40)
@given(st.integers(1, 3000), st.integers(1, 700), st.data())
def test_a_click_of_one_sample_is_never_lost(frames: int, width: int, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, frames - 1))
    sound = np.zeros((frames, 2))
    sound[place, 1] = 1.0
    found = peaks(sound_of(sound, 8000, axis=0), width)
    assert found.high.shape == found.low.shape == (2, width)
    assert found.high[1].max() == 1.0
    assert (found.high[0].max(), found.low.min()) == (0.0, 0.0)
    if frames >= width:
        assert int(np.argmax(found.high[1])) == next(
            pixel for pixel in range(width) if pixel * frames // width <= place < (pixel + 1) * frames // width
        )


def test_peaks_of_blocks_are_those_of_the_whole() -> None:
    sound = noise(300_001)
    found = peaks(sound_of(sound, 8000), 7)
    edges = np.arange(8) * 300_001 // 7
    for pixel in range(7):
        part = sound[edges[pixel] : edges[pixel + 1]]
        assert (found.low[0, pixel], found.high[0, pixel]) == (part.min(), part.max())


def test_a_stretch_of_a_sound_can_be_asked_for() -> None:
    found = peaks(sound_of(np.arange(100.0), 8000), 5, 20, 30)
    assert found.low[0].tolist() == [20, 22, 24, 26, 28]
    assert found.high[0].tolist() == [21, 23, 25, 27, 29]


def test_pixels_over_nan_are_broken() -> None:
    found = peaks(sound_of(np.array([1.0, np.nan, np.nan, np.nan, 2.0, np.inf]), 8000), 3)
    assert found.broken.tolist() == [True, True, True]
    assert found.high[0].tolist() == [1.0, 0.0, 2.0]


@pytest.mark.parametrize("frames", [0, 1, 5])
def test_sounds_shorter_than_the_picture(frames: int) -> None:
    sound = sound_of(np.ones(frames), 8000)
    assert peaks(sound, 10).high.tolist() == [[1.0 if frames else 0.0] * 10]
    assert spectrogram(sound, 10, 8).db.shape == (8, 10)


@pytest.mark.parametrize("height", [40, 512, 1500])
def test_a_tone_is_bright_at_its_frequency(height: int) -> None:
    tone = np.sin(2 * np.pi * 3000 * np.arange(RATE) / RATE)
    found = spectrogram(sound_of(tone, RATE), 30, height)
    assert (found.db.shape, found.top_hz, found.seconds) == ((height, 30), 12000, 1.0)
    assert abs(np.argmax(found.db[:, 15]) / height - 0.75) < 0.03
    assert found.db.max() == pytest.approx(0, abs=0.5)


def test_silence_is_dark_everywhere() -> None:
    assert np.isneginf(spectrogram(sound_of(np.zeros(2000), RATE), 4, 4).db).all()


@pytest.mark.parametrize("channels", [1, 2])
def test_a_wav_is_what_soundfile_reads(channels: int) -> None:
    sound = noise(500, channels=channels)
    played = wav(sound_of(sound, RATE))
    found, rate = soundfile.read(io.BytesIO(played.data), always_2d=True)
    assert rate == RATE
    assert np.abs(found - sound).max() < 1e-4
    assert (played.note, played.gain_db) == (None, 0.0)


def test_what_would_clip_is_made_quieter_and_said() -> None:
    played = wav(sound_of(np.array([0.0, 4.0, -2.0]), RATE))
    found, _ = soundfile.read(io.BytesIO(played.data))
    assert found == pytest.approx([0, 1, -0.5], abs=1e-4)
    assert played.note == "played 12.0 dB quieter than it is"


def test_a_difference_is_made_loud_enough_to_be_heard() -> None:
    played = wav(sound_of(1e-5 * noise(100), RATE), loud=True)
    found, _ = soundfile.read(io.BytesIO(played.data))
    assert np.abs(found).max() == pytest.approx(0.5, abs=1e-3)
    assert played.note is not None
    assert "louder" in played.note


def test_parts_of_a_sound_and_nothing_can_be_played() -> None:
    sound = sound_of(noise(100), RATE)
    assert len(wav(sound, 20, 50).data) == 44 + 60
    assert len(wav(sound_of(np.zeros(0), RATE), loud=True).data) == 44


def test_the_difference_is_aligned_where_a_report_is_given() -> None:
    voice = speech(6000)
    candidate = -0.5 * late(voice, 30) + 0.01
    ours, theirs = sound_of(voice, RATE), sound_of(candidate, RATE)
    report = compare_audio(voice, candidate, sample_rate=RATE)
    aligned = Difference(ours, theirs, report)
    assert np.abs(aligned.read(0, aligned.frames)).max() < 1e-5
    plain = Difference(ours, theirs)
    assert plain.read(0, 6000)[:, 0] == pytest.approx(candidate - voice)


def test_the_difference_of_an_early_candidate_starts_where_both_do() -> None:
    voice = speech(6000)
    report = compare_audio(voice, voice[30:], sample_rate=RATE)
    found = Difference(sound_of(voice, RATE), sound_of(voice[30:], RATE), report)
    assert np.abs(found.read(0, found.frames)).max() < 1e-6
