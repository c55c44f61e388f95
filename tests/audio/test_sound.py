from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from firstdiff.audio.sound import BLOCK, Centred, Channels, Shifted, Sound, TensorSound, sample_axis, sound_of
from firstdiff.errors import UsageError
from firstdiff.trace import ArraySource
from tests.audio.sounds import noise, speech


@pytest.mark.parametrize(
    ("shape", "frames", "channels"),
    [((7,), 7, 1), ((100, 2), 100, 2), ((2, 100), 100, 2), ((1, 1, 50), 50, 1), ((3, 2, 50), 50, 6), ((), 1, 1)],
)
def test_the_longest_axis_counts_samples(shape: tuple[int, ...], frames: int, channels: int) -> None:
    sound = sound_of(np.ones(shape), 8000)
    assert (sound.frames, sound.channels) == (frames, channels)
    assert sound.read(0, frames).shape == (frames, channels)


def test_an_axis_that_is_named_wins() -> None:
    values = np.arange(6.0).reshape(2, 3)
    assert sound_of(values, 8000, axis=0).read(0, 2).tolist() == values.tolist()
    assert sample_axis((4, 4)) == 1


@pytest.mark.parametrize(
    ("dtype", "stored", "heard"),
    [
        (np.int16, [-32768, 0, 16384], [-1.0, 0.0, 0.5]),
        (np.int32, [-(2**31), 2**30], [-1.0, 0.5]),
        (np.uint8, [0, 128, 192], [-1.0, 0.0, 0.5]),
        (np.int64, [3, -2], [3.0, -2.0]),
        (np.float16, [0.5, -0.25], [0.5, -0.25]),
        (ml_dtypes.bfloat16, [0.5, -0.25], [0.5, -0.25]),
        (">f4", [0.5, -0.25], [0.5, -0.25]),
    ],
)
def test_integers_are_taken_as_a_player_takes_them(dtype: object, stored: list[float], heard: list[float]) -> None:
    sound = sound_of(np.array(stored).astype(dtype), 8000)  # type: ignore[call-overload]
    assert sound.read(0, len(stored))[:, 0].tolist() == heard


def test_around_a_sound_there_is_silence() -> None:
    sound = sound_of(np.array([1.0, 2.0]), 8000)
    assert sound.read(-2, 4)[:, 0].tolist() == [0, 0, 1, 2, 0, 0]
    assert sound.read(5, 7)[:, 0].tolist() == [0, 0]
    assert sound.read(3, 3).shape == (0, 1)


def test_what_is_not_finite_is_read_as_silence_and_kept_in_the_raw() -> None:
    sound = sound_of(np.array([np.nan, 1.0, -np.inf]), 8000)
    assert sound.read(0, 3)[:, 0].tolist() == [0, 1, 0]
    assert np.isnan(sound.raw(0, 1)).all()


def test_a_mean_is_taken_out_of_the_sound_and_not_of_the_silence() -> None:
    assert Centred(sound_of(np.array([3.0, 5.0]), 8000), 4.0).read(-1, 3)[:, 0].tolist() == [0, -1, 1, 0]


def test_channels_are_averaged_or_cut() -> None:
    stereo = sound_of(np.array([[1.0, 3.0, 8.0]] * 4), 8000, axis=0)
    assert Channels(stereo, 1).read(0, 1).tolist() == [[4.0]]
    assert Channels(stereo, 2).read(0, 1).tolist() == [[1.0, 3.0]]


@pytest.mark.parametrize("delay", [0, 5, -5, 40])
def test_a_shift_by_whole_samples_is_exact(delay: int) -> None:
    values = noise(30).astype(np.float64)
    shifted = Shifted(sound_of(values, 8000), delay)
    expected = [values[at + delay] if 0 <= at + delay < 30 else 0.0 for at in range(30)]
    assert shifted.read(0, 30)[:, 0].tolist() == expected
    assert shifted.first == -delay


def test_a_part_of_a_sample_is_interpolated() -> None:
    time = np.arange(4000)
    tone = np.sin(0.3 * time)
    moved = Shifted(sound_of(tone, 8000), 2.25).read(500, 3500)[:, 0]
    assert np.abs(moved - np.sin(0.3 * (time[500:3500] + 2.25))).max() < 1e-6


def test_blocks_cover_everything_once() -> None:
    class Counting(Sound):
        frames, channels, rate = BLOCK * 2 + 5, 1, 1.0

        def _frames(self, start: int, stop: int) -> np.ndarray:
            assert stop - start <= BLOCK
            return np.arange(start, stop, dtype=float)[:, None]

    joined = np.concatenate([block for _, block in Counting().blocks()])
    assert (joined[:, 0] == np.arange(BLOCK * 2 + 5)).all()


def test_what_is_no_sound_is_said() -> None:
    with pytest.raises(UsageError, match=r"complex values .* are no sound"):
        sound_of(np.ones(4, complex), 8000)
    with pytest.raises(UsageError, match="0 samples a second"):
        TensorSound(ArraySource(speech(10)), 0)
