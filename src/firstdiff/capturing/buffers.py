"""Memory for copies, used again once they are written: touching fresh memory takes several times the copying."""

from __future__ import annotations

from threading import Lock
from typing import final

import numpy as np

_KEPT_BYTES = 64 << 20
_SMALL = 64 << 10  # below, an allocator has memory at hand anyway


@final
class Buffers:
    """Copies arrays into memory that came back from earlier copies of that size. Safe to use from several threads.

    kept_bytes: how much memory is held for the next copies
    """

    def __init__(self, kept_bytes: int = _KEPT_BYTES) -> None:
        self._most = kept_bytes
        self._kept = 0
        self._free: dict[int, list[np.ndarray]] = {}
        self._lent: dict[int, np.ndarray] = {}
        self._lock = Lock()

    def copy(self, array: np.ndarray) -> np.ndarray:
        """The values in C order, in memory of their own."""
        if array.nbytes < _SMALL:
            return np.array(array, order="C")
        memory = self._take(array.nbytes)
        copied = memory.view(array.dtype).reshape(array.shape)
        np.copyto(copied, array)
        return copied

    def give_back(self, copied: np.ndarray) -> None:
        """Nobody needs this copy any more; arrays that are none of ours are left alone."""
        with self._lock:
            memory = self._lent.pop(id(copied.base), None)
            if memory is None:
                return
            if self._kept + memory.nbytes > self._most:  # sizes that no longer come make room
                self._free.clear()
                self._kept = 0
            if memory.nbytes <= self._most:
                self._free.setdefault(memory.nbytes, []).append(memory)
                self._kept += memory.nbytes

    def _take(self, nbytes: int) -> np.ndarray:
        with self._lock:
            free = self._free.get(nbytes)
            if free:
                memory = free.pop()
                self._kept -= nbytes
            else:
                memory = np.empty(nbytes, np.uint8)
            self._lent[id(memory)] = memory
            return memory
