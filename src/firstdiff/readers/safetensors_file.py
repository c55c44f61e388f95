"""Read safetensors files: a JSON header with the offsets of the tensors, then their bytes.

Tensors come in the order of their data, as they were written; a header may list them in any order.
"""

from __future__ import annotations

import json
from math import prod
from typing import Any, NamedTuple

import numpy as np

from firstdiff import dtypes
from firstdiff.errors import ReadError
from firstdiff.readers.blob import Blob
from firstdiff.readers.format import Format, Found
from firstdiff.readers.sources import MappedSource
from firstdiff.trace import Source

_PREFIX = 8
_MAX_HEADER = 100_000_000
_MAX_DIMS = 32

_DTYPES: dict[str, np.dtype] = {
    code: dtypes.from_name(name)
    for code, name in {
        "BOOL": "bool",
        "U8": "uint8",
        "I8": "int8",
        "U16": "uint16",
        "I16": "int16",
        "U32": "uint32",
        "I32": "int32",
        "U64": "uint64",
        "I64": "int64",
        "F16": "float16",
        "BF16": "bfloat16",
        "F32": "float32",
        "F64": "float64",
        "C64": "complex64",
        "F8_E4M3": "float8_e4m3fn",
        "F8_E5M2": "float8_e5m2",
        "F8_E8M0": "float8_e8m0fnu",
        "F8_E4M3FNUZ": "float8_e4m3fnuz",
        "F8_E5M2FNUZ": "float8_e5m2fnuz",
    }.items()
}
_PACKED = {"F4", "F6_E2M3", "F6_E3M2"}


class _Place(NamedTuple):
    """The byte range of a tensor, counted from the end of the header."""

    start: int
    stop: int
    name: str
    info: dict[str, Any]


def _open(blob: Blob) -> list[Found]:
    header, first = _read_header(blob)
    placed: list[_Place] = []
    lost: list[Found] = []
    for name, info in header.items():
        try:
            placed.append(_place(name, info))
        except ReadError as error:
            lost.append(Found(name, error))
    placed.sort(key=lambda place: (place.start, place.stop))
    _check_cover(placed, blob.size - first, complete=not lost)
    return [_tensor(blob, first, place) for place in placed] + lost


def _read_header(blob: Blob) -> tuple[dict[str, Any], int]:
    """The entries, and where the data begins."""
    prefix = blob.head(_PREFIX)
    if len(prefix) < _PREFIX:
        raise ReadError(f"is only {len(prefix)} bytes long, too short for a safetensors file")
    length = int.from_bytes(prefix, "little")
    if length > _MAX_HEADER:
        raise ReadError(f"claims a header of {length:,} bytes, more than the {_MAX_HEADER:,} safetensors allows")
    if _PREFIX + length > blob.size:
        raise ReadError(f"ends inside its header of {length:,} bytes; was it cut off?")
    try:
        text = blob.head(_PREFIX + length)[_PREFIX:].decode("utf-8")
        header = json.loads(text, object_pairs_hook=_without_twins, parse_constant=_no_constant)
        "".join(header).encode("utf-8")
    except (ValueError, TypeError, RecursionError) as error:
        raise ReadError("has a header that is not the JSON of a safetensors file") from error
    if not isinstance(header, dict):
        raise ReadError("has a header that is not the JSON of a safetensors file")
    header.pop("__metadata__", None)
    return header, _PREFIX + length


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        twin = next(name for name in fields if names.count(name) > 1)
        raise ReadError(f"names {twin!r:.80} twice in its header, so it is not clear which one counts")
    return fields


def _no_constant(text: str) -> None:
    raise ValueError(text)


def _place(name: str, info: Any) -> _Place:
    if not isinstance(info, dict) or not {"dtype", "shape", "data_offsets"} <= info.keys():
        raise ReadError("has an entry without dtype, shape and data_offsets in the header")
    offsets = info["data_offsets"]
    if not (_are_sizes(offsets) and len(offsets) == 2 and offsets[0] <= offsets[1]):
        raise ReadError(f"has the data_offsets {offsets!r:.80} in the header")
    return _Place(offsets[0], offsets[1], name, info)


def _are_sizes(values: Any) -> bool:
    return isinstance(values, list) and all(type(n) is int and 0 <= n < 1 << 63 for n in values)


def _check_cover(placed: list[_Place], available: int, *, complete: bool) -> None:
    """Tensors lie end to end: the safetensors library refuses overlaps, gaps and leftovers alike."""
    end, previous = 0, ""
    for place in placed:
        if place.start < end:
            raise ReadError(f"has tensors {previous!r:.80} and {place.name!r:.80} overlap, so neither can be trusted")
        if complete and place.start > end:
            raise ReadError(f"has {place.start - end:,} bytes before {place.name!r:.80} that belong to no tensor")
        end, previous = place.stop, place.name
    if complete and available > end:
        raise ReadError(f"has {available - end:,} bytes after its last tensor that belong to none")


def _tensor(blob: Blob, first: int, place: _Place) -> Found:
    try:
        return Found(place.name, _source(blob, first, place))
    except ReadError as error:
        return Found(place.name, error)


def _source(blob: Blob, first: int, place: _Place) -> Source:
    code, shape = place.info["dtype"], place.info["shape"]
    if not (_are_sizes(shape) and len(shape) <= _MAX_DIMS):
        raise ReadError(f"has the shape {shape!r:.80} in the header")
    if isinstance(code, str) and code in _PACKED:
        raise ReadError(f"is packed as {code}, several values to a byte, which cannot be compared; convert it to F32")
    dtype = _DTYPES.get(code) if isinstance(code, str) else None
    if dtype is None:
        raise ReadError(f"has elements of type {code!r:.80}, which cannot be compared")
    needed, held = prod(shape) * dtype.itemsize, place.stop - place.start
    if needed != held:
        raise ReadError(f"has shape {shape} of {dtype.name}, {needed:,} bytes, but the header gives it {held:,}")
    return MappedSource(blob, dtype.newbyteorder("<"), tuple(shape), offset=first + place.start)


def _sniff(blob: Blob) -> bool:
    start = blob.head(_PREFIX + 1)
    return start[_PREFIX:] == b"{" and int.from_bytes(start[:_PREFIX], "little") <= _MAX_HEADER


FORMAT = Format("safetensors", (".safetensors",), _sniff, _open)
