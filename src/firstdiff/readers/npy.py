"""Read .npy files and .npz archives of them."""

from __future__ import annotations

import ast
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from firstdiff import dtypes
from firstdiff.errors import ReadError
from firstdiff.readers.archive import archive_kind, open_archive
from firstdiff.readers.blob import Blob
from firstdiff.readers.format import Format, Found
from firstdiff.readers.sources import MappedSource

_MAGIC = b"\x93NUMPY"
_MAX_HEADER = 1 << 16


class NpyHeader(NamedTuple):
    dtype: np.dtype
    shape: tuple[int, ...]
    fortran_order: bool
    offset: int


def read_header(blob: Blob) -> NpyHeader:
    """Parse the header; ReadError says what is wrong with it."""
    start = blob.head(4096)
    if not start.startswith(_MAGIC):
        raise ReadError("does not start as a .npy file does")
    wide = start[6:7] > b"\x01"
    first = 12 if wide else 10
    length = int.from_bytes(start[8:first], "little")
    if length > _MAX_HEADER:
        raise ReadError(f"claims a header of {length:,} bytes")
    if first + length > len(start):
        start = blob.head(first + length)
    if len(start) < first + length:
        raise ReadError("ends inside its header")
    return _parse(start[first : first + length], first + length)


def open_array(blob: Blob, header: NpyHeader, dtype: np.dtype | None = None) -> MappedSource:
    """The values; `dtype` is the true type of raw bits (a trace's bf16 and fp8)."""
    stored = header.dtype if dtype is None else dtype
    strides = _fortran(header.shape, stored.itemsize) if header.fortran_order else None
    return MappedSource(blob, stored, header.shape, offset=header.offset, strides=strides)


@lru_cache(maxsize=1024)  # thousands of files share a few shapes
def _parse(text: bytes, offset: int) -> NpyHeader:
    try:
        fields = ast.literal_eval(text.decode("utf-8"))
        shape, order = fields["shape"], fields["fortran_order"]
        dtype = np.dtype(fields["descr"])
    except (ValueError, SyntaxError, TypeError, KeyError, RecursionError, MemoryError) as error:
        raise ReadError("has a header that is not numpy's") from error
    if not (isinstance(shape, tuple) and all(type(n) is int and n >= 0 for n in shape)):
        raise ReadError(f"has the shape {shape!r} in its header")
    if dtype.hasobject:
        raise ReadError("holds Python objects, which reading would have to run; save plain numbers")
    if not dtypes.is_supported(dtype):
        raise ReadError(f"has elements of type {dtype}, which cannot be compared")
    return NpyHeader(dtype, shape, bool(order), offset)


def _fortran(shape: tuple[int, ...], width: int) -> tuple[int, ...]:
    strides = [width]
    for n in shape[:-1]:
        strides.append(strides[-1] * n)
    return tuple(strides[: len(shape)])


def _is_npy(blob: Blob) -> bool:
    return blob.head(6) == _MAGIC


def _open_npy(blob: Blob) -> list[Found]:
    return [Found("", open_array(blob, read_header(blob)))]


NPY = Format("npy", (".npy",), _is_npy, _open_npy)


def _open_npz(blob: Blob) -> list[Found]:
    tree = open_archive(blob, "zip")
    found = [_open_member(member) for member in tree.blobs]
    return found + [Found(refusal.name.removesuffix(".npy"), refusal.error) for refusal in tree.refusals]


def _open_member(blob: Blob) -> Found:
    name = blob.name.removesuffix(".npy")
    try:
        return Found(name, open_array(blob, read_header(blob)))
    except ReadError as error:
        return Found(name, error.named(blob.label))


def _is_npz(blob: Blob) -> bool:
    return blob.suffix == ".npz" and archive_kind(blob) == "zip"


NPZ = Format("npz", (".npz",), _is_npz, _open_npz)
