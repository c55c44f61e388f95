"""Find time stretching at the same pitch from the loudness of frequency bands over time."""

from __future__ import annotations

import numpy as np

from firstdiff.audio.mel_distance import band_powers, window_size
from firstdiff.audio.report import Drift
from firstdiff.audio.sound import Sound

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
