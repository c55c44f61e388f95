"""The inner loops of the compiled engine: each runs over one block and becomes vector code.

`loose` ones may take their sums in any order; the others give exactly what they say. Both sides are read at every
element: what is read at times only does not become vector code.
"""

from __future__ import annotations

import math

import numpy as np

from firstdiff.measure.cells import OCTAVE_SHIFT
from firstdiff.measure.kernel_lanes import bits_of, compiled, float_of, larger, number, smaller, wide
from firstdiff.measure.kernel_places import (
    CC,
    DD,
    HEIGHTS,
    HIGH_R,
    LEVEL,
    LOW_R,
    RD,
    ROW,
    RR,
    STRIDE,
    SUM_ABS,
    SUM_C,
    SUM_R,
    Side,
)
from firstdiff.measure.kernel_survey import block_figures
from firstdiff.measure.sketch import BIN_SHIFT, BINS

_EXPONENT = 0x7FF << OCTAVE_SHIFT
_INVERSE = 0x7FE << OCTAVE_SHIFT  # less the bits of a power of two: the bits of its inverse
_LEAST_INVERSE = 2.0**-1023
_DOWN = 2.0**-64
NEAR = 2.0**-48  # more than rounding in float64 can hide


@compiled()
def zeros_of(values: np.ndarray) -> int:
    """How many are 0."""
    zeros = 0
    for i in range(values.size):
        zeros += int(number(values[i]) == 0)
    return zeros


@compiled()
def survey(
    r: np.ndarray, c: np.ndarray, side_r: Side, side_c: Side, lines: np.ndarray, overs: np.ndarray, found: np.ndarray
) -> None:
    """Look at a block; where there is NaN or an infinity, `DD` is none or infinite.

    `overs` tells of every row: above 0, a new maximum or a point over the hull may be in it; at 0, some r are 0.
    """
    whole = r.size - r.size % STRIDE
    low, high, sum_r, sum_c, sum_abs, rr, dd, rd = math.inf, -math.inf, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    if whole:
        low, high, sum_r, sum_c, sum_abs, rr, dd, rd = block_figures(
            r[:whole], c[:whole], lines, overs, side_r.ways, side_c.ways, side_r.shift, side_c.shift
        )
    for i in range(whole, r.size):
        x, y = wide(r[i]), wide(c[i])
        d = y - x
        low, high = min(low, x), max(high, x)
        sum_r, sum_c, sum_abs = sum_r + x, sum_c + y, sum_abs + abs(d)
        rr, dd, rd = rr + x * x, dd + d * d, rd + x * d
        overs[i // ROW] = math.inf
    found[LOW_R], found[HIGH_R], found[SUM_R], found[SUM_C], found[SUM_ABS] = low, high, sum_r, sum_c, sum_abs
    found[RR], found[DD], found[RD], found[CC] = rr, dd, rd, rr + 2.0 * rd + dd


@compiled(loose=True)
def bounds(values: np.ndarray) -> tuple[float, float]:
    """Least and greatest."""
    low = high = number(values[0])
    for i in range(values.size):
        value = number(values[i])
        low, high = smaller(low, value), larger(high, value)
    return float(low), float(high)


@compiled()
def is_finite(r: np.ndarray, c: np.ndarray) -> bool:
    """Whether every difference is a number."""
    endless = 0
    for i in range(r.size):
        endless += int(not abs(number(c[i]) - number(r[i])) < math.inf)
    return endless == 0


@compiled(loose=True)
def add_exactly(r: np.ndarray, c: np.ndarray, found: np.ndarray) -> None:
    """The sums of a block in float64, put in the places of the survey's."""
    sum_r = sum_c = sum_abs = rr = cc = dd = rd = 0.0
    for i in range(r.size):
        x, y = wide(r[i]), wide(c[i])
        d = y - x
        sum_r += x
        sum_c += y
        sum_abs += abs(d)
        rr += x * x
        cc += y * y
        dd += d * d
        rd += x * d
    found[SUM_R], found[SUM_C], found[SUM_ABS] = sum_r, sum_c, sum_abs
    found[RR], found[CC], found[DD], found[RD] = rr, cc, dd, rd


@compiled()
def _left(x: float, y: float, slope: float) -> float:
    return y - slope * x


@compiled(loose=True)
def along(r: np.ndarray, c: np.ndarray) -> float:
    """<r, c>."""
    summed = 0.0
    for i in range(r.size):
        summed += wide(r[i]) * wide(c[i])
    return summed


@compiled(loose=True)
def rest_of(r: np.ndarray, c: np.ndarray, rr: float, slope: float) -> tuple[float, float]:
    """As in `direction.py`, element by element; `slope` is that of c."""
    squares = along = 0.0
    for i in range(r.size):
        x = wide(r[i])
        e = _left(x, wide(c[i]), slope)
        squares += e * e
        along += x * e
    return slope * rr + along, max(squares - along * (along / rr), 0.0)


@compiled(loose=True)
def sum_and_squares(values: np.ndarray, shift: float) -> tuple[float, float]:
    """Of the deviations from a shift."""
    summed, squares = 0.0, 0.0
    for i in range(values.size):
        deviation = wide(values[i]) - shift
        summed += deviation
        squares += deviation * deviation
    return summed, squares


@compiled()
def mean_and_spread(values: np.ndarray, mean: float) -> tuple[float, float]:
    """As in `moments.py`, around a mean that is about right, or not finite where the sum was not."""
    count = values.size
    if not math.isfinite(mean):
        mean = 0.0
        for i in range(count):
            mean += wide(values[i]) * _DOWN
        mean = mean / count / _DOWN
    rest, squares = sum_and_squares(values, mean)
    spread = squares - rest * rest / count
    if math.isnan(spread):
        return mean, math.inf
    return mean + rest / count, max(spread, 0.0)


@compiled(loose=True)
def is_over(r: np.ndarray, c: np.ndarray, lines: np.ndarray, at_zero: float) -> bool:
    """In float64: whether some |c - r| is over the lines, or over `at_zero` where r is 0; one on the ray counts."""
    ray, level = lines[0] * (1.0 - NEAR), lines[LEVEL]
    slope_1, slope_2, slope_3 = lines[1] * (1.0 + NEAR), lines[2] * (1.0 + NEAR), lines[3] * (1.0 + NEAR)
    height_1, height_2 = lines[HEIGHTS + 1] * (1.0 + NEAR), lines[HEIGHTS + 2] * (1.0 + NEAR)
    height_3 = lines[HEIGHTS + 3] * (1.0 + NEAR)
    most = 0.0
    for i in range(r.size):
        value = wide(r[i])
        x, d = abs(value), abs(wide(c[i]) - value)
        lowest = smaller(smaller(ray * x, level), slope_1 * x + height_1)
        lowest = smaller(lowest, smaller(slope_2 * x + height_2, slope_3 * x + height_3))
        most = larger(most, d - (lowest if value != 0.0 else at_zero))
    return bool(most > 0.0)


@compiled(loose=True)
def ratios(r: np.ndarray, c: np.ndarray, lane: np.ndarray) -> tuple[float, float]:
    """The sum and the largest of |c - r| / |r| where r is not 0, in the type of the lane."""
    kind = lane.dtype.type
    summed, most = 0.0, kind(0)
    for i in range(r.size):
        x = kind(number(r[i]))
        d = abs(kind(number(c[i])) - x)
        ratio = (d if x != kind(0) else kind(0)) / (abs(x) if x != kind(0) else kind(1))
        summed += np.float64(ratio)
        most = larger(most, ratio)
    return summed, float(most)


@compiled(loose=True)
def most_powers(r: np.ndarray, c: np.ndarray, tiny: float) -> float:
    """The most that |c - r| is of the power of two under |r|, where r is not 0."""
    most = 0.0
    for i in range(r.size):
        value = wide(r[i])
        d = abs(wide(c[i]) - value)
        d = d if value != 0.0 else 0.0
        power = bits_of(larger(abs(value), tiny)) & _EXPONENT
        most = larger(most, d * larger(float_of(_INVERSE - power), _LEAST_INVERSE))
    return most


@compiled()
def bin_places(r: np.ndarray, c: np.ndarray, places: np.ndarray) -> tuple[int, int]:
    """The bins of |c - r|, as in `sketch.py`; the first of them but that of 0, and the last."""
    first, last = np.int32(BINS), np.int32(0)
    for i in range(r.size):
        place = np.int32(bits_of(abs(wide(c[i]) - wide(r[i]))) >> BIN_SHIFT)
        first, last = min(first, place if place else np.int32(BINS)), max(last, place)
        places[i] = place
    return int(first), int(last)


@compiled()
def count_outside(r: np.ndarray, c: np.ndarray, atol: float, rtol: float) -> int:
    """Elements that are finite on both sides with |c - r| > atol + rtol * |r|."""
    outside, endless = 0, 0
    for i in range(r.size):
        x = wide(r[i])
        d = abs(wide(c[i]) - x)
        outside += int(d > atol + rtol * abs(x))
        endless += int(d == math.inf)
    if endless:
        for i in range(r.size):
            x, y = wide(r[i]), wide(c[i])
            if not (math.isfinite(x) and math.isfinite(y)) and abs(y - x) > atol + rtol * abs(x):
                outside -= 1
    return outside
