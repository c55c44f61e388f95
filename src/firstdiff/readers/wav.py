"""Read WAV files: PCM samples are mapped and scaled to [-1, 1), codecs are decoded by the soundfile package."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple, final

import numpy as np

from firstdiff.errors import ReadError
from firstdiff.readers.blob import Blob, ExtentFile
from firstdiff.readers.format import Format, Found
from firstdiff.readers.sources import DecodedSource, MappedSource, as_asked, forward, plain_axes
from firstdiff.trace import Index, Source


def open_sound(blob: Blob) -> Found:
    """Open a blob through soundfile."""
    try:
        with ExtentFile(blob.extent()) as file, _soundfile().SoundFile(file) as sound:
            shape = (sound.frames,) if sound.channels == 1 else (sound.frames, sound.channels)
            attrs = {"sample_rate": sound.samplerate, "channels": sound.channels}
            attrs |= {"encoding": sound.subtype, "audio": True}
    except (RuntimeError, OSError, ValueError) as error:
        raise ReadError(f"is sound that soundfile does not read ({_soundfile_reason(error)})") from error
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
                _skip_frames(sound, first)
                frames: np.ndarray = sound.read(last - first, dtype="float32")
        except ReadError as error:
            raise error.named(self._blob.label) from error
        except (RuntimeError, OSError, ValueError, MemoryError) as error:
            raise ReadError(f"cannot be decoded ({_soundfile_reason(error)})", self._blob.label) from error
        if len(frames) < last - first:
            raise ReadError(f"ends {last - first - len(frames):,} frames early; was it cut off?", self._blob.label)
        return frames


def _skip_frames(sound: Any, frames: int) -> None:
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


def _soundfile_reason(error: Exception) -> str:
    return str(getattr(error, "error_string", error)).strip().rstrip(".")


_PCM, _FLOAT, _EXTENSIBLE = 1, 3, 0xFFFE
_GUID_TAIL = bytes.fromhex("000000001000800000aa00389b71")
_UNKNOWN = 0xFFFFFFFF
_MAX_CHUNKS = 10_000


class _Encoding(NamedTuple):
    """decode: None where the samples are floats already."""

    name: str
    stored: np.dtype
    decode: Callable[[np.ndarray], np.ndarray] | None = None


class _Sound(NamedTuple):
    tag: int
    bits: int
    channels: int
    rate: int
    frame_bytes: int


class _Chunk(NamedTuple):
    kind: bytes
    offset: int
    size: int


def _scaled(packed: np.ndarray, stored: str, scale: float) -> np.ndarray:
    return packed.view(stored).astype(np.float32) * np.float32(scale)


def _unsigned_8(packed: np.ndarray) -> np.ndarray:
    return (packed.astype(np.float32) - np.float32(128)) * np.float32(2**-7)


def _packed_24(packed: np.ndarray) -> np.ndarray:
    wide = np.zeros((len(packed), 4), np.uint8)
    wide[:, 1:] = packed
    return _scaled(wide, "<i4", 2**-31)


_ENCODINGS = {
    (_PCM, 8): _Encoding("PCM_U8", np.dtype("u1"), _unsigned_8),
    (_PCM, 16): _Encoding("PCM_16", np.dtype("<i2"), partial(_scaled, stored="<i2", scale=2**-15)),
    (_PCM, 24): _Encoding("PCM_24", np.dtype("V3"), _packed_24),
    (_PCM, 32): _Encoding("PCM_32", np.dtype("<i4"), partial(_scaled, stored="<i4", scale=2**-31)),
    (_FLOAT, 32): _Encoding("FLOAT", np.dtype("<f4")),
    (_FLOAT, 64): _Encoding("DOUBLE", np.dtype("<f8")),
}


def _open(blob: Blob) -> list[Found]:
    sound, data, note = _read_header(blob)
    encoding = _ENCODINGS.get((sound.tag, sound.bits))
    if encoding is None or sound.frame_bytes != sound.channels * encoding.stored.itemsize:
        return [open_sound(blob)]
    attrs: dict[str, Any] = {
        "sample_rate": sound.rate,
        "channels": sound.channels,
        "encoding": encoding.name,
        "audio": True,
    }
    frames = data.size // sound.frame_bytes
    shape = (frames,) if sound.channels == 1 else (frames, sound.channels)
    return [Found("", _source(blob, encoding, shape, data.offset), attrs | ({"note": note} if note else {}))]


def _source(blob: Blob, encoding: _Encoding, shape: tuple[int, ...], offset: int) -> Source:
    if encoding.decode is None:
        return MappedSource(blob, encoding.stored, shape, offset=offset)
    unit = encoding.stored.itemsize
    return DecodedSource(blob, shape, np.dtype(np.float32), encoding.decode, offset=offset, unit=unit)


def _read_header(blob: Blob) -> tuple[_Sound, _Chunk, str | None]:
    """Return the sample format, the data chunk, and a warning if the chunk is damaged."""
    if not _sniff(blob):
        raise ReadError("does not start as a WAV file does")
    sound: _Sound | None = None
    wide_size: int | None = None
    for chunk in _chunks(blob):
        if chunk.kind == b"ds64":
            _, wide_size = struct.unpack_from("<QQ", _body(blob, chunk, 16))
        elif chunk.kind == b"fmt ":
            sound = _read_sound(blob, chunk)
        elif chunk.kind == b"data":
            if sound is None:
                raise ReadError("has sound before it says what kind (no fmt chunk before its data)")
            size = chunk.size if wide_size is None or chunk.size < _UNKNOWN else wide_size
            return sound, *_what_is_there(blob, chunk._replace(size=size))
    raise ReadError("has no sound in it (no data chunk); was it cut off?")


def _chunks(blob: Blob) -> Iterator[_Chunk]:
    at = 12
    for _ in range(_MAX_CHUNKS):
        head = blob.read(at, 8)
        if len(head) < 8:
            return
        kind, size = struct.unpack("<4sI", head)
        yield _Chunk(kind, at + 8, size)
        at += 8 + size + size % 2
    raise ReadError(f"has more than {_MAX_CHUNKS:,} chunks and still no sound")


def _body(blob: Blob, chunk: _Chunk, least: int) -> bytes:
    body = blob.read(chunk.offset, min(chunk.size, 64))
    if len(body) < least:
        raise ReadError(f"has a {chunk.kind.decode('ascii').strip()} chunk of {len(body)} bytes, too short to be one")
    return body


def _read_sound(blob: Blob, chunk: _Chunk) -> _Sound:
    body = _body(blob, chunk, 16)
    tag, channels, rate, _, frame_bytes, bits = struct.unpack_from("<HHIIHH", body)
    if tag == _EXTENSIBLE and len(body) >= 40 and body[26:40] == _GUID_TAIL:
        tag = int.from_bytes(body[24:26], "little")
    if channels == 0 or rate == 0:
        raise ReadError(f"claims {channels} channels at {rate} samples a second")
    return _Sound(tag, bits, channels, rate, frame_bytes)


def _what_is_there(blob: Blob, chunk: _Chunk) -> tuple[_Chunk, str | None]:
    """A stream that was never closed has 0, the largest number, or too large a number for its size."""
    rest = blob.size - chunk.offset
    closed = int.from_bytes(blob.read(4, 4), "little") + 8 == blob.size
    if chunk.size <= rest and (chunk.size > 0 or rest == 0 or closed):
        return chunk, None
    note = f"the header gives {chunk.size:,} bytes of sound; the {rest:,} that are there were taken"
    return chunk._replace(size=rest), note


def _sniff(blob: Blob) -> bool:
    start = blob.head(12)
    return start[:4] in (b"RIFF", b"RF64", b"BW64") and start[8:12] == b"WAVE"


FORMAT = Format("wav", (".wav", ".wave"), _sniff, _open)
