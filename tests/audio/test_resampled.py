from __future__ import annotations

import numpy as np
import pytest

from firstdiff.audio.sound import Resampled, sound_of


def chirp(rate: float, seconds: float = 0.5, top: float = 3000) -> np.ndarray:
    time = np.arange(int(rate * seconds)) / rate
    return np.sin(2 * np.pi * (100 * time + (top - 100) * time**2 / (2 * seconds)))


@pytest.mark.parametrize(
    ("rate", "wanted"), [(48000, 8000), (8000, 48000), (44100, 48000), (22050, 24000), (16000, 192000)]
)
def test_a_sound_is_the_same_at_another_rate(rate: float, wanted: float) -> None:
    found = Resampled(sound_of(chirp(rate), rate), wanted)
    expected = chirp(wanted)
    edge = round(wanted * 0.02)
    assert abs(found.frames - len(expected)) <= 1
    assert np.abs(found.read(edge, len(expected) - edge)[:, 0] - expected[edge:-edge]).max() < 1e-3


@pytest.mark.parametrize(("rate", "wanted"), [(24000, 16000), (22050, 24000), (16000, 44100)])
def test_pieces_give_what_the_whole_gives(rate: float, wanted: float) -> None:
    found = Resampled(sound_of(chirp(rate), rate), wanted)
    whole = found.read(0, found.frames)
    pieces = [found.read(at, min(at + 777, found.frames)) for at in range(0, found.frames, 777)]
    assert np.abs(np.concatenate(pieces) - whole).max() < 1e-9


def test_rates_that_hardly_relate_are_no_trouble() -> None:
    found = Resampled(sound_of(chirp(8000, 0.1), 8000), 7999.3)
    assert abs(found.frames - 800) <= 1
    assert np.isfinite(found.read(0, found.frames)).all()
