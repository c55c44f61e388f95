"""Tensors that a recipe makes, read lazily from their sources."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from types import EllipsisType

import numpy as np

from firstdiff import dtypes
from firstdiff.trace import Index, Source


class Lazy(Source):
    """A source whose elements can be taken one by one, in any order."""

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype) -> None:
        self.shape = shape
        self.dtype = dtype
        self._origins: tuple[Source, ...] = ()

    def made_of(self, sources: Sequence[Source]) -> Lazy:
        """Remember where the values come from, to notice when those change."""
        self._origins = tuple(sources)
        return self

    def stamp(self) -> object:
        return tuple(source.stamp() for source in self._origins) or None

    @abstractmethod
    def take(self, flat: np.ndarray) -> np.ndarray:
        """The elements at these positions of the C order, in the shape of `flat`."""

    def window(self, start: int, stop: int) -> np.ndarray:
        return self.take(np.arange(start, max(start, stop)))

    def view(self) -> np.ndarray:
        return self.window(0, self.size).reshape(self.shape)

    def read(self, index: Index = ...) -> np.ndarray:
        lines = basic_index(index, self.shape)
        if lines is None:
            return super().read(index)
        return self.take(_positions(lines, self.shape))


def basic_index(index: Index, shape: tuple[int, ...]) -> list[np.ndarray] | None:
    """The positions an index of integers, slices and `...` picks along each axis (0-d where it drops the axis)."""
    parts = list(index) if isinstance(index, tuple) else [index]
    if not all(isinstance(part, int | np.integer | slice | EllipsisType) for part in parts):
        return None
    missing = len(shape) - sum(part is not Ellipsis for part in parts)
    if parts.count(Ellipsis) > 1 or missing < 0:
        return None
    at = parts.index(Ellipsis) if Ellipsis in parts else len(parts)
    parts[at : at + 1] = [slice(None)] * missing
    return [np.asarray(np.arange(length)[part]) for part, length in zip(parts, shape, strict=True)]


def _positions(lines: Sequence[np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    flat = np.zeros((), np.int64)
    for line, length in zip(lines, shape, strict=True):
        flat = flat[..., *(np.newaxis,) * line.ndim] * length + line
    return flat


def common_dtype(parts: Sequence[np.dtype]) -> np.dtype:
    """The type that holds the values of all; float32 where numpy knows none, as for bf16 and fp16."""
    if all(part == parts[0] for part in parts):
        return parts[0]
    try:
        found = np.result_type(*parts)
    except TypeError:
        return np.dtype(np.float32)
    return found if dtypes.is_supported(found) else np.dtype(np.float32)
