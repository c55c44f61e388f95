"""Tensors computed elementwise from other tensors as they are read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import numpy as np

from firstdiff.trace import Index, Source


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
