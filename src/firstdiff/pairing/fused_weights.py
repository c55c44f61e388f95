"""Find weights that hold several weights of the other side, such as one product for queries, keys and values."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import final

import numpy as np

from firstdiff.errors import ReadError
from firstdiff.pairing.strategy import Side

_LARGEST = 1 << 24  # elements of a weight that is looked at
_MOST_WEIGHTS = 2048
_FEWEST_ROWS = 2

Places = tuple[int, ...]


def fused_weights(fused: Side, parted: Side) -> Iterator[tuple[int, Places]]:
    """Yield each free matrix whose rows or columns are those of several matrices of the other side, and these in order.

    The rows of the parts may alternate, such as head by head.
    """
    wholes, parts = _matrices(fused), _matrices(parted)
    if not wholes or not parts or len(wholes) + len(parts) > _MOST_WEIGHTS:
        return
    lines = _Lines(parted, parts)
    taken: set[int] = set()
    for place in wholes:
        for along in (0, 1):
            found = lines.within(fused, place, along, taken)
            if found:
                taken.update(found)
                yield place, found
                break


def _matrices(side: Side) -> list[int]:
    found = []
    for place in side.free:
        source = side.tensor(place).source
        lengths = [n for n in source.shape if n != 1] if source is not None else []  # a convolution of width 1 is one
        is_matrix = len(lengths) == 2 and min(lengths) >= _FEWEST_ROWS
        if side.keys[place].role == "param" and is_matrix and (side.sizes[place] or 0) <= _LARGEST:
            found.append(place)
    return found


@final
class _Lines:
    """The rows and columns of some matrices, told by their first and last values."""

    def __init__(self, side: Side, places: Sequence[int]) -> None:
        self._by_width: dict[int, list[tuple[int, np.ndarray]]] = defaultdict(list)
        for place in places:
            for along in (0, 1):
                lines, width = _lines(side, place, along)
                if lines is not None:
                    self._by_width[width].append((place, lines))

    def within(self, fused: Side, place: int, along: int, taken: set[int]) -> Places:
        """Return the matrices that make up one along an axis, in the order they begin; none if a line is left."""
        lines, width = _lines(fused, place, along)
        if lines is None:
            return ()
        order = np.argsort(lines, kind="stable")
        ordered = lines[order]
        if (ordered[1:] == ordered[:-1]).any():
            return ()
        covered = np.zeros(len(lines), bool)
        found: dict[int, int] = {}
        for part, own in self._by_width.get(width, ()):
            if part in taken or part in found or len(own) >= len(lines):
                continue
            at = np.minimum(np.searchsorted(ordered, own), len(lines) - 1)
            if (ordered[at] == own).all() and not covered[order[at]].any():
                covered[order[at]] = True
                found[part] = int(order[at].min())
        return tuple(sorted(found, key=found.__getitem__)) if covered.all() else ()


def _lines(side: Side, place: int, along: int) -> tuple[np.ndarray | None, int]:
    """Return a number for each line of a matrix along an axis, and how long the lines are."""
    try:
        values = np.asarray(side.tensor(place).values().view()).squeeze()
    except ReadError:
        return None, 0
    lines = values if along == 0 else values.T
    if lines.dtype.kind not in "f":
        return None, 0
    ends = lines[:, 0].astype(np.float64) + 1j * lines[:, -1].astype(np.float64)
    return (ends if np.isfinite(ends).all() else None), lines.shape[1]
