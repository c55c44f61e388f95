"""Reuse the memory of large arrays: the first write to fresh memory takes several times longer.

A view holds a reference to the array that owns the memory, so the owner's reference count tells whether it is in use.
Where Python does not count references so, memory is always fresh.
"""

from __future__ import annotations

import sys
from math import prod
from threading import Lock

import numpy as np

_SMALL = 64 << 10  # below, an allocator has memory at hand anyway
_KEPT_BYTES = 64 << 20
_kept: list[np.ndarray] = []
_lock = Lock()


def empty(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An array in C order, of any content, that is the caller's until the last array that shows part of it is gone."""
    needed = prod(shape) * dtype.itemsize
    if needed < _SMALL or _UNSEEN is None:
        return np.empty(shape, dtype)
    with _lock:
        return _owner(needed)[:needed].view(dtype).reshape(shape)


def copy(array: np.ndarray) -> np.ndarray:
    """The values in C order, in memory that nobody else writes to."""
    copied = empty(array.shape, array.dtype)
    np.copyto(copied, array)
    return copied


def _owner(needed: int) -> np.ndarray:
    """Kept memory that is not in use and not much too large, the one used last; else fresh memory, which is kept."""
    for place in reversed(range(len(_kept))):
        if needed <= _kept[place].nbytes <= 2 * needed and _references(_kept, place) == _UNSEEN:
            _kept.append(_kept.pop(place))
            return _kept[-1]
    _kept.append(np.empty(needed, np.uint8))
    while len(_kept) > 1 and sum(memory.nbytes for memory in _kept) > _KEPT_BYTES:
        del _kept[0]
    return _kept[-1]


def _references(owners: list[np.ndarray], place: int) -> int:
    return sys.getrefcount(owners[place])


def _unseen() -> int | None:
    """Return the `_references` of memory that only the list holds; None if views do not raise it."""
    if not hasattr(sys, "getrefcount") or not getattr(sys, "_is_gil_enabled", lambda: True)():
        return None
    owners = [np.empty(16, np.uint8)]
    alone = _references(owners, 0)
    part = owners[0][:8].view(np.uint16).reshape(2, 2)
    seen = _references(owners, 0)
    del part
    return alone if seen == alone + 1 and _references(owners, 0) == alone else None


_UNSEEN = _unseen()
