from __future__ import annotations

import numpy as np
import pytest
from scipy import signal

from firstdiff.audio.levels import measure_levels
from firstdiff.audio.report import Drift
from firstdiff.audio.sound import sound_of
from firstdiff.audio.timing import Taken, find_drift, moved_frames
from tests.audio.frames import resynthesised
from tests.audio.sounds import RATE, noise, speech


def drift_of(reference: np.ndarray, candidate: np.ndarray) -> Drift | None:
    ours, theirs = sound_of(reference, RATE), sound_of(candidate, RATE)
    return find_drift(ours, theirs, measure_levels(ours).energies)


@pytest.mark.parametrize("hop", [100, 120, 160])
def test_frames_at_another_hop_keep_the_pitch(hop: int) -> None:
    sound = speech(2 * RATE)
    found = drift_of(sound, resynthesised(sound, hop=128, synthesis_hop=hop))
    assert found is not None
    assert found.pitch_kept
    assert found.stretch == pytest.approx(hop / 128, rel=0.004)


@pytest.mark.parametrize(("up", "down", "rate"), [(147, 160, 22050), (2, 3, 16000), (2, 1, 48000)])
def test_samples_of_another_rate_change_the_pitch(up: int, down: int, rate: float) -> None:
    sound = speech(RATE)
    found = drift_of(sound, signal.resample_poly(sound, up, down))
    assert found is not None
    assert not found.pitch_kept
    assert found.stretch * RATE == pytest.approx(rate)
    assert found.snr_db is not None
    assert found.snr_db > 20


def test_an_unusual_rate_is_found_by_the_lengths() -> None:
    found = drift_of(speech(RATE), signal.resample_poly(speech(RATE), 101, 100))
    assert found is not None
    assert (found.pitch_kept, found.stretch) == (False, pytest.approx(1.01))


@pytest.mark.parametrize(
    ("reference", "candidate"),
    [
        (speech(RATE), speech(RATE, 3)),
        (noise(RATE, 1), noise(RATE, 2)),
        (speech(RATE), speech(RATE)),
        (speech(RATE), speech(RATE)[:-2000]),
        (np.zeros(RATE), np.zeros(RATE)),
        (speech(100), speech(90)),
    ],
    ids=["other speech", "noise", "the same", "shorter", "silence", "tiny"],
)
def test_what_does_not_drift_is_left_alone(reference: np.ndarray, candidate: np.ndarray) -> None:
    assert moved_frames(sound_of(reference, RATE), sound_of(candidate, RATE)) is None


def test_a_sound_can_be_taken_as_one_of_another_rate() -> None:
    taken = Taken(sound_of(np.arange(4.0), 8000), 16000)
    assert (taken.rate, taken.frames, taken.read(1, 2).item()) == (16000, 4, 1.0)
