"""The compiled engine's way through a window.

One loop surveys every row in the type of the lane: float32 where both sides fit it. Sums of rows are taken in float64.
A row that may hold a new maximum, a point over the hull or a zero is looked at again, and gone through element by
element only where it does; a short block stays in the cache for whatever else is wanted of it.
"""

from __future__ import annotations

import math

import numpy as np

from firstdiff.measure import kernel_loops as loops
from firstdiff.measure.direction import CANCELLED, CANCELLED_NARROW
from firstdiff.measure.hull import CAPACITY
from firstdiff.measure.kernel_cells import add_keys, count_up
from firstdiff.measure.kernel_gather import arrived, brought, side_of
from firstdiff.measure.kernel_hull import draw_lines, height, in_lane, insert, lowest_line, thin
from firstdiff.measure.kernel_lanes import compiled, wide
from firstdiff.measure.kernel_places import (
    ARGMAX,
    AT_ZERO,
    BLOCK,
    CORNERS,
    DD,
    FIRST_BIN,
    KEYS,
    LAST_BIN,
    LEFT,
    MAX_ABS,
    MAX_POWERS,
    REL_SUM,
    RELATIVE,
    ROW,
    SAMPLED,
    SKETCHED,
    SLACK,
    STEEPEST,
    SUM_ABS,
    TINY,
    ZEROS,
    Details,
    Outline,
    Room,
    Side,
)
from firstdiff.measure.kernel_sums import add_block, is_safe, needs_values
from firstdiff.measure.plan import CELLS_PIECE, PERIOD, PIECE, SAMPLE_STRIDE

_PART = 64
_TWICE = 2.0 + 2.0**-20


def measure(
    r: np.ndarray,
    c: np.ndarray,
    boxes_r: np.ndarray,
    boxes_c: np.ndarray,
    start: int,
    size: int,
    full: int,
    sums: np.ndarray,
    counts: np.ndarray,
    outline: Outline,
    details: Details,
    room: Room,
) -> None:
    """Take in a window, all but the blocks that need more care; `full`: sketch every element, not only the sample.

    A side that lies in boxes has room in place of its values, into which they are gathered: piece by piece, or, where
    runs of them can be surveyed as they lie, only what is looked at again.
    """
    found = room.block
    side_r = side_of(r, boxes_r, start, size, room.at_hand[0], room.digits, room.ways_r)
    side_c = side_of(c, boxes_c, start, size, room.at_hand[1], room.digits, room.ways_c)
    in_lane(outline.lines, outline.lane_lines)
    for first in range(0, size, BLOCK):
        stop = min(first + BLOCK, size)
        count = stop - first
        at_r, at_c = arrived(side_r, first, stop), arrived(side_c, first, stop)
        block_r, block_c = r[at_r : at_r + count], c[at_c : at_c + count]
        loops.survey(block_r, block_c, side_r, side_c, outline.lane_lines, room.overs, found)
        safe = is_safe(found)
        if not safe:
            brought(side_r, first, stop)
            brought(side_c, first, stop)
            if not math.isfinite(found[DD]) and not loops.is_finite(block_r, block_c):
                details.left[counts[LEFT]] = first
                counts[LEFT] += 1
                continue
            loops.add_exactly(block_r, block_c, found)
        exact = not safe or outline.lane_lines.itemsize == outline.lines.itemsize
        zeros = _look_again(side_r, side_c, first, stop, sums, counts, outline, room)
        found[ZEROS] = zeros
        cancelled = CANCELLED if exact else CANCELLED_NARROW
        if full or needs_values(found, count, cancelled, sums):
            brought(side_r, first, stop)
            brought(side_c, first, stop)
        add_block(block_r, block_c, count, found, cancelled, sums, counts)
        if full:
            _add_sketch(block_r, block_c, zeros, found, sums, counts, outline, details.bins, room.places)
        low, high = _sampled(start + first, count)
        if low < high:
            at_r = brought(side_r, first + low, first + high)
            at_c = brought(side_c, first + low, first + high)
            piece_r, piece_c = r[at_r : at_r + high - low], c[at_c : at_c + high - low]
            if not full:
                zeros = loops.zeros_of(piece_r) if zeros else 0
                _add_sketch(piece_r, piece_c, zeros, found, sums, counts, outline, details.bins, room.places)
            at, few = counts[KEYS], min(high - low, CELLS_PIECE)
            add_keys(piece_r[:few], piece_c[:few], details.keys[at:], details.points[at:])
            counts[KEYS] += few
            counts[SAMPLED] += few
    counts[KEYS] = count_up(details.keys[: counts[KEYS]], details.points[: counts[KEYS]], room.cells)


@compiled()
def _look_again(
    side_r: Side,
    side_c: Side,
    first: int,
    stop: int,
    sums: np.ndarray,
    counts: np.ndarray,
    outline: Outline,
    room: Room,
) -> int:
    """Scan the rows of a block that the survey found something in; how many r are 0."""
    zeros = 0
    for row in range(first, stop, ROW):
        over = room.overs[(row - first) // ROW]
        if over >= 0.0:
            end = min(row + ROW, stop)
            at_r = brought(side_r, row, end)
            row_r = side_r.values[at_r : at_r + end - row]
            zeros += loops.zeros_of(row_r)
            if over > 0.0:
                at_c = brought(side_c, row, end)
                row_c = side_c.values[at_c : at_c + end - row]
                _scan(row_r, row_c, side_r.start + row, sums, counts, outline)
    return zeros


@compiled()
def _sampled(begin: int, length: int) -> tuple[int, int]:
    """The part of a block that lies in a sampled piece; see `plan.sampled_piece`."""
    period = begin // PERIOD
    piece = period * PERIOD + period * SAMPLE_STRIDE * PIECE % PERIOD - begin
    return min(max(piece, 0), length), min(max(piece + PIECE, 0), length)


@compiled()
def _scan(r: np.ndarray, c: np.ndarray, start: int, sums: np.ndarray, counts: np.ndarray, outline: Outline) -> None:
    """Look for the maximum, the steepest point and corners of the hull: part by part, then one by one."""
    lines = outline.lines
    for first in range(0, r.size, _PART):
        stop = min(first + _PART, r.size)
        if not loops.is_over(r[first:stop], c[first:stop], lines, sums[AT_ZERO]):
            continue
        for i in range(first, stop):
            x, d = abs(wide(r[i])), abs(wide(c[i]) - wide(r[i]))
            if d > sums[MAX_ABS]:
                sums[MAX_ABS] = d
                counts[ARGMAX] = start + i
            if x == 0.0:
                sums[AT_ZERO] = max(sums[AT_ZERO], d)
            elif d / x > sums[STEEPEST] or d > lowest_line(lines, x) * (1.0 + loops.NEAR):
                _add_point(x, d, sums, counts, outline)
    in_lane(lines, outline.lane_lines)


@compiled()
def _add_point(x: float, d: float, sums: np.ndarray, counts: np.ndarray, outline: Outline) -> None:
    hull_x, hull_d, corners = outline.hull_x, outline.hull_d, counts[CORNERS]
    over = d > height(hull_x, hull_d, corners, x) * (1.0 + sums[SLACK])
    if over:
        corners = insert(hull_x, hull_d, corners, x, d)
        if corners > CAPACITY:
            corners, sums[SLACK] = thin(hull_x, hull_d, corners, sums[SLACK])
        counts[CORNERS] = corners
    if over or d / x > sums[STEEPEST]:
        sums[STEEPEST] = max(sums[STEEPEST], d / x)
        draw_lines(hull_x, hull_d, corners, sums[STEEPEST], outline.lines)


@compiled()
def _add_sketch(
    r: np.ndarray,
    c: np.ndarray,
    zeros: int,
    found: np.ndarray,
    sums: np.ndarray,
    counts: np.ndarray,
    outline: Outline,
    bins: np.ndarray,
    places: np.ndarray,
) -> None:
    """As `Sketch.of` does; `zeros` of r are 0."""
    counts[SKETCHED] += r.size
    counts[RELATIVE] += r.size - zeros
    if found[SUM_ABS] == 0.0:
        bins[0, 0] += r.size
        return
    summed, most = loops.ratios(r, c, outline.lane_lines)
    if not math.isfinite(summed):
        summed, most = loops.ratios(r, c, outline.lines)
    sums[REL_SUM] += summed
    if most * _TWICE > sums[MAX_POWERS]:  # a power of two is more than half of what it is under
        sums[MAX_POWERS] = max(sums[MAX_POWERS], loops.most_powers(r, c, sums[TINY]))
    first_bin, last_bin = loops.bin_places(r, c, places)
    counts[FIRST_BIN], counts[LAST_BIN] = min(counts[FIRST_BIN], first_bin), max(counts[LAST_BIN], last_bin)
    last = bins.shape[0] - 1
    second, third = min(1, last), min(2, last)
    quarter = r.size // 4
    for i in range(quarter):  # several tables, for it takes a while until the same count can be raised again
        bins[0, places[i]] += 1
        bins[second, places[quarter + i]] += 1
        bins[third, places[2 * quarter + i]] += 1
        bins[last, places[3 * quarter + i]] += 1
    for i in range(4 * quarter, r.size):
        bins[0, places[i]] += 1


def count(r: np.ndarray, c: np.ndarray, atol: float, rtol: float) -> int:
    """Elements of a window outside a tolerance."""
    outside = 0
    for first in range(0, r.size, BLOCK):
        stop = min(first + BLOCK, r.size)
        outside += loops.count_outside(r[first:stop], c[first:stop], atol, rtol)
    return outside
