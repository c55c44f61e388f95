"""Helpers for the tests of several formats: read a file, damage a file."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from firstdiff.errors import ReadError
from firstdiff.readers.blob import file_blob
from firstdiff.readers.format import Format, Found
from firstdiff.readers.sources import DecodedSource
from firstdiff.trace import Source

HOSTILE_NAMES = ["../x", "/etc/passwd", "<script>alert(1)</script>", "new\nline", "naïve \U0001f600", "a b", "C:\\x"]

INDICES: list[Any] = [
    ...,
    0,
    -1,
    slice(1, None),
    slice(None, None, -1),
    slice(5, 1, -2),
    slice(2, 2),
    (..., 1),
    (..., slice(None, None, -3)),
    (slice(None), slice(1, 2)),
    (0, ..., slice(1, 40, 7)),
    (np.int64(1),),
    (None, 0),
    [0, 1],
]


def found_in(reader: Format, path: Path) -> dict[str, Found]:
    """Return the tensors that a reader finds in a file, by name; asserts that names are unique."""
    found = list(reader.open(file_blob(path)))
    by_name = {item.name: item for item in found}
    assert len(by_name) == len(found)
    return by_name


def refusal_of(reader: Format, path: Path) -> str | None:
    """Why a file as a whole cannot be read; None if it can."""
    try:
        list(reader.open(file_blob(path)))
    except ReadError as error:
        return str(error)
    return None


def source_of(item: Found) -> Source:
    if isinstance(item.source, ReadError):
        raise item.source
    return item.source


def counted_decodes(source: Source) -> list[int]:
    """Return a list to which the source appends the length of whatever it decodes from now on."""
    decoded: list[int] = []
    assert isinstance(source, DecodedSource)
    decode = source._decode

    def counted(packed: np.ndarray) -> np.ndarray:
        decoded.append(len(packed))
        return decode(packed)

    source._decode = counted
    return decoded


def complaint(item: Found) -> str:
    assert isinstance(item.source, ReadError), f"{item.name} could be read"
    return str(item.source)


def assert_reads_as(source: Source, expected: np.ndarray) -> None:
    """A source gives, whole, sliced and in windows, the very bits of an array."""
    assert (source.shape, source.dtype) == (expected.shape, expected.dtype)
    assert_bits(source.view().astype(source.dtype, copy=False), expected)
    for index in INDICES:
        if _fits(index, expected):
            assert_bits(source.read(index), np.array(expected[index]))
    flat = expected.reshape(-1)
    for start, stop in _windows(flat.size):
        assert_bits(source.window(start, stop), flat[start:stop])


def assert_bits(array: np.ndarray, expected: np.ndarray) -> None:
    assert (array.shape, array.dtype) == (expected.shape, expected.dtype)
    assert array.tobytes() == expected.tobytes()


def _fits(index: Any, array: np.ndarray) -> bool:
    try:
        array[index]
    except IndexError:
        return False
    return True


def _windows(size: int) -> Iterable[tuple[int, int]]:
    places = sorted({0, 1, size // 3, size // 2 + 1, size - 1, size} & set(range(size + 1)))
    return [(start, stop) for start in places for stop in places if start <= stop]


@st.composite
def damaged(draw: st.DrawFn, good: bytes) -> bytes:
    """A file with a few bytes changed, or cut off, or both."""
    data = bytearray(good)
    changes = st.tuples(st.integers(0, len(good) - 1), st.integers(0, 255))
    for position, value in draw(st.lists(changes, max_size=4)):
        data[position] = value
    end = draw(st.none() | st.integers(0, len(good)))
    return bytes(data[:end])


def assert_survives(reader: Format, path: Path, most: int = 64 << 20) -> None:
    """Opening a file and reading a little of all that is in it raises nothing but ReadError, and stays small."""
    tracemalloc.start()
    try:
        reader.sniff(file_blob(path))
        unnamed = [error for error in _reading_errors(reader, path) if error.label is None]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert unnamed == []
    assert peak < most


def _reading_errors(reader: Format, path: Path) -> list[ReadError]:
    try:
        found = list(reader.open(file_blob(path)))
    except ReadError:
        return []
    sources = [item.source for item in found if not isinstance(item.source, ReadError)]
    return [error for source in sources if (error := _error_of_reading(source))]


def _error_of_reading(source: Source) -> ReadError | None:
    try:
        source.read(tuple(slice(0, 2) for _ in source.shape))
        source.window(0, min(source.size, 1000))
        source.window(max(source.size - 10, 0), source.size)
    except ReadError as error:
        return error
    return None
