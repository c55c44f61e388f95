"""Sounds: samples of a tensor or file, prepared, shifted and resampled for a comparison."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import prod
from typing import Any, final

import numpy as np

from firstdiff.errors import UsageError
from firstdiff.trace import ArraySource, Source

BLOCK = 1 << 17  # frames handled at once


class Sound(ABC):
    """Frames by channels, at a rate; what lies before the first and after the last frame is silence.

    first: where its frames begin, other than 0 in a sound that was shifted; they end before `frames`
    """

    frames: int
    channels: int
    rate: float
    first: int = 0

    @property
    def seconds(self) -> float:
        return self.frames / self.rate

    def raw(self, start: int, stop: int) -> np.ndarray:
        """Frames `start` to `stop`, [n, channels] float64, NaN and Inf as they are."""
        first, last = max(start, 0), min(stop, self.frames)
        if first >= last:
            return np.zeros((max(stop - start, 0), self.channels))
        found = self._frames(first, last)
        if first == start and last == stop:
            return found
        return np.pad(found, ((first - start, stop - last), (0, 0)))

    def read(self, start: int, stop: int) -> np.ndarray:
        """The same with silence in place of NaN and Inf."""
        return finite(self.raw(start, stop))

    def blocks(self, start: int = 0, stop: int | None = None) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the start and the frames of each block."""
        end = self.frames if stop is None else stop
        for at in range(start, end, BLOCK):
            yield at, self.read(at, min(at + BLOCK, end))

    @abstractmethod
    def _frames(self, start: int, stop: int) -> np.ndarray:
        """Frames that are there."""


@final
class TensorSound(Sound):
    """A tensor whose axis `axis` counts samples; every other axis counts channels. Integers are taken as PCM."""

    def __init__(self, source: Source, rate: float, axis: int | None = None) -> None:
        if source.dtype.kind == "c":
            raise UsageError(f"complex values ({source.dtype}) are no sound; give the waveform, not its spectrum")
        if not rate > 0:
            raise UsageError(f"a sound of {rate} samples a second makes no sense; give a rate above 0")
        self._source = source
        self._shape = source.shape or (1,)
        self._axis = sample_axis(self._shape) if axis is None else axis % len(self._shape)
        self.rate = float(rate)
        self.frames = self._shape[self._axis]
        self.channels = prod(self._shape) // self.frames if self.frames else 1

    def _frames(self, start: int, stop: int) -> np.ndarray:
        if not self._source.shape:
            return _as_float(self._source.read()).reshape(1, 1)
        index = [slice(None)] * len(self._shape)
        index[self._axis] = slice(start, stop)
        part = np.moveaxis(self._source.read(tuple(index)), self._axis, 0)
        return _as_float(part).reshape(stop - start, self.channels)


@final
class Centred(Sound):
    """A sound without its constant part; there is none in the silence around it."""

    def __init__(self, sound: Sound, offset: float) -> None:
        self._sound = sound
        self._offset = offset
        self.frames, self.channels, self.rate = sound.frames, sound.channels, sound.rate

    def _frames(self, start: int, stop: int) -> np.ndarray:
        return self._sound.read(start, stop) - self._offset


@final
class Channels(Sound):
    """The first channels of a sound, or the mean of them all."""

    def __init__(self, sound: Sound, count: int) -> None:
        self._sound = sound
        self.frames, self.channels, self.rate = sound.frames, count, sound.rate

    def _frames(self, start: int, stop: int) -> np.ndarray:
        found = self._sound.raw(start, stop)
        if self.channels == 1:
            mean: np.ndarray = found.mean(axis=1, keepdims=True)
            return mean
        return found[:, : self.channels]


@final
class Shifted(Sound):
    """A sound that starts `delay` frames earlier; a part of a frame is interpolated by a windowed sinc."""

    _HALF = 128

    def __init__(self, sound: Sound, delay: float) -> None:
        self._sound = sound
        self._whole = round(delay)
        self._part = delay - self._whole
        self.first = -self._whole
        self.frames, self.channels, self.rate = sound.frames - self._whole, sound.channels, sound.rate

    def raw(self, start: int, stop: int) -> np.ndarray:
        return self._frames(start, stop)

    def _frames(self, start: int, stop: int) -> np.ndarray:
        if not self._part:
            return self._sound.raw(start + self._whole, stop + self._whole)
        around = self._sound.read(start + self._whole - self._HALF, stop + self._whole + self._HALF)
        columns = [np.convolve(column, self._taps, mode="valid") for column in around.T]
        return np.stack(columns, axis=1) if columns else around[self._HALF : -self._HALF]

    @cached_property
    def _taps(self) -> np.ndarray:
        places = np.arange(-self._HALF, self._HALF + 1) + self._part
        window = np.i0(12.0 * np.sqrt(1.0 - (places / (self._HALF + 1)) ** 2))
        taps = np.sinc(places) * window
        return np.asarray(taps / taps.sum())


def sound_of(values: Any, rate: float, axis: int | None = None) -> Sound:
    """A sound from an array, a list or a source of values."""
    if isinstance(values, Sound):
        return values
    return TensorSound(values if isinstance(values, Source) else ArraySource(np.asarray(values)), rate, axis)


def sample_axis(shape: tuple[int, ...]) -> int:
    """The longest axis, the last of those that are equally long."""
    return max(range(len(shape)), key=lambda axis: (shape[axis], axis)) if shape else 0


def finite(values: np.ndarray) -> np.ndarray:
    good = np.isfinite(values)
    return values if good.all() else np.where(good, values, 0.0)


def _as_float(values: np.ndarray) -> np.ndarray:
    """As a player would take them: 16 bits of integer are -1 to 1, unsigned ones are centred; int64 is left alone."""
    kind, width = values.dtype.kind, values.dtype.itemsize
    wide = values.astype(np.float64)
    if kind not in "iu" or width == 8:
        return wide
    half = float(1 << (8 * width - 1))
    return (wide - half if kind == "u" else wide) / half


MISSING = "comparing sound needs scipy, which is not installed: pip install 'firstdiff[audio]'"


def has_scipy() -> bool:
    from importlib.util import find_spec

    return find_spec("scipy") is not None


def fourier() -> Any:
    """`scipy.fft`."""
    try:
        from scipy import fft
    except ImportError as error:
        raise UsageError(MISSING) from error
    return fft


def signal() -> Any:
    """`scipy.signal`, which takes a second to load."""
    try:
        from scipy import signal as found
    except ImportError as error:
        raise UsageError(MISSING) from error
    return found


_FINEST = 100_000  # terms of the ratio beyond this are rounded: the filter has 20 taps for each
_LOBES = 16


@final
class Resampled(Sound):
    """A sound at another rate, through a polyphase filter; pieces give what the whole would."""

    def __init__(self, sound: Sound, rate: float) -> None:
        ratio = Fraction(rate).limit_denominator(10**6) / Fraction(sound.rate).limit_denominator(10**6)
        if max(ratio.numerator, ratio.denominator) > _FINEST:
            ratio = ratio.limit_denominator(1000)
        self._sound = sound
        self._up, self._down = ratio.numerator, ratio.denominator
        self.rate = rate
        self.channels = sound.channels
        self.frames = -(-sound.frames * self._up // self._down)

    def _frames(self, start: int, stop: int) -> np.ndarray:
        """The context is a multiple of `down` frames, so that it becomes a whole number of frames."""
        around = _LOBES * max(self._up, self._down) // self._up + 2
        first = (start * self._down // self._up - around) // self._down
        last = stop * self._down // self._up + around + 1
        given = self._sound.read(first * self._down, last)
        found: np.ndarray = signal().resample_poly(given, self._up, self._down, axis=0, window=self._taps)
        return found[start - first * self._up : stop - first * self._up]

    @cached_property
    def _taps(self) -> np.ndarray:
        widest = max(self._up, self._down)
        return np.asarray(signal().firwin(2 * _LOBES * widest + 1, 0.96 / widest, window=("kaiser", 10.0)))


@dataclass(frozen=True)
class Prepared:
    """Both sides at one rate, with as many channels; `notes` say how they came to that."""

    reference: Sound
    candidate: Sound
    notes: tuple[str, ...] = ()


def prepare(reference: Sound, candidate: Sound) -> Prepared:
    """The lower rate is compared at; a side of one channel is held against the mean of the other's."""
    notes: list[str] = []
    if reference.channels != candidate.channels:
        reference, candidate, note = _same_channels(reference, candidate)
        notes.append(note)
    if reference.rate != candidate.rate:
        reference, candidate, note = _same_rate(reference, candidate)
        notes.append(note)
    return Prepared(reference, candidate, tuple(notes))


def hertz(rate: float) -> str:
    return f"{rate:,.10g} Hz"


def _same_channels(reference: Sound, candidate: Sound) -> tuple[Sound, Sound, str]:
    fewest = min(reference.channels, candidate.channels)
    found = f"the reference has {_channels(reference)}, the candidate {_channels(candidate)}"
    mean = fewest == 1
    how = "the mean of the channels" if mean else f"the first {fewest} channels"
    ref = reference if reference.channels == fewest else Channels(reference, fewest)
    cand = candidate if candidate.channels == fewest else Channels(candidate, fewest)
    side = "candidate" if ref is reference else "reference"
    return ref, cand, f"{found}: {how} of the {side} {'was' if mean else 'were'} compared"


def _channels(sound: Sound) -> str:
    return f"{sound.channels} channel{'' if sound.channels == 1 else 's'}"


def _same_rate(reference: Sound, candidate: Sound) -> tuple[Sound, Sound, str]:
    found = f"the reference has {hertz(reference.rate)}, the candidate {hertz(candidate.rate)}"
    if reference.rate > candidate.rate:
        return Resampled(reference, candidate.rate), candidate, f"{found}: the reference was resampled"
    return reference, Resampled(candidate, reference.rate), f"{found}: the candidate was resampled"
