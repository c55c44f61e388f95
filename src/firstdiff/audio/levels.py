"""Levels of one signal: loudness, DC offset, clipping."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from firstdiff.audio.report import Clipping
from firstdiff.audio.sound import BLOCK, Sound, finite

_NEAR = 0.05  # below an extreme by this share of it
_BINS = 50
_FEWEST = 4
_PILED_UP = 3.0
_MANY_VALUES = 32


@dataclass(frozen=True, slots=True)
class Levels:
    """Levels from one pass over a signal; `energies` has that of each block without the mean."""

    samples: int
    mean: float
    power: float
    low: float
    high: float
    nan: int
    inf: int
    energies: tuple[float, ...]

    @property
    def peak(self) -> float:
        return max(self.high, -self.low, 0.0)

    @property
    def rms(self) -> float:
        return math.sqrt(self.power)

    @property
    def silent(self) -> bool:
        return self.high <= 0 <= self.low

    @property
    def variance(self) -> float:
        return max(self.power - self.mean * self.mean, 0.0)


def measure_levels(sound: Sound) -> Levels:
    total = squares = 0.0
    low, high, nan, inf, energies = 0.0, 0.0, 0, 0, []
    for start in range(0, sound.frames, BLOCK):
        block = sound.raw(start, min(start + BLOCK, sound.frames))
        nan += int(np.isnan(block).sum())
        inf += int(np.isinf(block).sum())
        block = finite(block)
        total += float(block.sum())
        energy = float(np.vdot(block, block))
        squares += energy
        energies.append(max(energy - float(block.sum()) ** 2 / max(block.size, 1), 0.0))
        low, high = min(low, float(block.min(initial=0))), max(high, float(block.max(initial=0)))
    count = sound.frames * sound.channels
    mean, power = (total / count, squares / count) if count else (0.0, 0.0)
    return Levels(count, mean, power, low, high, nan, inf, tuple(energies))


def measure_clipping(sound: Sound, levels: Levels) -> Clipping:
    """A wave that was cut off stands at its extreme far more often than anywhere just below it."""
    sides = [_Extreme(level) for level in (levels.high, levels.low) if level]
    over = 0
    for _, block in sound.blocks():
        over += int((np.abs(block) > 1.0).sum())
        for side in sides:
            side.add(block)
    cut = [side for side in sides if side.is_cut]
    count = sum(side.count for side in cut)
    if not count or count == levels.samples:
        return Clipping(over=over)
    return Clipping(count=count, share=count / levels.samples, level=max(abs(side.level) for side in cut), over=over)


@final
class _Extreme:
    """Counts samples at an extreme, and in fine bins just below it."""

    def __init__(self, level: float) -> None:
        self.level = level
        self.count = 0
        self._below = np.zeros(_BINS, int)
        self._in_a_row = False
        self._values = 0

    def add(self, block: np.ndarray) -> None:
        share = block / self.level
        at = share >= 1.0
        self.count += int(at.sum())
        below = share[(share > 1.0 - _NEAR) & ~at]
        self._below += np.bincount(((1.0 - below) * (_BINS / _NEAR)).astype(int), minlength=_BINS)[:_BINS]
        self._in_a_row |= bool((at[:-2] & at[1:-1] & at[2:]).any())
        if self._values < _MANY_VALUES:
            self._values = max(self._values, len(np.unique(share[share > 0.5][:4096])))

    @property
    def is_cut(self) -> bool:
        """A steady tone has few values, and meets its extreme again and again, though never three times in a row."""
        piled_up = self.count >= _FEWEST and self.count > _PILED_UP * int(self._below.max())
        return piled_up and (self._in_a_row or self._values >= _MANY_VALUES)
