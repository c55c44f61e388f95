"""Detect a periodic gain, as overlap-add leaves where window and hop do not fit."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from firstdiff.audio.decibel import snr
from firstdiff.audio.report import Ripple
from firstdiff.audio.scientific import fourier

SHORTEST, LONGEST = 16, 8192
_USUAL_HOPS = (
    *(64, 80, 100, 110, 120, 128, 160, 200, 220, 221, 240, 256, 275, 276, 300, 320, 400, 441, 480, 512, 600, 640),
    *(800, 882, 960, 1024, 1102, 1200, 1280, 1920, 2048, 2400, 4096),
)
_LEAST_IMPROVEMENT = 4.0  # times less power left
_FEWEST_REPEATS = 8


def find_ripple(reference: np.ndarray, rest: np.ndarray, hints: Iterable[int] = ()) -> Ripple | None:
    """The period at which a repeating gain explains what is left of two aligned sounds of one channel.

    reference: the reference times the gain of the candidate
    rest: the candidate minus that
    hints: periods to try first
    """
    energy, left = float(np.vdot(reference, reference)), float(np.vdot(rest, rest))
    if energy <= 0 or left <= 0:
        return None
    longest = min(LONGEST, len(reference) // _FEWEST_REPEATS)
    periods = {period for period in (*hints, *_USUAL_HOPS, *_repeats(reference, rest, longest)) if period <= longest}
    scored = sorted((left - _explained(reference, rest, period), period) for period in periods if period >= SHORTEST)
    if not scored or scored[0][0] * _LEAST_IMPROVEMENT > left:
        return None
    remains, period = min(scored, key=lambda item: (item[0] > 1.5 * scored[0][0] + 1e-12 * left, item[1]))
    period, remains = _fundamental(reference, rest, period, remains, left)
    gains = 1.0 + gain_profile(reference, rest, period)
    return Ripple(
        period=period,
        low_db=_db(float(gains.min())),
        high_db=_db(float(gains.max())),
        snr_db=snr(energy, max(remains, 0.0)) or 0.0,
    )


def _explained(reference: np.ndarray, rest: np.ndarray, period: int) -> float:
    """Power of the rest that a gain for each place within the period takes away."""
    products, energies = _folded(reference * rest, period), _folded(reference * reference, period)
    return float(np.sum(np.divide(products**2, energies, out=np.zeros(period), where=energies > 0)))


def gain_profile(reference: np.ndarray, rest: np.ndarray, period: int) -> np.ndarray:
    """Return the deviation of the gain at each position of the period; 0 where the reference is too quiet."""
    products, energies = _folded(reference * rest, period), _folded(reference * reference, period)
    heard = energies > 1e-3 * energies.mean()
    return np.asarray(np.divide(products, energies, out=np.zeros(period), where=heard))


def _folded(values: np.ndarray, period: int) -> np.ndarray:
    whole = len(values) // period * period
    total: np.ndarray = values[:whole].reshape(-1, period).sum(axis=0)
    total[: len(values) - whole] += values[whole:]
    return total


def _repeats(reference: np.ndarray, rest: np.ndarray, longest: int) -> list[int]:
    """Lags at which the momentary gain resembles itself most."""
    if longest <= SHORTEST:
        return []
    heard = np.abs(reference) > 0.3 * float(np.sqrt(np.mean(reference**2)))
    gains = np.clip(np.divide(rest, reference, out=np.zeros(len(rest)), where=heard), -2.0, 2.0)
    gains[heard] -= gains[heard].mean()
    both = _likeness(heard.astype(float), longest)
    likeness = _likeness(gains, longest) / np.maximum(both, 0.02 * both[0])
    inner = likeness[1:-1]
    peaks = np.flatnonzero((inner > likeness[:-2]) & (inner >= likeness[2:])) + 1
    peaks = peaks[peaks >= SHORTEST]
    return [int(peak) for peak in peaks[np.argsort(-likeness[peaks])][:8]]


def _likeness(values: np.ndarray, longest: int) -> np.ndarray:
    """The sum of products with itself, by lag."""
    fft = fourier()
    size = fft.next_fast_len(len(values) + longest + 1, real=True)
    return np.asarray(fft.irfft(np.abs(fft.rfft(values, size)) ** 2, size)[: longest + 1])


def _fundamental(
    reference: np.ndarray, rest: np.ndarray, period: int, remains: float, left: float
) -> tuple[int, float]:
    """The shortest whole fraction of a period that explains as much: every multiple of it does too."""
    for part in range(period // SHORTEST, 1, -1):
        if period % part == 0:
            shorter = left - _explained(reference, rest, period // part)
            if shorter <= 1.5 * remains + 1e-12 * left:
                return period // part, shorter
    return period, remains


def _db(gain: float) -> float:
    return 20.0 * math.log10(gain) if gain > 1e-6 else -120.0
