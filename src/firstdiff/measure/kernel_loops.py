"""The inner loops of the compiled engine: each runs over one block and becomes vector code.

`loose` ones may take their sums in any order; the others give exactly what they say.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from firstdiff.measure.cells import OCTAVE_SHIFT
from firstdiff.measure.kernel_lanes import bits_of, compiled, float_of, larger, smaller
from firstdiff.measure.sketch import BIN_SHIFT

_EXPONENT = 0x7FF << OCTAVE_SHIFT
_INVERSE = 0x7FE << OCTAVE_SHIFT  # less the bits of a power of two: the bits of its inverse
_LEAST_INVERSE = 2.0**-1023
_FAR = 3e38
_CANCELLED = 1e-4
_DOWN = 2.0**-64


class Survey(NamedTuple):
    """Bounds of both sides, the least |r|, the largest |c - r| (NaN and infinity top every number), and the most that
    |c - r| exceeds four slopes times |r| by.
    """

    low_r: float
    high_r: float
    low_c: float
    high_c: float
    least: float
    top: float
    over_1: float
    over_2: float
    over_3: float
    over_4: float


@compiled(loose=True)
def survey(r: np.ndarray, c: np.ndarray, slopes: np.ndarray) -> Survey:
    """A first look, in the type of the elements. Of NaN only `top` can tell."""
    first, second, third, fourth = slopes[0], slopes[1], slopes[2], slopes[3]
    low_r = high_r = r[0]
    low_c = high_c = c[0]
    least = abs(r[0])
    over_1 = over_2 = over_3 = over_4 = r.dtype.type(-_FAR)
    top = bits_of(r.dtype.type(0))
    for i in range(r.size):
        x, d = abs(r[i]), abs(c[i] - r[i])
        low_r, high_r = smaller(low_r, r[i]), larger(high_r, r[i])
        low_c, high_c = smaller(low_c, c[i]), larger(high_c, c[i])
        least = smaller(least, x)
        top = max(top, bits_of(d))
        over_1 = larger(over_1, d - first * x)
        over_2 = larger(over_2, d - second * x)
        over_3 = larger(over_3, d - third * x)
        over_4 = larger(over_4, d - fourth * x)
    return Survey(
        float(low_r),
        float(high_r),
        float(low_c),
        float(high_c),
        float(least),
        float(float_of(top)),
        float(over_1),
        float(over_2),
        float(over_3),
        float(over_4),
    )


@compiled(loose=True)
def where_zero(r: np.ndarray, c: np.ndarray) -> tuple[float, float]:
    """How many r are 0, and the largest |c - r| there."""
    none, one = r.dtype.type(0), r.dtype.type(1)
    zeros = most = none
    for i in range(r.size):
        zeros += one if r[i] == none else none
        most = larger(most, abs(c[i]) if r[i] == none else none)
    return float(zeros), float(most)


@compiled(loose=True)
def inner_products(r: np.ndarray, c: np.ndarray) -> tuple[float, float, float, float, float, float, float]:
    """Sums of r, c, |c - r|, and the products rr, cc, dd, rd with d = c - r."""
    sum_r, sum_c, sum_abs, rr, cc, dd, rd = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(r.size):
        x, y = np.float64(r[i]), np.float64(c[i])
        d = y - x
        sum_r += x
        sum_c += y
        sum_abs += abs(d)
        rr += x * x
        cc += y * y
        dd += d * d
        rd += x * d
    return sum_r, sum_c, sum_abs, rr, cc, dd, rd


@compiled(loose=True)
def sum_and_squares(values: np.ndarray, shift: float) -> tuple[float, float]:
    """Of the deviations from a shift."""
    summed, squares = 0.0, 0.0
    for i in range(values.size):
        deviation = np.float64(values[i]) - shift
        summed += deviation
        squares += deviation * deviation
    return summed, squares


@compiled()
def mean_and_spread(values: np.ndarray, summed: float, squares: float) -> tuple[float, float]:
    """As in `moments.py`: around the mean where the plain sums cancel."""
    count = values.size
    if math.isfinite(summed):
        mean = summed / count
        spread = squares - summed * mean
        if spread > squares * _CANCELLED or squares == 0.0:
            return mean, spread
    else:
        mean = 0.0
        for i in range(count):
            mean += np.float64(values[i]) * _DOWN
        mean = mean / count / _DOWN
    rest, squares = sum_and_squares(values, mean)
    spread = squares - rest * rest / count
    if math.isnan(spread):
        return mean, math.inf
    return mean + rest / count, max(spread, 0.0)


@compiled(loose=True)
def over_lines(r: np.ndarray, c: np.ndarray, lines: np.ndarray) -> tuple[float, float, float, float, float]:
    """In float64: the most that |c - r| exceeds four slopes times |r| by where r is not 0, and the largest |c - r|."""
    first, second, third, fourth = lines[0], lines[1], lines[2], lines[3]
    over_1 = over_2 = over_3 = over_4 = -math.inf
    most = 0.0
    for i in range(r.size):
        x = np.float64(r[i])
        d = abs(np.float64(c[i]) - x)
        x = abs(x) if x != 0.0 else _FAR
        most = larger(most, d)
        over_1 = larger(over_1, d - first * x)
        over_2 = larger(over_2, d - second * x)
        over_3 = larger(over_3, d - third * x)
        over_4 = larger(over_4, d - fourth * x)
    return over_1, over_2, over_3, over_4, most


@compiled(loose=True)
def relative(r: np.ndarray, c: np.ndarray, tiny: float) -> tuple[float, float]:
    """The sum of |c - r| / |r|, and the most that |c - r| is of the power of two under |r|, where r is not 0."""
    summed, most = 0.0, 0.0
    for i in range(r.size):
        x, y = np.float64(r[i]), np.float64(c[i])
        d = abs(y - x) if x != 0.0 else 0.0
        x = abs(x) if x != 0.0 else 1.0
        power = bits_of(larger(x, tiny)) & _EXPONENT
        summed += d / x
        most = larger(most, d * larger(float_of(_INVERSE - power), _LEAST_INVERSE))
    return summed, most


@compiled()
def bin_places(r: np.ndarray, c: np.ndarray, places: np.ndarray) -> None:
    """The bins of |c - r|, as in `sketch.py`."""
    for i in range(r.size):
        places[i] = bits_of(abs(np.float64(c[i]) - np.float64(r[i]))) >> BIN_SHIFT


@compiled()
def octaves(r: np.ndarray, c: np.ndarray, keys: np.ndarray) -> None:
    """The octaves of |r| and |c - r| as one number, as in `cells.py`."""
    for i in range(r.size):
        x = np.float64(r[i])
        size, difference = bits_of(abs(x)) >> OCTAVE_SHIFT, bits_of(abs(np.float64(c[i]) - x)) >> OCTAVE_SHIFT
        keys[i] = (size << 11) | difference


@compiled()
def count_outside(r: np.ndarray, c: np.ndarray, atol: float, rtol: float) -> int:
    """Elements that are finite on both sides with |c - r| > atol + rtol * |r|."""
    outside, endless = 0, 0
    for i in range(r.size):
        x = np.float64(r[i])
        d = abs(np.float64(c[i]) - x)
        outside += d > atol + rtol * abs(x)
        endless += d == math.inf
    if endless:
        for i in range(r.size):
            x, y = np.float64(r[i]), np.float64(c[i])
            if not (math.isfinite(x) and math.isfinite(y)) and abs(y - x) > atol + rtol * abs(x):
                outside -= 1
    return outside
