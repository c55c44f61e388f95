"""The compiled engine's way through a window.

One loop surveys every row in the type of the lane: float32 where both sides fit it. Sums of rows are taken in float64.
A row that may hold a new maximum, a point over the hull or a zero is looked at again, and gone through element by
element only where it does; a short block stays in the cache for whatever else is wanted of it.
"""

from __future__ import annotations

import math

import numpy as np

from firstdiff.measure import kernel_loops as loops
from firstdiff.measure.direction import CANCELLED, CANCELLED_NARROW, FAR
from firstdiff.measure.hull import CAPACITY
from firstdiff.measure.kernel_cells import add_keys, count_up
from firstdiff.measure.kernel_gather import announced, arrived
from firstdiff.measure.kernel_hull import draw_lines, height, in_lane, insert, lowest_line, thin
from firstdiff.measure.kernel_lanes import compiled, wide
from firstdiff.measure.kernel_places import (
    ARGMAX,
    AT_ZERO,
    BLOCK,
    CC,
    CORNERS,
    DD,
    FINITE,
    FIRST_BIN,
    HIGH_C,
    HIGH_R,
    KEYS,
    LAST_BIN,
    LEFT,
    LOW_C,
    LOW_R,
    MAX_ABS,
    MAX_POWERS,
    MEAN_C,
    MEAN_R,
    RC,
    RD,
    REL_SUM,
    RELATIVE,
    REST,
    ROW,
    RR,
    SAMPLED,
    SKETCHED,
    SLACK,
    STEEPEST,
    SUM_ABS,
    SUM_C,
    SUM_R,
    SURVEY,
    TINY,
    ZEROS,
    Details,
    Outline,
    Room,
)
from firstdiff.measure.plan import CELLS_PIECE, PERIOD, PIECE, SAMPLE_STRIDE

_PART = 64
_TWICE = 2.0 + 2.0**-20
_UNDERFLOW = 1e-32  # a sum of float32 squares below this may have lost some of them


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

    A side that lies in boxes has room in place of its values, into which they are gathered piece by piece.
    """
    found = room.block
    from_r, from_c = 0, 0
    in_lane(outline.lines, outline.lane_lines)
    for first in range(0, size, BLOCK):
        stop = min(first + BLOCK, size)
        from_r = arrived(r, boxes_r, start, first, size, from_r, room.digits, room.coming_r)
        from_c = arrived(c, boxes_c, start, first, size, from_c, room.digits, room.coming_c)
        announced(r, boxes_r, start, stop, size, room.digits, room.coming_r)
        announced(c, boxes_c, start, stop, size, room.digits, room.coming_c)
        block_r, block_c = r[first - from_r : stop - from_r], c[first - from_c : stop - from_c]
        loops.survey(block_r, block_c, outline.lane_lines, room.overs, room.coming_r, room.coming_c, found)
        if not math.isfinite(found[DD]) and not loops.is_finite(block_r, block_c):
            details.left[counts[LEFT]] = first
            counts[LEFT] += 1
            continue
        exact = not _is_safe(found)
        if exact:
            loops.add_exactly(block_r, block_c, found)
        exact = exact or outline.lane_lines.itemsize == outline.lines.itemsize
        zeros = 0
        for row in range(0, block_r.size, ROW):
            over = room.overs[row // ROW]
            if over >= 0.0:
                row_r, row_c = block_r[row : row + ROW], block_c[row : row + ROW]
                zeros += loops.zeros_of(row_r)
                if over > 0.0:
                    _scan(row_r, row_c, start + first + row, sums, counts, outline)
        found[ZEROS] = zeros
        _add_block(block_r, block_c, found, CANCELLED if exact else CANCELLED_NARROW, sums, counts)
        low, high = _sampled(start + first, stop - first)
        if full:
            _add_sketch(block_r, block_c, zeros, found, sums, counts, outline, details.bins, room.places)
        elif low < high:
            piece_r, piece_c = block_r[low:high], block_c[low:high]
            zeros = loops.zeros_of(piece_r) if zeros else 0
            _add_sketch(piece_r, piece_c, zeros, found, sums, counts, outline, details.bins, room.places)
        if low < high:
            high = min(high, low + CELLS_PIECE)
            at = counts[KEYS]
            add_keys(block_r[low:high], block_c[low:high], details.keys[at:], details.points[at:])
            counts[KEYS] += high - low
            counts[SAMPLED] += high - low
    counts[KEYS] = count_up(details.keys[: counts[KEYS]], details.points[: counts[KEYS]], room.cells)


@compiled()
def _is_safe(found: np.ndarray) -> bool:
    """Whether float32 has not overflowed and lost no small squares."""
    for summed in range(SUM_R, SURVEY):
        if not math.isfinite(found[summed]):
            return False
    if found[SUM_ABS] > 0.0:
        # where the candidate is another thing altogether, cc does not follow from the rest
        return bool(min(found[RR], found[CC], found[DD]) >= _UNDERFLOW and found[DD] < found[RR] * FAR)
    return bool(found[RR] >= _UNDERFLOW or (found[LOW_R] == 0.0 and found[HIGH_R] == 0.0))


@compiled()
def _sampled(begin: int, length: int) -> tuple[int, int]:
    """The part of a block that lies in a sampled piece; see `plan.sampled_piece`."""
    period = begin // PERIOD
    piece = period * PERIOD + period * SAMPLE_STRIDE * PIECE % PERIOD - begin
    return min(max(piece, 0), length), min(max(piece + PIECE, 0), length)


@compiled()
def _add_block(
    r: np.ndarray, c: np.ndarray, found: np.ndarray, cancelled: float, sums: np.ndarray, counts: np.ndarray
) -> None:
    """Take in the sums and bounds of a block of finite numbers."""
    _add_side(sums, counts[FINITE], MEAN_R, r, found[SUM_R], found[RR], cancelled)
    _add_side(sums, counts[FINITE], MEAN_C, c, found[SUM_C], found[CC], cancelled)
    counts[FINITE] += r.size
    sums[MAX_ABS] = max(sums[MAX_ABS], 0.0)
    sums[LOW_R], sums[HIGH_R] = min(sums[LOW_R], found[LOW_R]), max(sums[HIGH_R], found[HIGH_R])
    reach = sums[MAX_ABS] * (1.0 + loops.NEAR)
    if found[LOW_R] - reach < sums[LOW_C] or found[HIGH_R] + reach > sums[HIGH_C]:
        low, high = loops.bounds(c)
        sums[LOW_C], sums[HIGH_C] = min(sums[LOW_C], low), max(sums[HIGH_C], high)
    _add_rest(r, c, found, cancelled, sums)
    for summed in range(SUM_ABS, SURVEY):
        # of NaN there is only inf - inf, where float64 has overflowed and another sum says so
        sums[summed] += 0.0 if math.isnan(found[summed]) else found[summed]


@compiled()
def _add_rest(r: np.ndarray, c: np.ndarray, found: np.ndarray, cancelled: float, sums: np.ndarray) -> None:
    """As `rest_of` and `turned_apart` of `direction.py` do."""
    rr, rd, dd, cc = found[RR], found[RD], found[DD], found[CC]
    if dd < rr * FAR:
        along, squares, whole = rr + rd, dd - rd * (rd / rr), dd
    else:
        along, squares, whole = loops.along(r, c), cc, cc
        if rr > 0.0:
            squares -= along * (along / rr)
    if rr > 0.0 and squares <= whole * cancelled:
        along, squares = loops.rest_of(r, c, rr, along / rr)
    if rr > 0.0 and sums[RR] > 0.0:
        step = sums[RC] / sums[RR] - along / rr
        squares += step * step * sums[RR] * (rr / (sums[RR] + rr))
    found[RC] = along
    sums[REST] += squares


@compiled()
def _add_side(
    sums: np.ndarray, known: int, mean_at: int, values: np.ndarray, summed: float, squares: float, cancelled: float
) -> None:
    """As `Moments.add` does; the spread stands next to the mean."""
    mean, spread = loops.mean_and_spread(values, summed, squares, cancelled)
    share = values.size / (known + values.size)
    step = mean - sums[mean_at]
    if math.isfinite(step):
        sums[mean_at] += step * share
    else:
        sums[mean_at] = sums[mean_at] * (1.0 - share) + mean * share
    sums[mean_at + 1] += spread
    if known:
        sums[mean_at + 1] += step * step * known * share


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
