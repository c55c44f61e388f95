"""The compiled engine's way through a window.

A short block stays in the cache for several simple loops. Sums are taken in float64. Extremes are looked for in the
type of the lane (float32 where both sides fit it); a block that may hold a new maximum, or a point over the hull, is
looked at again in float64, and gone through element by element only where it does.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from firstdiff.measure import kernel_loops as loops
from firstdiff.measure.hull import CAPACITY
from firstdiff.measure.kernel_hull import HEIGHTS, LEVEL, draw_lines, height, insert, lowest_line, thin
from firstdiff.measure.kernel_lanes import compiled, entry, loaded
from firstdiff.measure.plan import PERIOD, PIECE, SAMPLE_STRIDE

BLOCK = 2048
_PART = 64
_NEAR = 2.0**-20  # more than rounding to float32 can hide
_NEARER = 2.0**-48  # the same for float64

# the figures of a window, by their places in `sums`
RR, CC, DD, RD, SUM_ABS, MAX_ABS, AT_ZERO, STEEPEST, SLACK, REL_SUM, MAX_POWERS, TINY = range(12)
SIDE_R, SIDE_C = 12, 16
MEAN, SPREAD, LOW, HIGH = range(4)  # of each side
SUMS = 20

# and in `counts`
FINITE, ZEROS, ARGMAX, CORNERS, SKETCHED, RELATIVE, KEYS, LEFT = range(8)
COUNTS = 8


class Outline(NamedTuple):
    """The corners of the hull, the lines of `draw_lines`, and their slopes in the type of the lane."""

    hull_x: np.ndarray
    hull_d: np.ndarray
    lines: np.ndarray
    slopes: np.ndarray


class Details(NamedTuple):
    """How many differences fall into each bin of the histogram, the octaves of the sampled elements, and the blocks
    that were left out: those with NaN, infinities, or differences too large for the lane.
    """

    bins: np.ndarray
    keys: np.ndarray
    left: np.ndarray


class Room(NamedTuple):
    """Memory for one block of each side in the type of the lane, and for bins."""

    lane_r: np.ndarray
    lane_c: np.ndarray
    places: np.ndarray


@entry
def measure(
    r: np.ndarray,
    c: np.ndarray,
    start: int,
    full: bool,
    sums: np.ndarray,
    counts: np.ndarray,
    outline: Outline,
    details: Details,
    room: Room,
) -> None:
    """Take in a window, all but the blocks that need more care."""
    for first in range(0, r.size, BLOCK):
        stop = min(first + BLOCK, r.size)
        block_r, block_c = loaded(r, first, stop, room.lane_r), loaded(c, first, stop, room.lane_c)
        seen = loops.survey(block_r, block_c, outline.slopes)
        if not seen.top < math.inf:
            details.left[counts[LEFT]] = first
            counts[LEFT] += 1
            continue
        _add_block(block_r, block_c, seen, sums, counts)
        if seen.top > 0.0 and _may_matter(seen, outline.lines, sums, counts):
            _scan(block_r, block_c, start + first, sums, counts, outline)
        low, high = _sampled(start + first, stop - first)
        if full:
            _add_sketch(block_r, block_c, seen, sums, counts, details.bins, room.places)
        elif low < high:
            _add_sketch(block_r[low:high], block_c[low:high], seen, sums, counts, details.bins, room.places)
        if low < high:
            loops.octaves(block_r[low:high], block_c[low:high], details.keys[counts[KEYS] :])
            counts[KEYS] += high - low


@compiled()
def _sampled(begin: int, length: int) -> tuple[int, int]:
    """The part of a block that lies in a sampled piece; see `plan.sampled_piece`."""
    period = begin // PERIOD
    piece = period * PERIOD + period * SAMPLE_STRIDE * PIECE % PERIOD - begin
    return min(max(piece, 0), length), min(max(piece + PIECE, 0), length)


@compiled()
def _add_block(r: np.ndarray, c: np.ndarray, seen: loops.Survey, sums: np.ndarray, counts: np.ndarray) -> None:
    """Take in the sums of a block of finite numbers."""
    products = loops.inner_products(r, c)
    _add_side(sums, counts, SIDE_R, r, products[0], products[3], seen.low_r, seen.high_r)
    _add_side(sums, counts, SIDE_C, c, products[1], products[4], seen.low_c, seen.high_c)
    _add_products(products, r.size, sums, counts)
    if seen.least == 0.0:
        _add_zeros(r, c, sums, counts)


@compiled()
def _add_zeros(r: np.ndarray, c: np.ndarray, sums: np.ndarray, counts: np.ndarray) -> None:
    zeros, most = loops.where_zero(r, c)
    counts[ZEROS] += int(zeros)
    sums[AT_ZERO] = max(sums[AT_ZERO], most)


@compiled()
def _add_side(
    sums: np.ndarray,
    counts: np.ndarray,
    side: int,
    values: np.ndarray,
    summed: float,
    squares: float,
    low: float,
    high: float,
) -> None:
    """As `Moments.add` does."""
    mean, spread = loops.mean_and_spread(values, summed, squares)
    both = counts[FINITE] + values.size
    share = values.size / both
    step = mean - sums[side + MEAN]
    if math.isfinite(step):
        sums[side + MEAN] += step * share
    else:
        sums[side + MEAN] = sums[side + MEAN] * (1.0 - share) + mean * share
    sums[side + SPREAD] += spread
    if counts[FINITE]:
        sums[side + SPREAD] += step * step * counts[FINITE] * share
    sums[side + LOW] = min(sums[side + LOW], low)
    sums[side + HIGH] = max(sums[side + HIGH], high)


@compiled()
def _add_products(
    products: tuple[float, float, float, float, float, float, float], size: int, sums: np.ndarray, counts: np.ndarray
) -> None:
    sums[SUM_ABS] += products[2]
    sums[RR] += products[3]
    sums[CC] += products[4]
    sums[DD] += products[5]
    sums[RD] += 0.0 if math.isnan(products[6]) else products[6]
    sums[MAX_ABS] = max(sums[MAX_ABS], 0.0)
    counts[FINITE] += size


@compiled()
def _may_matter(seen: loops.Survey, lines: np.ndarray, sums: np.ndarray, counts: np.ndarray) -> bool:
    """Whether a new maximum or a point over the hull may be in the block, as far as its own type can tell."""
    near = seen.top * _NEAR
    return (
        counts[CORNERS] == 0
        or seen.top + near >= min(sums[MAX_ABS], lines[LEVEL])
        or seen.over_1 >= lines[HEIGHTS] - near
        or seen.over_2 >= lines[HEIGHTS + 1] - near
        or seen.over_3 >= lines[HEIGHTS + 2] - near
        or seen.over_4 >= lines[HEIGHTS + 3] - near
    )


@compiled()
def _scan(
    r: np.ndarray,
    c: np.ndarray,
    begin: int,
    sums: np.ndarray,
    counts: np.ndarray,
    outline: Outline,
) -> None:
    """Look for the maximum, the steepest point and corners of the hull in float64: part by part, then one by one."""
    lines = outline.lines
    for first in range(0, r.size, _PART):
        stop = min(first + _PART, r.size)
        over_1, over_2, over_3, over_4, most = loops.over_lines(r[first:stop], c[first:stop], lines)
        near = most * _NEARER
        if (
            most > min(sums[MAX_ABS], lines[LEVEL])
            or over_1 > lines[HEIGHTS] - near
            or over_2 > lines[HEIGHTS + 1] - near
            or over_3 > lines[HEIGHTS + 2] - near
            or over_4 > lines[HEIGHTS + 3] - near
        ):
            for i in range(first, stop):
                x, d = abs(np.float64(r[i])), abs(np.float64(c[i]) - np.float64(r[i]))
                if d > sums[MAX_ABS]:
                    sums[MAX_ABS] = d
                    counts[ARGMAX] = begin + i
                if d == math.inf:
                    sums[AT_ZERO] = math.inf
                elif d > lowest_line(lines, x) * (1.0 - _NEARER) and x > 0.0:
                    _add_point(x, d, sums, counts, outline)


@compiled()
def _add_point(x: float, d: float, sums: np.ndarray, counts: np.ndarray, outline: Outline) -> None:
    hull_x, hull_d, lines, slopes = outline
    sums[STEEPEST] = max(sums[STEEPEST], d / x)
    corners = counts[CORNERS]
    if d > height(hull_x, hull_d, corners, x) * (1.0 + sums[SLACK]):
        corners = insert(hull_x, hull_d, corners, x, d)
        if corners > CAPACITY:
            corners, sums[SLACK] = thin(hull_x, hull_d, corners, sums[SLACK])
        counts[CORNERS] = corners
    draw_lines(hull_x, hull_d, corners, sums[STEEPEST], lines)
    slopes[:] = lines[:HEIGHTS]


@compiled()
def _add_sketch(
    r: np.ndarray,
    c: np.ndarray,
    seen: loops.Survey,
    sums: np.ndarray,
    counts: np.ndarray,
    bins: np.ndarray,
    places: np.ndarray,
) -> None:
    """As `Sketch.of` does."""
    zeros = loops.where_zero(r, c)[0] if seen.least == 0.0 else 0.0
    counts[SKETCHED] += r.size
    counts[RELATIVE] += r.size - int(zeros)
    if seen.top == 0.0:
        bins[0] += r.size
        return
    summed, most = loops.relative(r, c, sums[TINY])
    sums[REL_SUM] += summed
    sums[MAX_POWERS] = max(sums[MAX_POWERS], most)
    loops.bin_places(r, c, places)
    for i in range(r.size):
        bins[places[i]] += 1


@entry
def count(r: np.ndarray, c: np.ndarray, atol: float, rtol: float, room: Room) -> int:
    """Elements of a window outside a tolerance."""
    outside = 0
    for first in range(0, r.size, BLOCK):
        stop = min(first + BLOCK, r.size)
        block_r, block_c = loaded(r, first, stop, room.lane_r), loaded(c, first, stop, room.lane_c)
        outside += loops.count_outside(block_r, block_c, atol, rtol)
    return outside
