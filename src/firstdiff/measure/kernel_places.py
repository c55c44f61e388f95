"""What the compiled engine and its kernels hand each other: sizes, the places of figures in arrays, and the arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

BLOCK = 16384
ROW = 1024  # short enough for sums in float32 to keep six digits
ROWS = BLOCK // ROW
TABLES = 4
PARTS = 16

# what a row of the survey tells: bounds of the reference, whether a zero of the reference, a new maximum or a point
# over the hull may be in it, sums of r, c and |c - r|, and products of r, c and d = c - r
LOW_R, HIGH_R, MATTERS, SUM_R, SUM_C, SUM_ABS, RR, DD, RD, CC = range(10)
SURVEY = 10  # the last, cc, is not looked for: it follows from the others

# the figures of a window in `sums`: first those of the survey, which has <r, d> where the sums have <r, c>
RC = RD
LOW_C, HIGH_C, MAX_ABS, AT_ZERO, STEEPEST, SLACK = range(SURVEY, SURVEY + 6)
REL_SUM, MAX_POWERS, TINY, MEAN_R, SPREAD_R, MEAN_C, SPREAD_C, REST = range(SURVEY + 6, SURVEY + 14)
SUMS = SURVEY + 14

# and in `counts`
FINITE, ZEROS, ARGMAX, CORNERS, SKETCHED, RELATIVE, KEYS, LEFT = range(8)
COUNTS = 8

# the lines over a hull: the slopes of a ray and three chords, their heights at 0, and the height of a level line
CHORDS = 3
HEIGHTS, LEVEL, LINES = 4, 8, 9
FAR = 3e38  # higher than any line


class Outline(NamedTuple):
    """The corners of the hull, the lines of `draw_lines`, and these in the type of the lane."""

    hull_x: np.ndarray
    hull_d: np.ndarray
    lines: np.ndarray
    lane_lines: np.ndarray


class Details(NamedTuple):
    """How many differences fall into each bin of the histogram, in tables to be added up; the octaves of the sampled
    elements; and the blocks that were left out: those with NaN, infinities, or differences too large for the lane.
    """

    bins: np.ndarray
    keys: np.ndarray
    left: np.ndarray


class Room(NamedTuple):
    """Memory for one block: the survey of its rows and of all of it, what is found in the parts of a row, and bins."""

    rows: np.ndarray
    block: np.ndarray
    parts: np.ndarray
    places: np.ndarray


def no_lines(lane: type[np.floating]) -> np.ndarray:
    """The lines while there is no hull: only zeros of x are not under them."""
    return np.array([1.0, 0.0, 0.0, 0.0, 0.0, *[FAR] * (LINES - HEIGHTS - 1)], lane)
