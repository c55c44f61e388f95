"""HDF5 files: groups, datasets and their chunks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from math import prod
from typing import Any, Literal, final

import numpy as np

from firstdiff import dtypes
from firstdiff.errors import ReadError, RefusedError
from firstdiff.readers.blob import Blob, ExtentFile
from firstdiff.readers.format import Format, Found
from firstdiff.readers.sources import MappedSource, as_asked, check_possible, forward, plain_axes
from firstdiff.readers.unpack import refuse_bomb
from firstdiff.settings import Limits
from firstdiff.trace import Index, Source

Box = tuple[slice, ...]
_MAX_BAND = 16 << 20

# what h5py was seen to raise for damaged files, and their kin
FAULTS = (OSError, RuntimeError, LookupError, ValueError, TypeError, ArithmeticError, MemoryError)


@contextmanager
def opened(blob: Blob) -> Iterator[Any]:
    """The h5py.File of a blob; whatever the library has to say becomes a ReadError.

    The library is given a file object, not a path: it sees no other file, and takes no lock.
    """
    try:
        import h5py
    except ImportError as error:
        raise ReadError("is HDF5, which needs h5py: pip install 'firstdiff[hdf5]'", blob.label) from error
    try:
        with ExtentFile(blob.extent()) as file, h5py.File(file, "r") as content:
            yield content
    except ReadError as error:
        raise error.named(blob.label) from error
    except FAULTS as error:
        raise ReadError(f"is damaged, or not HDF5 ({reason(error)})", blob.label) from error


def reason(error: Exception) -> str:
    """Return an h5py error message on one line."""
    return " ".join(str(error).split()).strip("'\"") or type(error).__name__


@final
class DatasetSource(Source):
    """One dataset; a slice or a window of it touches only the chunks that hold it.

    chunk_rows: how many rows of the first axis a chunk holds, None where there are no chunks
    """

    def __init__(
        self, blob: Blob, path: bytes, shape: tuple[int, ...], dtype: np.dtype, chunk_rows: int | None = None
    ) -> None:
        self._blob = blob
        self._path = path
        self.shape = shape
        self.dtype = dtype
        most = max(_MAX_BAND // dtype.itemsize, 1)
        self._band = min(max(chunk_rows * prod(shape[1:]), 1), most) if chunk_rows else None

    def stamp(self) -> object:
        return self._blob.stamp()

    def view(self) -> np.ndarray:
        return self._boxes([tuple(slice(0, n) for n in self.shape)]).reshape(self.shape)

    def read(self, index: Index = ...) -> np.ndarray:
        axes = plain_axes(index, self.shape)
        if axes is None:
            return super().read(index)
        box = tuple(forward(axis) for axis in axes)
        shape = tuple(len(range(part.start, part.stop, part.step or 1)) for part in box)
        return np.array(self._boxes([box]).reshape(shape)[tuple(as_asked(axis) for axis in axes)])

    def window(self, start: int, stop: int) -> np.ndarray:
        stop = min(stop, self.size)
        if self._band is None:
            return self.run(start, stop)
        parts = [np.empty(0, self.dtype)]
        stamp = self.stamp()
        while start < stop:
            number, skipped = divmod(start, self._band)
            whole = (stop - start) // self._band * self._band
            if whole and not skipped:
                parts.append(self.run(start, start + whole))
            else:
                parts.append(_band(self, number, stamp)[skipped : skipped + stop - start])
            start += len(parts[-1])
        return parts[1] if len(parts) == 2 else np.concatenate(parts)

    def band(self, number: int) -> np.ndarray:
        """One of the equal runs of values that whole rows of chunks hold."""
        width = self._band or self.size
        return self.run(number * width, min((number + 1) * width, self.size))

    def run(self, start: int, stop: int) -> np.ndarray:
        """Elements `start` to `stop`, read from the file."""
        return self._boxes(list(boxes(self.shape, start, stop)))

    def _boxes(self, wanted: list[Box]) -> np.ndarray:
        """The values of some boxes, one after the other, 1-d."""
        with opened(self._blob) as file:
            dataset = file[self._path]
            if dataset.shape != self.shape:
                name = self._path.decode("utf-8", "backslashreplace")
                raise ReadError(f"has changed: {name} has another shape now")
            parts = [np.asarray(dataset[box]).astype(self.dtype, copy=False).reshape(-1) for box in wanted]
        return parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, self.dtype), *parts])


@lru_cache(maxsize=4)
def _band(source: DatasetSource, number: int, _stamp: object) -> np.ndarray:
    """Kept until the file changes: small windows, one after the other, would each unpack the same chunks again."""
    values = source.band(number)
    values.setflags(write=False)
    return values


def boxes(shape: tuple[int, ...], start: int, stop: int) -> Iterator[Box]:
    """Elements `start` to `stop` in C order as few boxes: the end of a row, whole rows, the beginning of a row."""
    if start >= stop:
        return
    if not shape:
        yield ()
        return
    row = prod(shape[1:])
    first, last = start // row, (stop - 1) // row
    if first == last:
        yield from _within(first, shape, start - first * row, stop - first * row)
        return
    if start % row:
        yield from _within(first, shape, start % row, row)
        first += 1
    if first < stop // row:
        yield (slice(first, stop // row), *(slice(0, n) for n in shape[1:]))
    if stop % row:
        yield from _within(last, shape, 0, stop % row)


def _within(row: int, shape: tuple[int, ...], start: int, stop: int) -> Iterator[Box]:
    for box in boxes(shape[1:], start, stop):
        yield (slice(row, row + 1), *box)


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
