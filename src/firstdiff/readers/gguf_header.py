"""Parse the header of a GGUF file: skip the metadata, list the tensors."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Literal, NamedTuple

from firstdiff.errors import ReadError
from firstdiff.readers.blob import Blob

MAGIC = b"GGUF"
ByteOrder = Literal["<", ">"]

_VERSIONS = (2, 3)
_ALIGNMENT = b"general.alignment"
_DEFAULT_ALIGNMENT = 32
_WIDTHS = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_UINT32, _STRING, _ARRAY = 4, 8, 9
_MAX_COUNT = 1 << 24
_MAX_TEXT = 1 << 16
_MAX_DIMS = 32
_MAX_DEPTH = 8


class Entry(NamedTuple):
    """One tensor: `kind` is ggml's number of its type, `shape` in numpy's order, `offset` in the file."""

    name: str
    shape: tuple[int, ...]
    kind: int
    offset: int


class Header(NamedTuple):
    order: ByteOrder
    entries: tuple[Entry, ...]


def read_header(blob: Blob) -> Header:
    """Everything before the data; ReadError says what is wrong with it."""
    if blob.head(4) != MAGIC:
        raise ReadError("does not start as a GGUF file does")
    try:
        return _parse(_Cursor(blob.map(0, blob.size), _byte_order(blob)))
    except struct.error as error:
        raise ReadError("ends inside its header; was it cut off?") from error


def _byte_order(blob: Blob) -> ByteOrder:
    start = blob.head(8)[4:]
    # versions are small numbers: the end with the zeros is the high one
    order: ByteOrder = ">" if start[:2] == b"\0\0" else "<"
    version = int.from_bytes(start, "big" if order == ">" else "little")
    if len(start) == 4 and version not in _VERSIONS:
        raise ReadError(f"is GGUF version {version}; versions 2 and 3 can be read, so convert it with a newer tool")
    return order


class _Cursor:
    """A place in the header that only moves on, and never past the end."""

    def __init__(self, data: memoryview, order: ByteOrder) -> None:
        self.data = data
        self.order = order
        self.at = 8

    def number(self, code: Literal["I", "Q"]) -> int:
        (value,) = struct.unpack_from(self.order + code, self.data, self.at)
        self.at += struct.calcsize(self.order + code)
        return int(value)

    def count(self, what: str, least: int) -> int:
        """Read the number of `what` that follow, each of at least `least` bytes; ReadError if they cannot fit."""
        count = self.number("Q")
        if count > _MAX_COUNT or count * least > len(self.data) - self.at:
            raise ReadError(f"claims {count:,} {what}, more than it can hold; is it damaged?")
        return count

    def text(self) -> bytes:
        length = self.number("Q")
        if length > _MAX_TEXT:
            raise ReadError(f"claims a name of {length:,} bytes; is it damaged?")
        return bytes(self.data[self.skip(length) : self.at])

    def skip(self, count: int) -> int:
        """Skip `count` bytes and return the offset where they began."""
        start = self.at
        if count > len(self.data) - start:
            raise ReadError("ends inside its header; was it cut off?")
        self.at += count
        return start


def _parse(cursor: _Cursor) -> Header:
    tensors = cursor.count("tensors", 24)
    alignment = _read_alignment(cursor)
    listed = tuple(_entries(cursor, tensors))
    data = -(-cursor.at // alignment) * alignment
    return Header(cursor.order, tuple(entry._replace(offset=data + entry.offset) for entry in listed))


def _read_alignment(cursor: _Cursor) -> int:
    """Step over all metadata but the one value that says where tensors may begin."""
    alignment = None
    for _ in range(cursor.count("pieces of metadata", 13)):
        key, kind = cursor.text(), cursor.number("I")
        if key != _ALIGNMENT:
            _skip_value(cursor, kind)
            continue
        if kind != _UINT32 or alignment is not None:
            raise ReadError("has no single whole number as its general.alignment")
        alignment = cursor.number("I")
        if alignment == 0 or alignment & (alignment - 1):
            raise ReadError(f"has {alignment} as its general.alignment, which is no power of two")
    return alignment or _DEFAULT_ALIGNMENT


def _skip_value(cursor: _Cursor, kind: int, depth: int = 0) -> None:
    if kind in _WIDTHS:
        cursor.skip(_WIDTHS[kind])
    elif kind == _STRING:
        cursor.skip(cursor.number("Q"))
    elif kind == _ARRAY and depth < _MAX_DEPTH:
        _skip_array(cursor, depth)
    else:
        raise ReadError(f"has metadata of the unknown type {kind}; is it damaged?")


def _skip_array(cursor: _Cursor, depth: int) -> None:
    kind = cursor.number("I")
    if kind in _WIDTHS:
        cursor.skip(cursor.number("Q") * _WIDTHS[kind])
    elif kind == _STRING:
        _skip_strings(cursor, cursor.count("strings", 8))
    else:
        for _ in range(cursor.count("lists", 12)):
            _skip_value(cursor, kind, depth + 1)


def _skip_strings(cursor: _Cursor, count: int) -> None:
    """A vocabulary has hundreds of thousands of them."""
    read, data, at = struct.Struct(cursor.order + "Q").unpack_from, cursor.data, cursor.at
    end = len(data)
    for _ in range(count):
        at += 8 + read(data, at)[0]
        if at > end:
            raise ReadError("ends inside its header; was it cut off?")
    cursor.at = at


def _entries(cursor: _Cursor, count: int) -> Iterator[Entry]:
    for _ in range(count):
        name = cursor.text().decode("utf-8", "backslashreplace")
        dims = cursor.number("I")
        if dims > _MAX_DIMS:
            raise ReadError(f"claims a tensor of {dims:,} dimensions; is it damaged?")
        shape = tuple(cursor.number("Q") for _ in range(dims))
        kind = cursor.number("I")
        yield Entry(name, shape[::-1], kind, cursor.number("Q"))
