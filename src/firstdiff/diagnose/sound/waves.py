"""Both sides of an audio case as [frames, channels], with its audio report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from firstdiff.audio.sound import sample_axis
from firstdiff.diagnose.case import Case
from firstdiff.diagnose.hypothesis import Fit

_SAID = "sound"


def is_sound(case: Case) -> bool:
    """True if both sides of the row are audio of the same shape, sample rate and channels."""
    audio = case.row.audio
    if audio is None or not case.comparable:
        return False
    reference, candidate = audio["reference"], audio["candidate"]
    return all(reference[field] == candidate[field] for field in ("sample_rate", "channels"))


@dataclass(frozen=True, slots=True)
class Waves:
    """expected, candidate: [frames, channels]; audio: the report, as plain data."""

    case: Case
    expected: np.ndarray
    candidate: np.ndarray
    audio: Mapping[str, Any]
    axis: int

    @classmethod
    def of(cls, case: Case) -> Waves:
        """Read once, and kept for the next hypothesis."""
        if _SAID not in case.shared:
            assert case.row.audio is not None, "only what is sound is asked"
            axis = sample_axis(case.candidate.shape)
            expected, candidate = _frames(case.expected, axis), _frames(case.candidate, axis)
            case.shared[_SAID] = cls(case, expected, candidate, case.row.audio, axis)
        found: Waves = case.shared[_SAID]
        return found

    @property
    def rate(self) -> float:
        return float(self.audio["sample_rate"])

    def as_recorded(self, frames: np.ndarray) -> np.ndarray:
        """Back in the layout of the case."""
        shape = list(self.case.candidate.shape)
        moved = [shape[self.axis], *(size for place, size in enumerate(shape) if place != self.axis)]
        return np.moveaxis(frames.reshape(moved), 0, self.axis)

    def fit(self, frames: np.ndarray) -> Fit:
        """A file of whole numbers cannot come nearer than its step: differences up to that are none."""
        step = 1.5 * max(_step(attrs) for attrs in (self.case.attrs, self.case.candidate_attrs))
        near = np.abs(frames - self.candidate) <= step
        return self.case.fit(self.as_recorded(np.where(near, self.candidate, frames)))

    @property
    def gain(self) -> float | None:
        """The candidate's factor, its sign included, by least squares over what is aligned."""
        found = self.audio["gain_db"]
        return None if found is None else float(self.audio["polarity"] * 10 ** (found / 20))


def shifted(frames: np.ndarray, later: int, filled: np.ndarray) -> np.ndarray:
    """Frames that come so many later, or earlier, with the frames of another sound where none are left."""
    moved = filled.copy()
    if later >= 0:
        moved[later:] = frames[: len(frames) - later]
    else:
        moved[:later] = frames[-later:]
    return moved


def _frames(values: np.ndarray, axis: int) -> np.ndarray:
    if not values.ndim:
        return values.reshape(1, 1)
    count = values.shape[axis]
    return np.moveaxis(values, axis, 0).reshape(count, prod(values.shape) // max(count, 1))


def _step(attrs: Mapping[str, Any]) -> float:
    """Of the encoding that a WAV file has; float files have none."""
    bits = {"PCM_U8": 8, "PCM_16": 16, "PCM_24": 24, "PCM_32": 32}.get(str(attrs.get("encoding")))
    return 0.0 if bits is None else 2.0 ** (1 - bits)
