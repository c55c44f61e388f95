"""Tensors stored uncompressed in a file, read through a memory map."""

from __future__ import annotations

from math import prod
from typing import final

import numpy as np

from firstdiff.errors import ReadError
from firstdiff.readers.blob import Blob
from firstdiff.trace import Source

_MAX_DIMS = 32


@final
class MappedSource(Source):
    """An array of `stored` elements at `offset` bytes into a blob.

    stored: the dtype on disk, byte order included
    strides: in bytes; C order if left out
    """

    def __init__(
        self,
        blob: Blob,
        stored: np.dtype,
        shape: tuple[int, ...],
        *,
        offset: int = 0,
        strides: tuple[int, ...] | None = None,
    ) -> None:
        self._blob = blob
        self._stored = stored
        self._offset = offset
        self._strides = strides
        self.shape = shape
        self.dtype = stored.newbyteorder("=")
        needed = self._span()
        if offset + needed > blob.size:
            raise ReadError(
                f"shape {list(shape)} of {self.dtype.name} needs {needed:,} bytes from byte {offset:,} on, "
                f"but only {max(blob.size - offset, 0):,} are there; was the file cut off?"
            )
        check_possible(shape, stored.itemsize)

    def moved_to(self, blob: Blob) -> MappedSource:
        """The same layout over other bytes, as many as these."""
        moved = MappedSource.__new__(MappedSource)
        moved.__dict__.update(self.__dict__, _blob=blob)
        return moved

    def view(self) -> np.ndarray:
        try:
            data = self._blob.map(self._offset, self._span())
        except ReadError as error:
            raise error.named(self._blob.label) from error
        if self._strides is None:
            return np.frombuffer(data, self._stored).reshape(self.shape)
        return np.ndarray(self.shape, self._stored, data, 0, self._strides)

    def stamp(self) -> object:
        return self._blob.stamp()

    def window(self, start: int, stop: int) -> np.ndarray:
        if self._strides is not None:
            return super().window(start, stop)
        width = self._stored.itemsize
        try:
            data = self._blob.map(self._offset + start * width, (stop - start) * width)
        except ReadError as error:
            raise error.named(self._blob.label) from error
        return np.frombuffer(data, self._stored).astype(self.dtype, copy=False)

    def _span(self) -> int:
        """Bytes from the first element to the end of the last."""
        if prod(self.shape) == 0:
            return 0
        if self._strides is None:
            return prod(self.shape) * self._stored.itemsize
        reach = sum((n - 1) * step for n, step in zip(self.shape, self._strides, strict=True))
        return reach + self._stored.itemsize


def check_possible(shape: tuple[int, ...], width: int) -> None:
    """An empty tensor needs no bytes, and can still have a shape that numpy takes for too large."""
    if len(shape) > _MAX_DIMS or prod(max(n, 1) for n in shape) * width >= 1 << 63:
        raise ReadError(f"has the shape {list(shape)!s:.80}, which no array can have")
