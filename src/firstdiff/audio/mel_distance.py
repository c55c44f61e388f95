"""Log-mel distance: the mean difference of two log-mel spectrograms."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from firstdiff.audio.sound import Sound, fourier
from firstdiff.ops.spectral import mel_filterbank

_WINDOW_SECONDS = 0.046
_MELS = 80
_RANGE = 1e-8  # 80 dB under the loudest band of the reference
_MOST_FRAMES = 4096
_AT_ONCE = 256


def log_mel_distance(reference: Sound, candidate: Sound, first: int, last: int, gain: float = 1.0) -> float | None:
    """Mean of the absolute difference in dB, over 80 mels and at most 4,096 frames spread over what both have.

    Bands more than 80 dB below the loudest one of the reference count as that.

    first, last: the frames to compare
    gain: of the candidate, to be taken out
    """
    size = window_size(reference.rate)
    if last - first < 1 or reference.rate < 100:
        return None
    ref = _bands(reference, first, last, size, 1.0)
    cand = _bands(candidate, first, last, size, gain)
    floor = _RANGE * float(ref.max(initial=0.0))
    if floor <= 0:
        floor = _RANGE * float(cand.max(initial=0.0))
    if floor <= 0:
        return 0.0
    apart = np.abs(np.log10(np.maximum(ref, floor)) - np.log10(np.maximum(cand, floor)))
    return float(10.0 * apart.mean())


def window_size(rate: float) -> int:
    """The power of two nearest to 46 ms, and at least 32."""
    return max(1 << round(float(np.log2(max(rate * _WINDOW_SECONDS, 1.0)))), 32)


def band_powers(sound: Sound, starts: np.ndarray, size: int, bands: int, gain: float = 1.0) -> np.ndarray:
    """Power in mel bands of the frames that begin at `starts`, the channels pooled: [frames, bands]."""
    window = np.hanning(size + 1)[:-1]
    filters = _filters(sound.rate, size, bands)
    found = []
    for part in np.array_split(starts, -(-len(starts) // _AT_ONCE)):
        frames = np.stack([sound.read(int(start), int(start) + size) for start in part])
        power = np.abs(fourier().rfft(frames * window[:, None] / gain, axis=1)) ** 2
        found.append(power.mean(axis=2) @ filters.T)
    return np.concatenate(found)


@lru_cache(maxsize=8)
def _filters(rate: float, size: int, bands: int) -> np.ndarray:
    return np.asarray(mel_filterbank(sample_rate=rate, n_fft=size, n_mels=bands))


def _bands(sound: Sound, first: int, last: int, size: int, gain: float) -> np.ndarray:
    hop = size // 2
    count = max((last - first - size) // hop + 1, 1)
    chosen = np.unique(np.linspace(0, count - 1, min(count, _MOST_FRAMES)).astype(int))
    return band_powers(sound, first + chosen * hop, size, min(_MELS, size // 8), gain)
