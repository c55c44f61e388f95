"""Sources of tensor values: mapped files, decoded blocks, derived values, indexing."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, final

import numpy as np

from firstdiff.errors import ReadError
from firstdiff.readers.blob import Blob
from firstdiff.trace import Index, Source

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


@final
class DerivedSource(Source):
    """`derive` applied to what is read of another source; nothing is computed before."""

    def __init__(self, source: Source, dtype: np.dtype, derive: Callable[[Any], np.ndarray]) -> None:
        self._source = source
        self._derive = derive
        self.shape = source.shape
        self.dtype = dtype

    def view(self) -> np.ndarray:
        return self._derive(self._source.view())

    def stamp(self) -> object:
        return self._source.stamp()

    def read(self, index: Index = ...) -> np.ndarray:
        return np.array(self._derive(np.asarray(self._source.view()[index])), dtype=self.dtype)

    def window(self, start: int, stop: int) -> np.ndarray:
        return self._derive(self._source.window(start, stop))


Axes = tuple[int | range, ...]


def plain_axes(index: Index, shape: tuple[int, ...]) -> Axes | None:
    """One position or range for each axis; None where numpy does more than cut (arrays, masks, new axes).

    Raises IndexError as numpy would.
    """
    parts = index if isinstance(index, tuple) else (index,)
    if not all(_is_plain(part) for part in parts):
        return None
    gaps = sum(part is ... for part in parts)
    missing = len(shape) - (len(parts) - gaps)
    if missing < 0 or gaps > 1:
        raise IndexError(f"{index!r} does not fit a tensor of {len(shape)} dimensions")
    at = next((k for k, part in enumerate(parts) if part is ...), len(parts))
    filled = (*parts[:at], *[slice(None)] * missing, *parts[at + 1 :])
    return tuple(_positions(part, n) for part, n in zip(filled, shape, strict=True))


def forward(axis: int | range) -> slice:
    """The positions of an axis in rising order, which is the only one some libraries take."""
    if isinstance(axis, int):
        return slice(axis, axis + 1)
    if not axis:
        return slice(0, 0)
    return slice(min(axis[0], axis[-1]), max(axis[0], axis[-1]) + 1, abs(axis.step))


def as_asked(axis: int | range) -> int | slice:
    """Return the index that turns an axis read by `forward` into the requested one."""
    return 0 if isinstance(axis, int) else slice(None, None, 1 if axis.step > 0 else -1)


def _is_plain(part: object) -> bool:
    # numpy takes True and False for masks, though they are ints
    return part is ... or (isinstance(part, slice | int | np.integer) and not isinstance(part, bool))


def _positions(part: Any, n: int) -> int | range:
    positions: int | range = range(n)[part]
    return positions


Decode = Callable[[np.ndarray], np.ndarray]

_PIECE = 1 << 18  # values decoded at once: what a decoder allocates on the way stays small


@final
class DecodedSource(Source):
    """Values in units of a few bytes along the last axis; only the units that hold what is asked for are decoded.

    decode: [n, unit] bytes to n * values numbers of `dtype`
    unit: bytes in one unit
    values: numbers in one unit; the last axis is a multiple of it
    """

    def __init__(
        self,
        blob: Blob,
        shape: tuple[int, ...],
        dtype: np.dtype,
        decode: Decode,
        *,
        offset: int,
        unit: int,
        values: int = 1,
    ) -> None:
        needed = prod(shape) // values * unit
        if offset + needed > blob.size:
            raise ReadError(
                f"shape {list(shape)} needs {needed:,} bytes from byte {offset:,} on, "
                f"but only {max(blob.size - offset, 0):,} are there; was the file cut off?"
            )
        check_possible(shape, dtype.itemsize)
        packed = (*shape[:-1], prod(shape[-1:]) // values, unit)
        self._packed = MappedSource(blob, np.dtype(np.uint8), packed, offset=offset)
        self._decode = decode
        self._unit = unit
        self._values = values
        self.shape = shape
        self.dtype = dtype

    def stamp(self) -> object:
        return self._packed.stamp()

    def view(self) -> np.ndarray:
        return self.window(0, self.size).reshape(self.shape)

    def read(self, index: Index = ...) -> np.ndarray:
        axes = plain_axes(index, self.shape)
        if not axes:
            return super().read(index)
        cut = self._cut(tuple(forward(axis) for axis in axes))
        return np.array(cut[tuple(as_asked(axis) for axis in axes)])

    def window(self, start: int, stop: int) -> np.ndarray:
        if start >= stop:
            return np.empty(0, self.dtype)
        first, last = start // self._values, -(-stop // self._values)
        packed = self._packed.window(first * self._unit, last * self._unit)
        return self._decoded(packed.reshape(-1, self._unit))[start - first * self._values : stop - first * self._values]

    def _cut(self, slices: tuple[slice, ...]) -> np.ndarray:
        *rows, last = slices
        width = self._values
        units = slice(last.start // width, -(-last.stop // width), last.step if width == 1 else None)
        packed = self._packed.view()[(*rows, units)]
        decoded = self._decoded(np.ascontiguousarray(packed).reshape(-1, self._unit))
        decoded = decoded.reshape(*packed.shape[:-2], packed.shape[-2] * width)
        if width == 1:
            return decoded
        return decoded[..., last.start - units.start * width : last.stop - units.start * width : last.step]

    def _decoded(self, packed: np.ndarray) -> np.ndarray:
        out = np.empty(len(packed) * self._values, self.dtype)
        step = max(_PIECE // self._values, 1)
        for first in range(0, len(packed), step):
            piece = packed[first : first + step]
            at = first * self._values
            out[at : at + len(piece) * self._values] = self._decode(piece).reshape(-1)
        return out
