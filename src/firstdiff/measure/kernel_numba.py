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
from firstdiff.measure.cells import OCTAVE_SHIFT
from firstdiff.measure.hull import CAPACITY
from firstdiff.measure.kernel_hull import HEIGHTS, LEVEL, draw_lines, height, insert, thin
from firstdiff.measure.kernel_lanes import bits_of, compiled, entry, loaded
from firstdiff.measure.plan import PERIOD, PIECE, SAMPLE_STRIDE
from firstdiff.measure.sketch import BIN_SHIFT

BLOCK = 2048
_PART = 128
_NEAR = 2.0**-20  # more than rounding to float32 can hide
_NEARER = 2.0**-48  # the same for float64


class State(NamedTuple):
    """What a window has gathered so far; `sums` and `counts` go by the indices below.

    hull_x, hull_d: the corners of the hull
    lines: see `draw_lines`; slopes: those of the lines in the type of the lane
    bins: how many differences fall into each bin of the histogram
    keys: the octaves of the sampled elements that differ
    """

    sums: np.ndarray
    counts: np.ndarray
    hull_x: np.ndarray
    hull_d: np.ndarray
    lines: np.ndarray
    slopes: np.ndarray
    bins: np.ndarray
    keys: np.ndarray


RR, CC, DD, RD, SUM_ABS, MAX_ABS, AT_ZERO, STEEPEST, SLACK, REL_SUM, MAX_POWERS, TINY = range(12)
SIDE_R, SIDE_C = 12, 16
MEAN, SPREAD, LOW, HIGH = range(4)  # of each side
SUMS = 20

FINITE, ZEROS, ARGMAX, CORNERS, BOTH_NAN, EQUAL_INF, CONFLICTING, FIRST, FIRST_NAN, SKETCHED, RELATIVE = range(11)
SAMPLED, KEYS = 11, 12
OF_R, OF_C = 13, 16
COUNT, NAN, INF = range(3)  # of each side
COUNTS = 19


class Room(NamedTuple):
    """Memory for one block: in the type of the lane, and float64 for its finite elements."""

    lane_r: np.ndarray
    lane_c: np.ndarray
    own_r: np.ndarray
    own_c: np.ndarray
    both_r: np.ndarray
    both_c: np.ndarray
    places: np.ndarray


@entry
def measure(r: np.ndarray, c: np.ndarray, start: int, full: bool, state: State, room: Room) -> None:
    """Take in a window."""
    for first in range(0, r.size, BLOCK):
        stop = min(first + BLOCK, r.size)
        block_r, block_c = loaded(r, first, stop, room.lane_r), loaded(c, first, stop, room.lane_c)
        low, high = _sampled(start + first, stop - first)
        if _add_finite(block_r, block_c, start + first, state, room):
            _add_details(block_r, block_c, low, high, full, state)
        else:
            kept = _add_mixed(block_r, block_c, start + first, state, room)
            places = room.places[:kept]
            low, high = np.searchsorted(places, low), np.searchsorted(places, high)
            _add_details(room.both_r[:kept], room.both_c[:kept], low, high, full, state)


@compiled()
def _sampled(begin: int, length: int) -> tuple[int, int]:
    """The part of a block that lies in a sampled piece; see `plan.sampled_piece`."""
    period = begin // PERIOD
    piece = period * PERIOD + period * SAMPLE_STRIDE * PIECE % PERIOD - begin
    return min(max(piece, 0), length), min(max(piece + PIECE, 0), length)


@compiled()
def _add_finite(r: np.ndarray, c: np.ndarray, begin: int, state: State, room: Room) -> bool:
    """Take in a block of finite numbers; False, and nothing taken in, if it is none."""
    seen = loops.survey(r, c, state.slopes)
    if not seen.top < math.inf:
        return False
    products = loops.inner_products(r, c)
    _add_side(state, SIDE_R, OF_R, r, products[0], products[3], seen.low_r, seen.high_r)
    _add_side(state, SIDE_C, OF_C, c, products[1], products[4], seen.low_c, seen.high_c)
    _add_products(products, r.size, state)
    zeros = 0.0 if seen.least > 0.0 else loops.top_and_zeros(r, c)[1]
    state.counts[ZEROS] += int(zeros)
    if seen.top > 0.0:
        if zeros > 0.0 and seen.top > state.sums[AT_ZERO]:
            state.sums[AT_ZERO] = max(state.sums[AT_ZERO], loops.largest_where_zero(r, c))
        if _may_matter(seen, state):
            _scan(r, c, room.places[:0], begin, state)
    return True


@compiled()
def _add_mixed(r: np.ndarray, c: np.ndarray, begin: int, state: State, room: Room) -> int:
    """Take in a block with NaN or infinities, or too large for its type; how many elements are finite on both sides."""
    kept = _sort_out(r, c, begin, state, room)
    if kept:
        both_r, both_c = room.both_r[:kept], room.both_c[:kept]
        _add_products(loops.inner_products(both_r, both_c), kept, state)
        top, zeros = loops.top_and_zeros(both_r, both_c)
        state.counts[ZEROS] += int(zeros)
        if zeros > 0.0:
            state.sums[AT_ZERO] = max(state.sums[AT_ZERO], loops.largest_where_zero(both_r, both_c))
        if top > 0.0:
            _scan(both_r, both_c, room.places[:kept], begin, state)
    return kept


@compiled()
def _add_side(
    state: State, side: int, of: int, values: np.ndarray, summed: float, squares: float, low: float, high: float
) -> None:
    """As `Moments.add` does."""
    sums, counts = state.sums, state.counts
    mean, spread = loops.mean_and_spread(values, summed, squares)
    both = counts[of + COUNT] + values.size
    share = values.size / both
    step = mean - sums[side + MEAN]
    if math.isfinite(step):
        sums[side + MEAN] += step * share
    else:
        sums[side + MEAN] = sums[side + MEAN] * (1.0 - share) + mean * share
    sums[side + SPREAD] += spread
    if counts[of + COUNT]:
        sums[side + SPREAD] += step * step * counts[of + COUNT] * share
    sums[side + LOW] = min(sums[side + LOW], low)
    sums[side + HIGH] = max(sums[side + HIGH], high)
    counts[of + COUNT] = both


@compiled()
def _add_products(products: tuple[float, float, float, float, float, float, float], size: int, state: State) -> None:
    sums = state.sums
    sums[SUM_ABS] += products[2]
    sums[RR] += products[3]
    sums[CC] += products[4]
    sums[DD] += products[5]
    sums[RD] += 0.0 if math.isnan(products[6]) else products[6]
    sums[MAX_ABS] = max(sums[MAX_ABS], 0.0)
    state.counts[FINITE] += size


@compiled()
def _may_matter(seen: loops.Survey, state: State) -> bool:
    """Whether a new maximum or a point over the hull may be in the block, as far as its own type can tell."""
    lines, near = state.lines, seen.top * _NEAR
    return (
        not state.counts[CORNERS]
        or seen.top + near >= min(state.sums[MAX_ABS], lines[LEVEL])
        or seen.over_1 >= lines[HEIGHTS] - near
        or seen.over_2 >= lines[HEIGHTS + 1] - near
        or seen.over_3 >= lines[HEIGHTS + 2] - near
        or seen.over_4 >= lines[HEIGHTS + 3] - near
    )


@compiled()
def _scan(r: np.ndarray, c: np.ndarray, places: np.ndarray, begin: int, state: State) -> None:
    """Look for the maximum, the steepest point and corners of the hull, part by part, in float64."""
    sums, lines = state.sums, state.lines
    for first in range(0, r.size, _PART):
        stop = min(first + _PART, r.size)
        over_1, over_2, over_3, over_4, most = loops.over_lines(r[first:stop], c[first:stop], lines)
        near = most * _NEARER
        if (
            not most <= min(sums[MAX_ABS], lines[LEVEL])
            or over_1 > lines[HEIGHTS] - near
            or over_2 > lines[HEIGHTS + 1] - near
            or over_3 > lines[HEIGHTS + 2] - near
            or over_4 > lines[HEIGHTS + 3] - near
        ):
            _scan_part(r, c, first, stop, places, begin, state)


@compiled()
def _scan_part(
    r: np.ndarray, c: np.ndarray, first: int, stop: int, places: np.ndarray, begin: int, state: State
) -> None:
    sums, counts, lines = state.sums, state.counts, state.lines
    for i in range(first, stop):
        x = abs(np.float64(r[i]))
        d = abs(np.float64(c[i]) - np.float64(r[i]))
        if d > sums[MAX_ABS]:
            sums[MAX_ABS] = d
            counts[ARGMAX] = begin + (places[i] if places.size else i)
        if d == math.inf:
            sums[AT_ZERO] = math.inf
        elif x > 0.0 and d > 0.0:
            lowest = lines[LEVEL]
            for line in range(HEIGHTS):
                lowest = min(lowest, lines[line] * x + lines[HEIGHTS + line])
            if d > lowest * (1.0 - _NEARER):
                _add_point(x, d, state)


@compiled()
def _add_point(x: float, d: float, state: State) -> None:
    sums, counts = state.sums, state.counts
    steeper = d / x > sums[STEEPEST]
    if steeper:
        sums[STEEPEST] = d / x
    corners = counts[CORNERS]
    over = d > height(state.hull_x, state.hull_d, corners, x) * (1.0 + sums[SLACK])
    if over:
        corners = insert(state.hull_x, state.hull_d, corners, x, d)
        if corners > CAPACITY:
            corners, sums[SLACK] = thin(state.hull_x, state.hull_d, corners, sums[SLACK])
        counts[CORNERS] = corners
    if steeper or over:
        draw_lines(state.hull_x, state.hull_d, corners, sums[STEEPEST], state.lines)
        for line in range(HEIGHTS):
            state.slopes[line] = state.lines[line]


@compiled()
def _add_details(r: np.ndarray, c: np.ndarray, low: int, high: int, full: bool, state: State) -> None:
    """Sketch all of a block or the sampled part of it, and note the octaves of that part."""
    if full:
        _add_sketch(r, c, state)
    elif low < high:
        _add_sketch(r[low:high], c[low:high], state)
    if low < high:
        _add_keys(r[low:high], c[low:high], state)


@compiled()
def _add_sketch(r: np.ndarray, c: np.ndarray, state: State) -> None:
    """As `Sketch.of` does."""
    if not r.size:
        return
    top, zeros = loops.top_and_zeros(r, c)
    state.counts[SKETCHED] += r.size
    state.counts[RELATIVE] += r.size - int(zeros)
    if top == 0.0:
        state.bins[0] += r.size
        return
    summed, most = loops.relative(r, c, state.sums[TINY])
    state.sums[REL_SUM] += summed
    state.sums[MAX_POWERS] = max(state.sums[MAX_POWERS], most)
    for i in range(r.size):
        state.bins[bits_of(abs(np.float64(c[i]) - np.float64(r[i]))) >> BIN_SHIFT] += 1


@compiled()
def _add_keys(r: np.ndarray, c: np.ndarray, state: State) -> None:
    """As `Cells.of` does."""
    state.counts[SAMPLED] += r.size
    for i in range(r.size):
        d = abs(np.float64(c[i]) - np.float64(r[i]))
        if d != 0.0:
            size = bits_of(abs(np.float64(r[i]))) >> OCTAVE_SHIFT
            state.keys[state.counts[KEYS]] = (size << 11) | (bits_of(d) >> OCTAVE_SHIFT)
            state.counts[KEYS] += 1


@compiled()
def _sort_out(r: np.ndarray, c: np.ndarray, begin: int, state: State, room: Room) -> int:
    """Count NaN and infinities, take in each side's own finite elements, and gather those finite on both."""
    own_r = _own(r, room.own_r, OF_R, state)
    own_c = _own(c, room.own_c, OF_C, state)
    _add_own(state, SIDE_R, OF_R, room.own_r[:own_r])
    _add_own(state, SIDE_C, OF_C, room.own_c[:own_c])
    kept = 0
    for i in range(r.size):
        x, y = np.float64(r[i]), np.float64(c[i])
        if math.isfinite(x) and math.isfinite(y):
            room.both_r[kept], room.both_c[kept], room.places[kept] = x, y, i
            kept += 1
        else:
            _add_place(x, y, begin + i, state.counts)
    return kept


@compiled()
def _own(values: np.ndarray, room: np.ndarray, of: int, state: State) -> int:
    kept = 0
    for i in range(values.size):
        x = np.float64(values[i])
        if math.isfinite(x):
            room[kept] = x
            kept += 1
        elif math.isnan(x):
            state.counts[of + NAN] += 1
        else:
            state.counts[of + INF] += 1
    return kept


@compiled()
def _add_own(state: State, side: int, of: int, values: np.ndarray) -> None:
    if values.size:
        summed, squares = loops.sum_and_squares(values, 0.0)
        low, high = loops.bounds(values)
        _add_side(state, side, of, values, summed, squares, low, high)


@compiled()
def _add_place(x: float, y: float, place: int, counts: np.ndarray) -> None:
    """As `add_places` does."""
    if math.isnan(x) and math.isnan(y):
        counts[BOTH_NAN] += 1
        if counts[FIRST_NAN] < 0:
            counts[FIRST_NAN] = place
    elif x == y:
        counts[EQUAL_INF] += 1
    else:
        counts[CONFLICTING] += 1
        if counts[FIRST] < 0:
            counts[FIRST] = place


@entry
def count(r: np.ndarray, c: np.ndarray, atol: float, rtol: float, room: Room) -> int:
    """Elements of a window outside a tolerance."""
    outside = 0
    for first in range(0, r.size, BLOCK):
        stop = min(first + BLOCK, r.size)
        block_r, block_c = loaded(r, first, stop, room.lane_r), loaded(c, first, stop, room.lane_c)
        outside += loops.count_outside(block_r, block_c, atol, rtol)
    return outside
