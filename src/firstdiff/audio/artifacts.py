"""Clicks and ripple that a candidate adds to a sound."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from firstdiff.audio.levels import snr
from firstdiff.audio.report import Clicks, Ripple
from firstdiff.audio.sound import fourier

_STANDS_OUT = 8.0  # times what four fifths of the places around it stay below; noise reaches 4
_RANK = 0.8
_ABOVE_ALL = 4.5  # and times the usual jump anywhere near: the steps of coarse samples in a pause are none
_GUARD, _RING = 4, 24
_MOST_KEPT = 100
_MOST_COUNTED = 100_000
_FEWEST_FOR_PERIOD = 4
_SHORTEST, _LONGEST = 16, 8192


def find_clicks(pieces: Iterable[np.ndarray], *, start: int = 0, floor: float = 0.0) -> Clicks:
    """Clicks in a sound that comes in pieces [n, channels].

    start: the frame that the first piece starts with
    floor: jumps below this are not heard and not counted
    """
    positions: list[int] = []
    for at, jumps in _jumps(pieces):
        places = _outstanding(jumps, floor)
        positions += [start + at + int(place) for place in places]
        if len(positions) > _MOST_COUNTED:
            break
    merged = _merged(positions)
    return Clicks(count=len(merged), positions=tuple(merged[:_MOST_KEPT]), period=period_of(merged))


def period_of(positions: Sequence[int]) -> int | None:
    """The distance that at least four fifths of the positions keep, give or take two samples.

    A frame may click twice, where it starts and where it ends: two places within the period are enough.
    """
    if len(positions) < _FEWEST_FOR_PERIOD:
        return None
    places = np.asarray(positions[:2000])
    gaps = Counter(int(gap) for far in (1, 2, 3) for gap in places[far:] - places[:-far])
    usual = sorted(gap for gap, _ in gaps.most_common(24) if _SHORTEST <= gap <= 4 * _LONGEST)
    # a fraction of the period keeps one phase as well, and a multiple of it two
    for most, order in ((1, usual[::-1]), (2, usual)):
        for gap in order:
            period = _settled(places, gap)
            slots = (places[-1] - places[0]) / period + 1
            if _in_phase(places, period, most) >= 0.8 and len(places) >= 0.25 * slots:
                return period
    return None


def _jumps(pieces: Iterable[np.ndarray]) -> Iterator[tuple[int, np.ndarray]]:
    """Second differences of the loudest channel, with enough of the piece before to look around at the seam.

    The place of a jump is that of the sample after it.
    """
    margin = _GUARD + _RING + 2
    kept: np.ndarray | None = None
    at = 0
    for piece in pieces:
        joined = piece if kept is None else np.concatenate((kept, piece))
        if len(joined) > 2:
            bends = np.abs(np.diff(joined, n=2, axis=0)).max(axis=1, initial=0.0)
            yield at + 1, bends
        kept = joined[-2 * margin :]
        at += len(joined) - len(kept)


def _outstanding(jumps: np.ndarray, floor: float) -> np.ndarray:
    """Places whose jump is several times as large as most in the ring around them."""
    reach = _GUARD + _RING
    if len(jumps) <= 2 * reach:
        return np.empty(0, int)
    usual = _ABOVE_ALL * float(np.sqrt(np.mean(jumps * jumps)))
    likely = np.flatnonzero(jumps > max(floor, usual))
    likely = likely[(likely >= reach) & (likely < len(jumps) - reach)]
    likely = likely[jumps[likely] >= np.maximum(jumps[likely - 1], jumps[likely + 1])]
    ring = np.concatenate((np.arange(-reach, -_GUARD), np.arange(_GUARD + 1, reach + 1)))
    rank = int(_RANK * len(ring))
    found = [
        part[jumps[part] > _STANDS_OUT * np.partition(jumps[part[:, None] + ring], rank, axis=1)[:, rank]]
        for part in np.array_split(likely, max(len(likely) // 10_000, 1))
    ]
    return np.concatenate(found)


def _merged(positions: list[int]) -> list[int]:
    """A click counts once, though it jumps up and down again, or lies on a seam."""
    merged: list[int] = []
    for place in sorted(positions):
        if not merged or place - merged[-1] > _GUARD:
            merged.append(place)
    return merged


def _settled(places: np.ndarray, gap: int) -> int:
    """The period nearest to a gap that fits all positions best; the gap itself where some lie in between."""
    steps = (places - places[0]) / gap
    on_grid = np.abs(steps - np.round(steps)) < 0.05
    counts, distances = np.round(steps[on_grid]), (places - places[0])[on_grid]
    weight = float(np.dot(counts, counts))
    return round(float(np.dot(counts, distances)) / weight) if weight else gap


def _in_phase(places: np.ndarray, period: int, most: int) -> float:
    """The share of positions that lie, within two samples, at `most` places of the period."""
    counts = np.bincount(places % period, minlength=period).astype(float)
    share = 0.0
    for _ in range(most if period >= 4 * _SHORTEST else 1):
        around = np.sum([np.roll(counts, shift) for shift in range(-2, 3)], axis=0)
        top = int(np.argmax(around))
        share += float(around[top]) / len(places)
        counts[np.arange(top - 2, top + 3) % period] = 0.0
    return share


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
