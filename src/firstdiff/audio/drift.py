"""Detect a candidate at another speed: another hop length, or another sample rate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import numpy as np

from firstdiff.audio.agreement import measure_agreement
from firstdiff.audio.delay import find_delay
from firstdiff.audio.report import Drift
from firstdiff.audio.resampled import Resampled
from firstdiff.audio.sound import Shifted, Sound
from firstdiff.audio.stretch import moved_frames

_MOST_STRETCH = 4.0
_FITS_DB = 12.0
_NEAR_ENOUGH = 0.003
_USUAL_RATES = (8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000)


def find_drift(reference: Sound, candidate: Sound, energies: Sequence[float]) -> Drift | None:
    """Return the candidate's change of speed, with or without a change of pitch; None if there is none."""
    moved = moved_frames(reference, candidate)
    stretches = [candidate.frames / reference.frames] if reference.frames else []
    stretches += [moved.stretch] if moved else []
    for rate in dict.fromkeys(rate for stretch in stretches for rate in _likely_rates(candidate.rate, stretch)):
        agreed = _taken_as(reference, candidate, rate, energies)
        if agreed is not None and agreed >= _FITS_DB:
            return Drift(stretch=rate / candidate.rate, pitch_kept=False, snr_db=agreed)
    return moved


@final
class Taken(Sound):
    """The same samples, taken as those of another rate."""

    def __init__(self, sound: Sound, rate: float) -> None:
        self._sound = sound
        self.frames, self.channels, self.rate = sound.frames, sound.channels, rate

    def _frames(self, start: int, stop: int) -> np.ndarray:
        return self._sound.raw(start, stop)


def _likely_rates(own: float, stretch: float) -> list[float]:
    """Rates by which a stretch may have come about: related as usual rates are, the nearest first, or just so."""
    if not 1 / _MOST_STRETCH <= stretch <= _MOST_STRETCH or stretch == 1:
        return []
    ratios = {one / other for one in _USUAL_RATES for other in _USUAL_RATES if one != other}
    near = sorted((abs(ratio / stretch - 1), ratio) for ratio in ratios)
    usual = [own * ratio for apart, ratio in near if apart < _NEAR_ENOUGH]
    return [*usual[:2], own * stretch]


def _taken_as(reference: Sound, candidate: Sound, rate: float, energies: Sequence[float]) -> float | None:
    played = Resampled(Taken(candidate, rate), reference.rate)
    delay = find_delay(reference, played, energies)
    return None if delay is None else measure_agreement(reference, Shifted(played, delay.samples)).si_snr_db
