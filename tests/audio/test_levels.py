from __future__ import annotations

import numpy as np
import pytest

from firstdiff.audio.levels import measure_clipping, measure_levels
from firstdiff.audio.report import Clipping
from firstdiff.audio.sound import BLOCK, sound_of
from tests.audio.sounds import noise, speech


def clipping_of(values: np.ndarray) -> Clipping:
    sound = sound_of(values, 24000, axis=0)
    return measure_clipping(sound, measure_levels(sound))


def test_levels_are_counted_over_blocks() -> None:
    values = noise(BLOCK + 1000, channels=2) + np.float32(0.25)
    values[3, 0], values[BLOCK + 5, 1] = np.nan, np.inf
    found = measure_levels(sound_of(values, 8000))
    good = np.where(np.isfinite(values), values, 0).astype(np.float64)
    assert (found.nan, found.inf, len(found.energies)) == (1, 1, 2)
    assert found.mean == pytest.approx(good.mean())
    assert found.power == pytest.approx((good**2).mean())
    assert found.peak == pytest.approx(np.abs(good).max())


@pytest.mark.parametrize("level", [1.0, 0.2, 0.05])
def test_sound_that_was_cut_off_is_clipped(level: float) -> None:
    whole = 5 * speech(24000)
    cut = np.clip(whole, -level, level)
    found = clipping_of(cut)
    assert found.count == int((np.abs(cut) == np.float32(level)).sum())
    assert found.level == pytest.approx(level)
    assert found.share == found.count / 24000


def test_one_side_may_be_cut_alone() -> None:
    cut = np.minimum(noise(50000), np.float32(0.25))
    assert clipping_of(cut).count == int((cut == np.float32(0.25)).sum())


TIME = np.arange(48000) / 48000


@pytest.mark.parametrize(
    "values",
    [
        speech(24000),
        noise(50000),
        np.sin(2 * np.pi * 440 * TIME),
        np.sin(2 * np.pi * 8000 * TIME + 0.5),  # six samples a period: the extreme again and again
        np.round(np.sin(2 * np.pi * 20 * TIME) * 32767).astype(np.int16),  # flat on top, for its steps are coarse
        np.round(np.sin(2 * np.pi * 100 * TIME) * 100).astype(np.int8),
        np.zeros(1000),
        np.ones(1000),
        np.zeros(0),
        np.array([0.5]),
    ],
    ids=["speech", "noise", "tone", "steady tone", "16 bits", "8 bits", "silence", "constant", "empty", "one sample"],
)
def test_sound_that_was_not_cut_off_is_not_clipped(values: np.ndarray) -> None:
    assert clipping_of(values).count == 0


def test_samples_beyond_full_scale_are_counted() -> None:
    assert clipping_of(np.array([0.5, 1.5, -2.0, 1.0])).over == 2
