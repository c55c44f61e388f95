"""Views of audio for the page: waveform peaks, spectrograms, WAV bytes.

Every function takes a `Sound` (`sound_of(values, rate)`, or `Difference`), and a range of its frames.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import final

import numpy as np

from firstdiff.audio.levels import shared_range
from firstdiff.audio.mel_distance import window_size
from firstdiff.audio.report import AudioReport
from firstdiff.audio.sound import BLOCK, Shifted, Sound, finite, fourier, prepare
from firstdiff.audio.timing import Taken

_LOUD = 0.5  # a difference is played with this peak
_FRAMES_A_COLUMN = 4
_MOST_WAV_BYTES = 1 << 30


@dataclass(frozen=True)
class Peaks:
    """A waveform at W pixels: the least and the greatest sample under each, by channel, [channels, W].

    broken: pixels under which something is NaN or infinite, [W]
    """

    low: np.ndarray
    high: np.ndarray
    broken: np.ndarray


@dataclass(frozen=True)
class Spectrogram:
    """Loudness in dB relative to a full-scale tone, [height, width]; row 0 is the highest frequency, `top_hz`."""

    db: np.ndarray
    top_hz: float
    seconds: float


@dataclass(frozen=True)
class Played:
    """A 16-bit WAV file; `gain_db` is by how much it was made louder or quieter to be heard, `note` says so."""

    data: bytes
    gain_db: float
    note: str | None


@final
class Difference(Sound):
    """Candidate minus reference, at one rate, as they are or with delay, gain, polarity and offset taken out."""

    def __init__(self, reference: Sound, candidate: Sound, report: AudioReport | None = None) -> None:
        same_rate = report is not None and report.rates_ignored
        ready = prepare(reference, Taken(candidate, reference.rate) if same_rate else candidate)
        self._reference, self._candidate = ready.reference, ready.candidate
        self._gain, self._offset = 1.0, 0.0
        if report is not None and report.delay is not None and report.gain_db is not None:
            self._candidate = Shifted(ready.candidate, report.delay.samples)
            self._gain = (report.polarity or 1) * 10 ** (report.gain_db / 20)
            self._offset = report.dc_offset or 0.0
        self._start, self.frames = shared_range(self._reference, self._candidate)
        self.channels, self.rate = self._reference.channels, self._reference.rate

    def _frames(self, start: int, stop: int) -> np.ndarray:
        candidate = (self._candidate.raw(start, stop) - self._offset) / self._gain
        found: np.ndarray = candidate - self._reference.raw(start, stop)
        found[: max(self._start - start, 0)] = 0.0
        return found


def peaks(sound: Sound, width: int, start: int = 0, stop: int | None = None) -> Peaks:
    """The least and the greatest sample under each of `width` pixels: a click of one sample is never lost."""
    stop = sound.frames if stop is None else min(stop, sound.frames)
    low, high = np.zeros((sound.channels, width)), np.zeros((sound.channels, width))
    broken = np.zeros(width, bool)
    length = stop - start
    if length <= 0 or width <= 0:
        return Peaks(low, high, broken)
    edges = np.arange(width + 1) * length // width
    first = 0
    while first < width:
        last = max(int(np.searchsorted(edges, edges[first] + BLOCK, side="right")) - 1, first + 1)
        # without a frame of its own, a pixel shows the one it lies in
        places = np.minimum(edges[first:last], length - 1)
        end = min(max(int(edges[last]), int(places[-1]) + 1), length)
        found = sound.raw(start + int(places[0]), start + end)
        bad = ~np.isfinite(found)
        cuts = places - places[0]
        low[:, first:last] = np.minimum.reduceat(np.where(bad, np.inf, found), cuts).T
        high[:, first:last] = np.maximum.reduceat(np.where(bad, -np.inf, found), cuts).T
        broken[first:last] = np.logical_or.reduceat(bad.any(axis=1), cuts)
        first = last
    nothing = ~np.isfinite(low) | ~np.isfinite(high)
    low[nothing] = high[nothing] = 0.0
    return Peaks(low, high, broken)


def spectrogram(
    sound: Sound, width: int, height: int, start: int = 0, stop: int | None = None, *, size: int | None = None
) -> Spectrogram:
    """The channels' mean loudness over time and frequency; the loudest of what shares a cell.

    size: of a window, in frames; about 46 ms if left out
    """
    stop = sound.frames if stop is None else min(stop, sound.frames)
    size = window_size(sound.rate) if size is None else size
    length = max(stop - start, 0)
    db = np.full((height, width), -np.inf)
    if length and width and height:
        columns = np.arange(width * _FRAMES_A_COLUMN) + 0.5
        centres = start + (columns * length / len(columns)).astype(int)
        rows = np.minimum(np.arange(size // 2 + 1) * height // (size // 2 + 1), height - 1)
        powers = _powers(sound, np.unique(centres), size)[np.searchsorted(np.unique(centres), centres)]
        pooled = powers.reshape(width, _FRAMES_A_COLUMN, -1).max(axis=1)
        db = _by_row(pooled, rows, height)[::-1]
    return Spectrogram(db, sound.rate / 2, length / sound.rate)


def wav(sound: Sound, start: int = 0, stop: int | None = None, *, loud: bool = False) -> Played:
    """A stretch of a sound as a 16-bit WAV file; what would clip is made quieter, and `note` says so.

    loud: make it as loud as can be heard well, for a difference that is all but silent
    """
    stop = sound.frames if stop is None else min(stop, sound.frames)
    size = max(stop - start, 0) * sound.channels * 2
    if size > _MOST_WAV_BYTES:
        stop = start + _MOST_WAV_BYTES // (2 * sound.channels)
        size = (stop - start) * sound.channels * 2
    peak = max((float(np.abs(block).max(initial=0.0)) for _, block in sound.blocks(start, stop)), default=0.0)
    gain = _LOUD / peak if loud and peak > 0 else 1.0 / peak if peak > 1 else 1.0
    pieces = [_wav_header(size, sound.channels, round(sound.rate))]
    for _, block in sound.blocks(start, stop):
        pieces.append(np.clip(np.round(block * gain * 32767), -32768, 32767).astype("<i2").tobytes())
    gain_db = 20 * math.log10(gain)
    how = "louder" if gain_db > 0 else "quieter"
    note = f"played {abs(gain_db):.1f} dB {how} than it is" if abs(gain_db) >= 0.05 else None
    return Played(b"".join(pieces), gain_db, note)


def _powers(sound: Sound, centres: np.ndarray, size: int) -> np.ndarray:
    """[frames, bins], 1 for a tone that reaches from -1 to 1."""
    window = np.hanning(size + 1)[:-1]
    found = []
    for part in np.array_split(centres, -(-len(centres) // 256)):
        frames = np.stack([finite(sound.raw(int(at) - size // 2, int(at) - size // 2 + size)) for at in part])
        bins = np.abs(fourier().rfft(frames * window[:, None], axis=1)) * (2.0 / window.sum())
        found.append((bins**2).mean(axis=2))
    return np.concatenate(found)


def _by_row(powers: np.ndarray, rows: np.ndarray, height: int) -> np.ndarray:
    """[width, bins] to [height, width] in dB; where there are more rows than bins, a bin fills several."""
    if height > powers.shape[1]:
        taken = powers[:, np.arange(height) * powers.shape[1] // height]
    else:
        taken = np.maximum.reduceat(powers, np.searchsorted(rows, np.arange(height)), axis=1)
    with np.errstate(divide="ignore"):
        return np.asarray(10.0 * np.log10(taken.T))


def _wav_header(size: int, channels: int, rate: int) -> bytes:
    body = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, channels, rate, rate * channels * 2, channels * 2, 16)
    return struct.pack("<4sI4s", b"RIFF", 36 + size, b"WAVE") + body + struct.pack("<4sI", b"data", size)
