"""Read HDF5 datasets that need h5py: chunked, compressed, or of a type numpy cannot map.

The file is opened for each access and closed after it. Thousands of open files would be too many, and a file that
stayed open could be neither rewritten by the same process nor, on Windows, deleted.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from math import prod
from typing import Any, final

import numpy as np

from firstdiff.errors import ReadError
from firstdiff.readers.blob import Blob, ExtentFile
from firstdiff.readers.indexing import as_asked, forward, plain_axes
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
