"""The cells of `cells.py` for compiled code: keys and points in two arrays."""

from __future__ import annotations

import numpy as np

from firstdiff.measure.cells import DIFFERENCE, OCTAVE_SHIFT, WIDTH
from firstdiff.measure.kernel_lanes import bits_of, compiled, wide


@compiled()
def add_keys(r: np.ndarray, c: np.ndarray, keys: np.ndarray, points: np.ndarray) -> None:
    """The octaves of |r| and |c - r|, as one number, of every element, which is one point."""
    for i in range(r.size):
        x = wide(r[i])
        size, difference = bits_of(abs(x)) >> OCTAVE_SHIFT, bits_of(abs(wide(c[i]) - x)) >> OCTAVE_SHIFT
        keys[i] = (size << WIDTH) | difference
        points[i] = 1


@compiled()
def count_up(keys: np.ndarray, points: np.ndarray, table: np.ndarray) -> int:
    """Put keys that are there several times together, and leave out those without a difference; how many are left.

    Where the octaves are too far apart for the table, the keys stay as they are.
    """
    kept = 0
    smallest, largest, least, most = 1 << WIDTH, 0, 1 << WIDTH, 0
    for i in range(keys.size):
        size, difference = keys[i] >> WIDTH, keys[i] & DIFFERENCE
        if difference:
            smallest, largest = min(smallest, size), max(largest, size)
            least, most = min(least, difference), max(most, difference)
            keys[kept], points[kept] = keys[i], points[i]
            kept += 1
    width = most - least + 1
    places = (largest - smallest + 1) * width
    if kept == 0 or places > table.size:
        return kept
    table[:places] = 0
    for i in range(kept):
        table[((keys[i] >> WIDTH) - smallest) * width + (keys[i] & DIFFERENCE) - least] += points[i]
    kept = 0
    for place in range(places):
        if table[place]:
            keys[kept] = ((place // width + smallest) << WIDTH) | (place % width + least)
            points[kept] = table[place]
            kept += 1
    return kept
