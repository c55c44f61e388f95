"""Levels of a sound and agreement of two, in decibels."""

from __future__ import annotations

import math
from collections.abc import Iterator
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


BEYOND = 200.0  # what float64 cannot tell from exact


def power_db(over: float, under: float) -> float | None:
    """10 log10 of a ratio of powers; None where both are 0, infinite where one is."""
    if over <= 0 and under <= 0:
        return None
    if under <= 0:
        return math.inf
    if over <= 0:
        return -math.inf
    return 10.0 * (math.log10(over) - math.log10(under))


def level_db(amplitude: float) -> float | None:
    """Relative to 1; None for silence."""
    return 20.0 * math.log10(amplitude) if amplitude > 0 else None


def snr(signal: float, noise: float) -> float | None:
    """Return the SNR in dB: infinite where the noise is within float64 rounding; None for a silent signal."""
    if signal <= 0:
        return None
    found = power_db(signal, noise)
    return math.inf if found is not None and found > BEYOND else found


@dataclass(frozen=True, slots=True)
class Agreement:
    """Sums over r and d = c * scale - r: small differences keep their digits. `scale` is a power of two, or minus one.

    count: samples that are finite on both sides
    """

    count: int
    scale: float
    r: float
    d: float
    rr: float
    rd: float
    dd: float

    @property
    def snr_db(self) -> float | None:
        """As they are; only for a scale of 1."""
        return snr(self.rr, self.dd) if self.rr > 0 or self.dd > 0 else None

    @property
    def gain(self) -> float:
        """The factor of the candidate, by least squares, the means taken out."""
        variance = self._variance
        return (1.0 + self._covariance / variance) / self.scale if variance > 0 else 1.0

    @property
    def offset(self) -> float:
        """The DC offset of the candidate after the gain."""
        if not self.count:
            return 0.0
        return (self.r + self.d) / self.count / self.scale - self.gain * self.r / self.count

    @property
    def rest(self) -> float:
        """Power of what neither gain nor offset explains, in the unit of the reference times the gain."""
        variance = self._variance
        left = self._deviation - (self._covariance**2 / variance if variance > 0 else 0.0)
        return max(left, 0.0)

    @property
    def si_snr_db(self) -> float | None:
        """Scale-invariant: of the part of the candidate that is the reference, over the rest of it."""
        variance = self._variance
        if variance <= 0:
            return None
        signal = (1.0 + self._covariance / variance) ** 2 * variance
        return snr(signal, self.rest) if signal > 0 else -math.inf

    @property
    def _variance(self) -> float:
        return self.rr - self.r * self.r / self.count if self.count else 0.0

    @property
    def _covariance(self) -> float:
        return self.rd - self.r * self.d / self.count if self.count else 0.0

    @property
    def _deviation(self) -> float:
        return self.dd - self.d * self.d / self.count if self.count else 0.0


def shared_blocks(reference: Sound, candidate: Sound) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Yield the shared frames block by block; samples that are not finite on one side are 0 on both."""
    for start, ref, cand, _ in _blocks(reference, candidate):
        yield start, ref, cand


def measure_agreement(reference: Sound, candidate: Sound, *, scale: float = 1.0) -> Agreement:
    """The sums over the shared part. Both sides start at the same frame; shift the later one first."""
    total, bad = np.zeros(5), 0
    first, last = shared_range(reference, candidate)
    for _, ref, cand, left_out in _blocks(reference, candidate):
        bad += left_out
        difference = cand * scale - ref
        total += (
            ref.sum(),
            difference.sum(),
            np.vdot(ref, ref),
            np.vdot(ref, difference),
            np.vdot(difference, difference),
        )
    return Agreement((last - first) * reference.channels - bad, scale, *(float(value) for value in total))


def shared_range(reference: Sound, candidate: Sound) -> tuple[int, int]:
    """Frames of the reference that the candidate has too; one that was shifted may begin before frame 0 or after."""
    first = max(0, candidate.first)
    return first, max(min(reference.frames, candidate.frames), first)


def _blocks(reference: Sound, candidate: Sound) -> Iterator[tuple[int, np.ndarray, np.ndarray, int]]:
    first, last = shared_range(reference, candidate)
    for start in range(first, last, BLOCK):
        stop = min(start + BLOCK, last)
        ref, cand = reference.raw(start, stop), candidate.raw(start, stop)
        good = np.isfinite(ref) & np.isfinite(cand)
        bad = int(good.size - good.sum())
        if bad:
            ref, cand = np.where(good, ref, 0.0), np.where(good, cand, 0.0)
        yield start, ref, cand, bad
