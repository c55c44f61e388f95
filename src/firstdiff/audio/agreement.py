"""Agreement of two aligned signals, before and after removing gain and offset."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from firstdiff.audio.decibel import snr
from firstdiff.audio.sound import BLOCK, Sound


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
