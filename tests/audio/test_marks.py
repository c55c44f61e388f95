from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from firstdiff.audio import compare_marked, marked, picture_of
from firstdiff.audio.marks import ASSUMED_RATE
from firstdiff.errors import UsageError
from firstdiff.trace import ArraySource, Record, Tensor
from tests.audio.sounds import RATE, speech


def tensor(values: Any, dims: str | None = None, op: str | None = None, **attrs: Any) -> Tensor:
    return Tensor(Record(name="x", attrs=attrs, dims=dims, op=op), ArraySource(np.asarray(values)))


WAVE = speech(4000)


@pytest.mark.parametrize(
    ("one", "rate", "axis"),
    [
        (tensor(WAVE, sample_rate=RATE), RATE, 0),
        (tensor(WAVE[None, None], sampling_rate=16000.0), 16000, 2),
        (tensor(WAVE, audio=True), None, 0),
        (tensor(WAVE.reshape(2, 2000), dims="b samples"), None, 1),
        (tensor(WAVE.reshape(2000, 2), dims="samples c", sr=8000), 8000, 0),
        (tensor(np.ones((60, 50)), audio=True, sample_rate=8000), 8000, 0),
    ],
)
def test_tensors_that_say_they_are_sound(one: Tensor, rate: float | None, axis: int) -> None:
    found = marked(one)
    assert found is not None
    assert (found.rate, found.axis) == (rate, axis)


@pytest.mark.parametrize(
    "one",
    [
        tensor(WAVE),
        tensor(np.ones((80, 400)), sample_rate=RATE),  # a mel spectrogram knows its rate too
        tensor(WAVE, op="MelSpectrogram", sample_rate=RATE),
        tensor(WAVE, audio=False, sample_rate=RATE),
        tensor(WAVE, sample_rate="fast"),
        tensor(WAVE, sample_rate=0),
        tensor(WAVE, sample_rate=float("nan")),
        tensor(WAVE, sample_rate=True),
        tensor(WAVE + 0j, sample_rate=RATE),
        tensor(WAVE > 0, sample_rate=RATE),
        tensor(WAVE, dims="b s"),
        tensor(np.array(1.0), sample_rate=RATE),
        Tensor(Record(name="x", attrs={"audio": True}), error="is gone"),
    ],
)
def test_tensors_that_do_not(one: Tensor) -> None:
    assert marked(one) is None


def test_a_candidate_that_says_nothing_is_taken_like_the_reference() -> None:
    found = compare_marked(tensor(WAVE, sample_rate=RATE), tensor(WAVE / 2))
    assert found is not None
    assert (found.sample_rate, found.candidate.sample_rate) == (RATE, RATE)


def test_without_any_rate_one_is_assumed_and_said() -> None:
    found = compare_marked(tensor(WAVE, audio=True), tensor(WAVE / 2, audio=True))
    assert found is not None
    assert found.sample_rate == ASSUMED_RATE
    assert found.verdict.endswith("no sample rate is recorded: times and mels are for 16,000 Hz")


def test_what_is_no_sound_has_no_report() -> None:
    assert compare_marked(tensor(WAVE), tensor(WAVE)) is None
    assert compare_marked(tensor(WAVE, sample_rate=RATE), tensor(WAVE + 0j)) is None
    with pytest.raises(UsageError, match="neither side is marked as sound"):
        picture_of(tensor(WAVE), tensor(WAVE))
