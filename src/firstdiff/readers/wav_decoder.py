"""Read WAV files that need a codec (mu-law, A-law, ADPCM) through the soundfile package."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from firstdiff.errors import ReadError
from firstdiff.readers.blob import Blob, ExtentFile
from firstdiff.readers.format import Found
from firstdiff.readers.sources import as_asked, forward, plain_axes
from firstdiff.trace import Index, Source


def open_sound(blob: Blob) -> Found:
    """Open a blob through soundfile."""
    try:
        with ExtentFile(blob.extent()) as file, _soundfile().SoundFile(file) as sound:
            shape = (sound.frames,) if sound.channels == 1 else (sound.frames, sound.channels)
            attrs = {"sample_rate": sound.samplerate, "channels": sound.channels}
            attrs |= {"encoding": sound.subtype, "audio": True}
    except (RuntimeError, OSError, ValueError) as error:
        raise ReadError(f"is sound that soundfile does not read ({_reason(error)})") from error
    return Found("", CodedSource(blob, shape), attrs)


@final
class CodedSource(Source):
    """Frames are decoded from the first to the last that is asked for."""

    def __init__(self, blob: Blob, shape: tuple[int, ...]) -> None:
        self._blob = blob
        self.shape = shape
        self.dtype = np.dtype(np.float32)

    def stamp(self) -> object:
        return self._blob.stamp()

    def view(self) -> np.ndarray:
        return self._frames(0, self.shape[0])

    def read(self, index: Index = ...) -> np.ndarray:
        axes = plain_axes(index, self.shape)
        if axes is None:
            return super().read(index)
        first, *others = (forward(axis) for axis in axes)
        frames = self._frames(first.start, first.stop)[(slice(None, None, first.step), *others)]
        return np.array(frames[tuple(as_asked(axis) for axis in axes)])

    def window(self, start: int, stop: int) -> np.ndarray:
        if start >= stop:
            return np.empty(0, self.dtype)
        channels = self.shape[1] if len(self.shape) > 1 else 1
        first, last = start // channels, -(-stop // channels)
        return self._frames(first, last).reshape(-1)[start - first * channels : stop - first * channels]

    def _frames(self, first: int, last: int) -> np.ndarray:
        try:
            with ExtentFile(self._blob.extent()) as file, _soundfile().SoundFile(file) as sound:
                _skip(sound, first)
                frames: np.ndarray = sound.read(last - first, dtype="float32")
        except ReadError as error:
            raise error.named(self._blob.label) from error
        except (RuntimeError, OSError, ValueError, MemoryError) as error:
            raise ReadError(f"cannot be decoded ({_reason(error)})", self._blob.label) from error
        if len(frames) < last - first:
            raise ReadError(f"ends {last - first - len(frames):,} frames early; was it cut off?", self._blob.label)
        return frames


def _skip(sound: Any, frames: int) -> None:
    if sound.seekable():
        sound.seek(frames)
    else:
        sound.read(frames, dtype="float32")


def _soundfile() -> Any:
    try:
        import soundfile
    except (ImportError, OSError) as error:
        raise ReadError("is sound that takes a codec, which needs soundfile: pip install 'firstdiff[audio]'") from error
    return soundfile


def _reason(error: Exception) -> str:
    return str(getattr(error, "error_string", error)).strip().rstrip(".")
