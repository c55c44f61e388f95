"""Memory that a thread uses again and again: fresh memory costs more than what is done with it."""

from __future__ import annotations

import threading

import numpy as np


class _Rooms(threading.local):
    def __init__(self) -> None:
        self.by_name: dict[tuple[str, type[np.generic]], np.ndarray] = {}


_own = _Rooms()


def scratch(name: str, dtype: type[np.generic], size: int) -> np.ndarray:
    """Room for `size` elements, of any content; whoever asks for the same name and type next gets the same room."""
    room = _own.by_name.get((name, dtype))
    if room is None or room.size < size:
        room = _own.by_name[name, dtype] = np.empty(size, dtype)
    return room[:size]
