"""What the compiled engine and its kernels hand each other: sizes, the places of figures in arrays, and the arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

BLOCK = 16384
ROW = 256  # short enough for sums in float32 to keep six digits
STRIDE = 16  # elements that the survey takes at a time
AHEAD = 768  # elements from what is computed with to what is asked for
FAR_AHEAD = AHEAD + ROW  # and to what has its page of memory found
RUNS = (BLOCK + FAR_AHEAD + ROW) // STRIDE  # at most, in a block and as far on as is looked
IN_A_ROW = 63  # all the runs of a block are one
ROWS = BLOCK // ROW
TABLES = 4
CELLS = 1 << 14
LINE, VECTOR = 64, 32  # bytes that memory is brought in by, and that are computed with at once

# what the survey of a block tells: bounds of the reference, sums of r, c and |c - r|, products of r, c and d = c - r,
# and how many r are 0
LOW_R, HIGH_R, SUM_R, SUM_C, SUM_ABS, RR, DD, RD, CC, ZEROS = range(10)
SURVEY = 10

# the figures of a window in `sums`: first those of the survey, which has <r, d> where the sums have <r, c>
RC = RD
LOW_C, HIGH_C, MAX_ABS, AT_ZERO, STEEPEST, SLACK = range(SURVEY, SURVEY + 6)
REL_SUM, MAX_POWERS, TINY, MEAN_R, SPREAD_R, MEAN_C, SPREAD_C, REST = range(SURVEY + 6, SURVEY + 14)
SUMS = SURVEY + 14

# and in `counts`
FINITE, ARGMAX, CORNERS, SKETCHED, RELATIVE, SAMPLED, KEYS, LEFT, FIRST_BIN, LAST_BIN = range(10)
COUNTS = 10

# the lines over a hull: the slopes of a ray and some chords, their heights at 0, and the height of a level line
CHORDS = 3
HEIGHTS = 1 + CHORDS
LEVEL = 2 * HEIGHTS
LINES = LEVEL + 1
SCALE = LINES  # of the lines in the type of the lane, by which the smallest of its numbers are far from its bounds
LANE_LINES = LINES + 1

# a box of scattered values: the address of its first element, where that and the end of the last are in the C order,
# and how many axes stand before the panel's; then of every axis its length, and its step in bytes and in the C order
ADDRESS, ORIGIN, END, LEADING = range(4)
BOX = 4
LENGTH, STEP, SPAN = range(3)
AXIS = 3
MOST_AXES = 64


class Outline(NamedTuple):
    """The corners of the hull, the lines of `draw_lines`, and these as `in_lane` has them."""

    hull_x: np.ndarray
    hull_d: np.ndarray
    lines: np.ndarray
    lane_lines: np.ndarray


class Details(NamedTuple):
    """How many differences fall into each bin of the histogram, in tables to be added up, of which only those from
    `FIRST_BIN` to `LAST_BIN` and that of 0 are in use; the cells of the sampled elements; and the blocks that were left
    out: those with NaN, infinities, or differences too large for the lane.
    """

    bins: np.ndarray
    keys: np.ndarray
    points: np.ndarray
    left: np.ndarray


class Side(NamedTuple):
    """A side of a window: its values; or room for a piece of them and a block more, and the boxes to gather it from.

    start, size: of the window, in elements
    at_hand: where in the window the first of `values` is, and the end of the last
    digits: room for those of a place in a box
    shift: it lies in runs of 2 ** shift elements, each in a row of memory wherever it begins, which need not be brought
        together to be surveyed; else `IN_A_ROW`
    ways: of every run of a block, and of some more, how many bytes it is to where it lies, from where it would lie
        were all of them in a row
    """

    values: np.ndarray
    boxes: np.ndarray
    start: int
    size: int
    at_hand: np.ndarray
    digits: np.ndarray
    shift: int
    ways: np.ndarray


class Room(NamedTuple):
    """Memory for one block: how far differences of its rows are over the lines, its survey, and bins; for all cells
    there may be; and for what a `Side` holds.
    """

    overs: np.ndarray
    block: np.ndarray
    places: np.ndarray
    cells: np.ndarray
    at_hand: np.ndarray
    digits: np.ndarray
    ways_r: np.ndarray
    ways_c: np.ndarray
