from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firstdiff.audio.artifacts import find_clicks, period_of
from firstdiff.audio.report import Clicks
from tests.audio.sounds import noise, speech


def clicks_of(sound: np.ndarray, piece: int = 1 << 17) -> Clicks:
    frames = (sound if sound.ndim > 1 else sound[:, None]).astype(np.float64)
    return find_clicks(frames[at : at + piece] for at in range(0, len(frames), piece))


@settings(max_examples=20)
@given(st.lists(st.integers(2, 98), min_size=1, max_size=8, unique=True), st.sampled_from([313, 1000, 1 << 17]))
def test_every_click_is_found_where_it_is(hundreds: list[int], piece: int) -> None:
    sound = noise(10000)
    places = sorted(100 * place for place in hundreds)
    sound[places] += 5.0
    found = clicks_of(sound, piece)
    assert [abs(at - place) <= 2 for at, place in zip(found.positions, places, strict=True)] == [True] * len(places)


@pytest.mark.parametrize("sound", [speech(24000), noise(24000), np.sin(np.arange(24000) / 7), np.zeros(500)])
def test_healthy_sound_does_not_click(sound: np.ndarray) -> None:
    assert clicks_of(sound).count == 0


def test_a_jump_is_a_click() -> None:
    sound = speech(12000)
    sound[7000:] += 0.3
    assert [abs(place - 7000) <= 1 for place in clicks_of(sound).positions] == [True]


def test_clicks_in_one_channel_are_heard() -> None:
    sound = noise(4000, channels=2)
    sound[1234, 1] += 6
    assert clicks_of(sound).count == 1


@pytest.mark.parametrize("period", [64, 256, 300, 441])
def test_regular_clicks_have_a_period(period: int) -> None:
    frames = 70 * period
    sound = np.zeros(frames)
    sound[period::period] = 0.1
    found = clicks_of(sound + 1e-4 * noise(frames))
    assert found.period == period
    assert found.count == 69
    assert len(found.positions) <= 100


def test_two_clicks_a_frame_have_the_period_of_the_frame() -> None:
    places = sorted([*range(100, 20000, 512), *range(290, 20000, 512)])
    assert period_of(places) == 512


def test_a_click_may_be_missing_now_and_then() -> None:
    places = [place for number, place in enumerate(range(256, 40000, 256)) if number % 5 != 2]
    assert period_of(places) == 256


def test_irregular_clicks_have_none() -> None:
    places = np.sort(np.random.default_rng(0).choice(100_000, 60, replace=False)).tolist()
    assert period_of(places) is None
    assert period_of([1, 2]) is None


@pytest.mark.parametrize("frames", [0, 1, 2, 3, 60])
def test_sounds_too_short_to_click(frames: int) -> None:
    assert clicks_of(np.ones(frames)).count == 0
