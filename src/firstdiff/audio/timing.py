"""Delay, drift and stretch between two sounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, final

import numpy as np

from firstdiff.audio.levels import measure_agreement
from firstdiff.audio.mel_distance import band_powers, window_size
from firstdiff.audio.report import Delay, Drift
from firstdiff.audio.sound import BLOCK, Resampled, Shifted, Sound, fourier

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


_BANDS = 12
_MOST_FRAMES = 1024
_FEWEST_FRAMES = 48
_RANGE = 1e-5
_LAGS = range(-6, 7)
_LEAST = 0.85
_MARGIN = 0.12
_LEAST_STRETCH = 0.004


def moved_frames(reference: Sound, candidate: Sound) -> Drift | None:
    """The stretch at which the two go up and down together, where they do not without it."""
    size = max(window_size(reference.rate) // 2, 32)
    # of a long sound, its beginning: the delay grows along it, and finer steps tell more than more of them
    hop = size // 4
    ref, cand = (_envelopes(side, size, hop) for side in (reference, candidate))
    if min(len(ref), len(cand)) < _FEWEST_FRAMES:
        return None
    found = _best(ref, cand, np.geomspace(0.5, 2.0, 140))
    for width, steps in ((0.01, 21), (0.001, 21)):
        found = max(found, _best(ref, cand, found[1] * np.linspace(1 - width, 1 + width, steps)))
    likeness, stretch = found
    as_it_is, _ = _best(ref, cand, np.ones(1))
    if likeness < _LEAST or likeness < as_it_is + _MARGIN or abs(stretch - 1) < _LEAST_STRETCH:
        return None
    return Drift(stretch=stretch, pitch_kept=True, likeness=likeness)


def _envelopes(sound: Sound, size: int, hop: int) -> np.ndarray:
    """Frames by bands, in powers of ten, no more than 50 dB below the loudest."""
    count = min(max((sound.frames - size) // hop + 1, 0), 2 * _MOST_FRAMES)
    if not count:
        return np.empty((0, _BANDS))
    powers = band_powers(sound, np.arange(count) * hop, size, _BANDS)
    return np.asarray(np.log10(np.maximum(powers, _RANGE * max(float(powers.max()), 1e-300))))


def _best(reference: np.ndarray, candidate: np.ndarray, stretches: np.ndarray) -> tuple[float, float]:
    """The greatest likeness, and the stretch it has."""
    return max((_likeness(reference, candidate, float(stretch)), float(stretch)) for stretch in stretches)


def _likeness(reference: np.ndarray, candidate: np.ndarray, stretch: float) -> float:
    """Correlation of the envelopes, at the best of a few lags, over at least half of the shorter one."""
    count = min(len(reference), int((len(candidate) - 1) / stretch), _MOST_FRAMES)
    if count < max(_FEWEST_FRAMES // 2, min(len(reference), len(candidate), _MOST_FRAMES) // 3):
        return 0.0
    places = np.arange(count) * stretch
    below = places.astype(int)
    part = (places - below)[:, None]
    warped = candidate[below] * (1 - part) + candidate[np.minimum(below + 1, len(candidate) - 1)] * part
    edge = _LAGS.stop
    inner = warped[edge : count - edge]
    likeness = 0.0
    for lag in _LAGS:
        one = reference[edge + lag : count - edge + lag]
        likeness = max(likeness, _correlation(one[: len(inner)], inner[: len(one)]))
    return likeness


def _correlation(one: np.ndarray, other: np.ndarray) -> float:
    one, other = one - one.mean(axis=0), other - other.mean(axis=0)
    both = float(np.sqrt(np.vdot(one, one) * np.vdot(other, other)))
    return float(np.vdot(one, other)) / both if both > 0 else 0.0


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
