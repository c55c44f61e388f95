"""GGUF files: header, tensors and dequantised values."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Literal, NamedTuple

import numpy as np

from firstdiff import dtypes
from firstdiff.errors import ReadError
from firstdiff.readers.blob import Blob
from firstdiff.readers.format import Format, Found
from firstdiff.readers.sources import Decode, DecodedSource, MappedSource
from firstdiff.trace import Source

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


_PLAIN = {
    0: "float32",
    1: "float16",
    24: "int8",
    25: "int16",
    26: "int32",
    27: "int64",
    28: "float64",
    30: "bfloat16",
}


class Quantisation(NamedTuple):
    """One of ggml's block types: `values` numbers in `unit` bytes."""

    kind: int
    name: str
    values: int
    unit: int


_QUANTISED = {
    each.kind: each
    for each in (
        Quantisation(2, "Q4_0", 32, 18),
        Quantisation(3, "Q4_1", 32, 20),
        Quantisation(6, "Q5_0", 32, 22),
        Quantisation(7, "Q5_1", 32, 24),
        Quantisation(8, "Q8_0", 32, 34),
        Quantisation(9, "Q8_1", 32, 40),
        Quantisation(10, "Q2_K", 256, 84),
        Quantisation(11, "Q3_K", 256, 110),
        Quantisation(12, "Q4_K", 256, 144),
        Quantisation(13, "Q5_K", 256, 176),
        Quantisation(14, "Q6_K", 256, 210),
        Quantisation(15, "Q8_K", 256, 292),
        Quantisation(16, "IQ2_XXS", 256, 66),
        Quantisation(17, "IQ2_XS", 256, 74),
        Quantisation(18, "IQ3_XXS", 256, 98),
        Quantisation(19, "IQ1_S", 256, 50),
        Quantisation(20, "IQ4_NL", 32, 18),
        Quantisation(21, "IQ3_S", 256, 110),
        Quantisation(22, "IQ2_S", 256, 82),
        Quantisation(23, "IQ4_XS", 256, 136),
        Quantisation(29, "IQ1_M", 256, 56),
        Quantisation(34, "TQ1_0", 256, 54),
        Quantisation(35, "TQ2_0", 256, 66),
        Quantisation(39, "MXFP4", 32, 17),
        Quantisation(40, "NVFP4", 64, 36),
        Quantisation(41, "Q1_0", 128, 18),
    )
}


def _open(blob: Blob) -> list[Found]:
    header = read_header(blob)
    counts = Counter(entry.name for entry in header.entries)
    decoder = cache(_decoder)
    found = [_tensor(blob, entry, header.order, decoder) for entry in header.entries if counts[entry.name] == 1]
    twins = [name for name, count in counts.items() if count > 1]
    return found + [Found(name, ReadError(f"is in the file {counts[name]} times")) for name in twins]


def _tensor(blob: Blob, entry: Entry, order: ByteOrder, decoder: Callable[[Quantisation], Decode]) -> Found:
    quantisation = _QUANTISED.get(entry.kind)
    attrs: dict[str, Any] = {} if quantisation is None else {"quantisation": quantisation.name}
    try:
        if quantisation is None:
            return Found(entry.name, _plain(blob, entry, order), attrs)
        return Found(entry.name, _quantised(blob, entry, order, quantisation, decoder), attrs)
    except ReadError as error:
        return Found(entry.name, error, attrs)


def _plain(blob: Blob, entry: Entry, order: ByteOrder) -> Source:
    name = _PLAIN.get(entry.kind)
    if name is None:
        raise ReadError(f"has ggml's type {entry.kind}, which cannot be compared")
    dtype = dtypes.from_name(name)
    if dtypes.is_extended(dtype) and order == ">":
        # numpy cannot name a bfloat16 of the other byte order
        return DecodedSource(blob, entry.shape, dtype, _swapped_bfloat16, offset=entry.offset, unit=2)
    return MappedSource(blob, dtype.newbyteorder(order), entry.shape, offset=entry.offset)


def _swapped_bfloat16(packed: np.ndarray) -> np.ndarray:
    return packed.view(">u2").astype(np.uint16).view(dtypes.from_name("bfloat16"))


def _quantised(
    blob: Blob, entry: Entry, order: ByteOrder, kind: Quantisation, decoder: Callable[[Quantisation], Decode]
) -> Source:
    if not entry.shape or entry.shape[-1] % kind.values:
        raise ReadError(f"has shape {list(entry.shape)}, whose rows are no whole {kind.name} blocks of {kind.values}")
    if order == ">":
        raise ReadError(f"is quantised as {kind.name} in big-endian order; convert it with gguf-convert-endian first")
    float32 = np.dtype(np.float32)
    decode = decoder(kind)
    return DecodedSource(blob, entry.shape, float32, decode, offset=entry.offset, unit=kind.unit, values=kind.values)


def _decoder(kind: Quantisation) -> Decode:
    """Tried on one empty block, so that a type the package cannot decode is known before anything is read."""
    try:
        from gguf.constants import GGMLQuantizationType
        from gguf.quants import dequantize
    except ImportError as error:
        needs = "which needs the gguf package: pip install 'firstdiff[gguf]'"
        raise ReadError(f"is quantised as {kind.name}, {needs}") from error

    def decode(packed: np.ndarray) -> np.ndarray:
        # damaged scales overflow; the infinities they give are the values
        with np.errstate(all="ignore"):
            values: np.ndarray = dequantize(packed.reshape(1, -1), GGMLQuantizationType(kind.kind))
        return values

    try:
        decode(np.zeros((1, kind.unit), np.uint8))
    except (NotImplementedError, ValueError, KeyError) as error:
        raise ReadError(f"is quantised as {kind.name}, which the installed gguf package cannot decode") from error
    return decode


def _sniff(blob: Blob) -> bool:
    return blob.head(4) == MAGIC


FORMAT = Format("gguf", (".gguf",), _sniff, _open)
