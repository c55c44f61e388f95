"""Resample a signal piece by piece."""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property
from typing import final

import numpy as np

from firstdiff.audio.scientific import signal
from firstdiff.audio.sound import Sound

_FINEST = 100_000  # terms of the ratio beyond this are rounded: the filter has 20 taps for each
_LOBES = 16


@final
class Resampled(Sound):
    """A sound at another rate, through a polyphase filter; pieces give what the whole would."""

    def __init__(self, sound: Sound, rate: float) -> None:
        ratio = Fraction(rate).limit_denominator(10**6) / Fraction(sound.rate).limit_denominator(10**6)
        if max(ratio.numerator, ratio.denominator) > _FINEST:
            ratio = ratio.limit_denominator(1000)
        self._sound = sound
        self._up, self._down = ratio.numerator, ratio.denominator
        self.rate = rate
        self.channels = sound.channels
        self.frames = -(-sound.frames * self._up // self._down)

    def _frames(self, start: int, stop: int) -> np.ndarray:
        """The context is a multiple of `down` frames, so that it becomes a whole number of frames."""
        around = _LOBES * max(self._up, self._down) // self._up + 2
        first = (start * self._down // self._up - around) // self._down
        last = stop * self._down // self._up + around + 1
        given = self._sound.read(first * self._down, last)
        found: np.ndarray = signal().resample_poly(given, self._up, self._down, axis=0, window=self._taps)
        return found[start - first * self._up : stop - first * self._up]

    @cached_property
    def _taps(self) -> np.ndarray:
        widest = max(self._up, self._down)
        return np.asarray(signal().firwin(2 * _LOBES * widest + 1, 0.96 / widest, window=("kaiser", 10.0)))
