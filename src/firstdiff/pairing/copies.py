"""Tensors of one run with the same values: an input that is another module's output, a container's output that is its
last child's.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from firstdiff.errors import ReadError
from firstdiff.pairing.fingerprint import Fingerprints
from firstdiff.pairing.side import Side, grouped

_SMALL = 1 << 12  # elements: tensors that tell too little for a fingerprint are read whole up to here


def first_copies(side: Side, prints: Fingerprints, places: Iterable[int]) -> dict[int, int]:
    """Return for each tensor the first of those places, in order, that holds the same values in the same order."""
    readable = [place for place in sorted(places) if side.tensor(place).source is not None]
    first: dict[int, int] = {}
    for size, group in grouped(readable, (side.sizes[place] for place in readable)).items():
        known: dict[bytes, int] = {}
        rows, telling = prints.points(group, "in_order")
        values = {place: row.tobytes() for place, row in zip(telling, rows, strict=True)}
        for place in group:
            digest = values.get(place)
            if digest is None and size is not None and size <= _SMALL:
                digest = _whole(side, place)
            first[place] = place if digest is None else known.setdefault(digest, place)
    return first


def _whole(side: Side, place: int) -> bytes | None:
    try:
        values = side.tensor(place).values()
        found = np.asarray(values.window(0, values.size))
        return found.astype(np.complex128 if found.dtype.kind == "c" else np.float64).tobytes()
    except (ReadError, TypeError, ValueError):
        return None
