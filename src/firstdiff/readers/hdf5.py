"""Read HDF5 files: every dataset under its path, with dots for slashes.

Contiguous datasets of a numpy dtype are mapped, the others read through h5py. Soft links are skipped, since their
targets are listed under their own paths; datasets kept in other files are refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from math import prod
from typing import Any, Literal

import numpy as np

from firstdiff import dtypes
from firstdiff.errors import ReadError, RefusedError
from firstdiff.readers.blob import Blob
from firstdiff.readers.format import Format, Found
from firstdiff.readers.hdf5_dataset import FAULTS, DatasetSource, opened, reason
from firstdiff.readers.mapped import MappedSource, check_possible
from firstdiff.readers.unpack import refuse_bomb
from firstdiff.settings import Limits
from firstdiff.trace import Source

_MAGIC = b"\x89HDF\r\n\x1a\n"
_STARTS = (0, 512, 1024, 2048)
_CHECKSUM = 4


def _open(blob: Blob) -> list[Found]:
    with opened(blob) as file:
        listed = [(path, _source(blob, path, item)) for path, item in _items(file)]
    counts = Counter(_dotted(path) for path, _ in listed)
    # a dataset `a.b` beside a group `a` with a `b`: both keep their slashes
    names = [_dotted(path) if counts[_dotted(path)] == 1 else _text(path) for path, _ in listed]
    return [Found(name, source) for name, (_, source) in zip(names, listed, strict=True)]


def _items(file: Any) -> Iterator[tuple[bytes, Any]]:
    """Every dataset once, or an error in its place, in the order of the file; no group is entered twice."""
    import h5py

    seen = {h5py.h5o.get_info(file.id).addr}
    waiting = _links(file, b"")
    while waiting:
        path, group, name = waiting.pop()
        try:
            link = group.get(name, getlink=True)
            if isinstance(link, h5py.ExternalLink):
                yield path, RefusedError(f"is a link into another file ({link.filename}), which is not opened")
            if not isinstance(link, h5py.HardLink):
                continue
            item = group[name]
            address = h5py.h5o.get_info(item.id).addr
            if address in seen:
                continue
            seen.add(address)
            if isinstance(item, h5py.Group):
                waiting += _links(item, path)
            elif isinstance(item, h5py.Dataset):
                yield path, item
        except FAULTS as error:
            yield path, ReadError(f"is damaged ({reason(error)})")


def _links(group: Any, path: bytes) -> list[tuple[bytes, Any, bytes]]:
    """Return (path, group, name) of each member in reverse order, for use as a stack."""
    # h5py gives names that are not UTF-8 as bytes
    names = [name if isinstance(name, bytes) else name.encode("utf-8") for name in group]
    return [(path + b"/" + name, group, name) for name in reversed(names)]


def _text(path: bytes) -> str:
    return path.strip(b"/").decode("utf-8", "backslashreplace")


def _dotted(path: bytes) -> str:
    return _text(path).replace("/", ".")


def _source(blob: Blob, path: bytes, item: Any) -> Source | ReadError:
    try:
        return item if isinstance(item, ReadError) else _values(blob, path, item)
    except ReadError as error:
        return error
    except FAULTS as error:
        return ReadError(f"is damaged ({reason(error)})")


def _values(blob: Blob, path: bytes, dataset: Any) -> Source:
    layout = _layout(dataset)
    shape, stored = dataset.shape, _number_type(dataset)
    if shape is None:
        raise ReadError("is a dataset without values (a null dataspace)")
    check_possible(shape, stored.itemsize)
    offset = _plain_offset(dataset, shape, stored) if layout == "contiguous" else None
    if offset is not None:
        return MappedSource(blob, stored, shape, offset=offset)
    _refuse_filters(dataset)
    if dataset.fletcher32:
        _check_chunks(dataset)
    refuse_bomb(prod(shape) * stored.itemsize, blob.size, Limits.from_environment())
    band = dataset.chunks[0] if layout == "chunked" else None
    return DatasetSource(blob, path, shape, stored.newbyteorder("="), band)


def _layout(dataset: Any) -> Literal["contiguous", "chunked", "compact"]:
    """Return the storage layout of a dataset; RefusedError if its values are in another file."""
    from h5py import h5d

    creation = dataset.id.get_create_plist()
    layout = creation.get_layout()
    if layout == h5d.VIRTUAL:
        raise RefusedError("is a virtual dataset, put together from other files, which are not opened")
    if creation.get_external_count():
        other = creation.get_external(0)[0].decode("utf-8", "backslashreplace")
        raise RefusedError(f"keeps its values in another file ({other}), which is not opened")
    if layout == h5d.CONTIGUOUS:
        return "contiguous"
    return "chunked" if layout == h5d.CHUNKED else "compact"


def _refuse_filters(dataset: Any) -> None:
    """Only filters that survive damage: the library crashes on bad parameters of the others."""
    from h5py import h5z

    known = {h5z.FILTER_DEFLATE, h5z.FILTER_SHUFFLE, h5z.FILTER_FLETCHER32, h5z.FILTER_LZF}
    creation = dataset.id.get_create_plist()
    for place in range(creation.get_nfilters()):
        number, _, _, name = creation.get_filter(place)
        if number not in known:
            said = name.decode("utf-8", "backslashreplace") or f"number {number}"
            raise RefusedError(f"is packed by the filter {said!s:.40}; repack it with gzip (h5repack -f GZIP=4)")


def _check_chunks(dataset: Any) -> None:
    """The library reads out of bounds, and crashes, where a chunk is shorter than its checksum."""
    sizes: list[int] = []
    dataset.id.chunk_iter(lambda chunk: sizes.append(chunk.size))
    if min(sizes, default=_CHECKSUM) < _CHECKSUM:
        raise ReadError("is damaged (a chunk is shorter than its checksum)")


def _number_type(dataset: Any) -> np.dtype:
    """The element type, byte order included; names of an enumeration are let go, its numbers stay."""
    try:
        dtype: np.dtype = dataset.dtype
    except TypeError as error:
        raise ReadError(f"has elements of a type of its own, which cannot be compared ({reason(error)})") from error
    if dtype.names is not None:
        raise ReadError(f"has records of {', '.join(dtype.names)!s:.80} as elements; save each as a dataset of its own")
    if dtype.kind in "OSU":
        raise ReadError(f"holds {_what_varies(dtype)}, which cannot be compared")
    if not dtypes.is_supported(dtype) or dtype.subdtype is not None:
        raise ReadError(f"has elements of type {dtype}, which cannot be compared")
    return np.dtype(dtype.str)


def _what_varies(dtype: np.dtype) -> str:
    import h5py

    if h5py.check_string_dtype(dtype) is not None:
        return "text"
    return "references to other datasets" if h5py.check_ref_dtype(dtype) else "lists of varying length"


def _plain_offset(dataset: Any, shape: tuple[int, ...], stored: np.dtype) -> int | None:
    """Return the file offset of the values if they are written and stored as numpy would store them."""
    from h5py import h5t

    written = dataset.id.get_storage_size() == prod(shape) * stored.itemsize > 0
    if written and dataset.id.get_type().equal(h5t.py_create(stored)):
        offset: int | None = dataset.id.get_offset()
        return offset
    return None


def _sniff(blob: Blob) -> bool:
    start = blob.head(_STARTS[-1] + len(_MAGIC))
    return any(start.startswith(_MAGIC, first) for first in _STARTS)


FORMAT = Format("hdf5", (".h5", ".hdf5"), _sniff, _open)
