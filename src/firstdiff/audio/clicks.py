"""Detect clicks, jumps that stand out from their surroundings, and their period."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from firstdiff.audio.report import Clicks

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
