"""Tensors decoded as they are read: packed audio samples, quantised blocks."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import final

import numpy as np

from firstdiff.errors import ReadError
from firstdiff.readers.blob import Blob
from firstdiff.readers.indexing import as_asked, forward, plain_axes
from firstdiff.readers.mapped import MappedSource, check_possible
from firstdiff.trace import Index, Source

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
