"""Find the delay between two signals by cross-correlation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from firstdiff.audio.report import Delay
from firstdiff.audio.scientific import fourier
from firstdiff.audio.sound import BLOCK, Sound

_WHOLE = 1 << 20  # a reference up to this many frames is correlated as a whole
_WINDOW = 2 * BLOCK
_WINDOWS = 4
_REACH_SECONDS = 10.0
_MOST_REACH = 1 << 19
_MOST_CHANNELS = 4
_AS_GOOD = 0.999
_AMBIGUOUS = 0.97
_LEAST_CORRELATION = 0.35


class _Correlated(NamedTuple):
    """values: by lag, from -reach on; spectrum: what they come from; scale: makes them coefficients."""

    values: np.ndarray
    spectrum: np.ndarray
    size: int
    scale: np.ndarray


def find_delay(
    reference: Sound, candidate: Sound, energies: Sequence[float], *, least: float = _LEAST_CORRELATION
) -> Delay | None:
    """The delay of the candidate, or None where no delay makes the two alike. Both come without their mean.

    energies: of the blocks of the reference, so that the loudest are looked at in a long one
    """
    windows = _windows(reference.frames, energies)
    reach = min(max(reference.frames, candidate.frames) - 1, int(_REACH_SECONDS * reference.rate), _MOST_REACH)
    if not windows or reach < 0:
        return None
    found = _correlate(reference, candidate, windows, reach)
    coefficients = found.values * found.scale
    peaks = _peaks(np.abs(coefficients))
    if not len(peaks):
        return None
    heights = np.abs(coefficients[peaks])
    best = heights.max()
    if best < least:
        return None
    lags = peaks - reach
    good = np.flatnonzero(heights >= _AS_GOOD * best)
    chosen = good[np.argmin(np.abs(lags[good]))]
    whole = int(lags[chosen])
    part = _refined(found, int(peaks[chosen])) if 0 < peaks[chosen] < len(coefficients) - 1 else 0.0
    samples = whole + part
    others = np.abs(lags[(heights >= _AMBIGUOUS * best) & (np.arange(len(peaks)) != chosen)] - whole)
    return Delay(
        samples=samples,
        whole=whole,
        seconds=samples / reference.rate,
        correlation=float(np.clip(coefficients[peaks[chosen]], -1, 1)),
        period=int(others.min()) if len(others) else None,
        reach=reach,
    )


def loudest(frames: int, energies: Sequence[float], size: int, count: int) -> list[tuple[int, int]]:
    """Stretches of at most `size` frames around the loudest blocks, in order, none overlapping another."""
    if frames <= size:
        return [(0, frames)] if frames else []
    order = sorted(range(len(energies)), key=lambda block: -energies[block])
    taken: list[int] = []
    for block in order:
        start = min(block * BLOCK, frames - size)
        if all(abs(start - other) >= size for other in taken):
            taken.append(start)
        if len(taken) == count:
            break
    return [(start, start + size) for start in sorted(taken)]


def _windows(frames: int, energies: Sequence[float]) -> list[tuple[int, int]]:
    return loudest(frames, energies, _WHOLE, 1) if frames <= _WHOLE else loudest(frames, energies, _WINDOW, _WINDOWS)


def _correlate(reference: Sound, candidate: Sound, windows: list[tuple[int, int]], reach: int) -> _Correlated:
    fft = fourier()
    length = windows[0][1] - windows[0][0]
    size = fft.next_fast_len(length + 2 * reach, real=True)
    spectrum = np.zeros(size // 2 + 1, complex)
    ref, cand = 0.0, np.zeros(2 * reach + 1)
    for start, stop in windows:
        one = reference.read(start, stop)[:, :_MOST_CHANNELS]
        other = candidate.read(start - reach, stop + reach)[:, :_MOST_CHANNELS]
        ref += float(np.vdot(one, one))
        running = np.concatenate(([0.0], np.cumsum((other * other).sum(axis=1))))
        cand += running[length : length + 2 * reach + 1] - running[: 2 * reach + 1]
        for left, right in zip(one.T, other.T, strict=True):
            spectrum += np.conj(fft.rfft(left, size)) * fft.rfft(right, size)
    values = fft.irfft(spectrum, size)[: 2 * reach + 1]
    # a short overlap at the ends of the range must not look better than it is
    energy = np.maximum(cand, 0.1 * cand.max(initial=0.0)) * ref
    scale = np.divide(1.0, np.sqrt(energy), out=np.zeros_like(energy), where=energy > 0)
    return _Correlated(values, spectrum, size, scale)


def _peaks(heights: np.ndarray) -> np.ndarray:
    """Places that are higher than what is left and right of them."""
    edged = np.concatenate(([-1.0], heights, [-1.0]))
    found: np.ndarray = np.flatnonzero((edged[1:-1] > edged[:-2]) & (edged[1:-1] >= edged[2:]) & (heights > 0))
    return found


def _refined(found: _Correlated, place: int) -> float:
    """The part of a sample by which the peak of the correlation, interpolated without a limit to its grid, is off.

    Newton's method on the correlation as a sum of waves; 0 where it leads further than to the next sample.
    """
    left, middle, right = (float(value) for value in found.values[place - 1 : place + 2])
    curve = left - 2 * middle + right
    part = 0.5 * (left - right) / curve if curve else 0.0
    frequencies = 2j * np.pi * np.arange(len(found.spectrum)) / found.size
    terms = found.spectrum * np.exp(frequencies * place)
    for _ in range(4):
        moved = terms * np.exp(frequencies * part)
        slope = float((frequencies * moved).real.sum())
        bend = float((frequencies * frequencies * moved).real.sum())
        step = -slope / bend if bend else 0.0
        part += float(np.clip(step, -0.5, 0.5))
        if abs(step) < 1e-7:
            break
    return part if abs(part) <= 0.75 else 0.0
