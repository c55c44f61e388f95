"""Parse basic indices (`x[1, ::2, ...]`) axis by axis, for tensors that are not numpy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from firstdiff.trace import Index

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
