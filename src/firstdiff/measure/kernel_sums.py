"""From the survey of a block to the figures of a stretch.

Most blocks are told by their sums alone. Where digits are lost in these, or the candidate may reach beyond its bounds,
the values are looked at again.
"""

from __future__ import annotations

import math

import numpy as np

from firstdiff.measure import kernel_loops as loops
from firstdiff.measure.direction import FAR
from firstdiff.measure.kernel_lanes import compiled
from firstdiff.measure.kernel_places import (
    CC,
    DD,
    FINITE,
    HIGH_C,
    HIGH_R,
    LOW_C,
    LOW_R,
    MAX_ABS,
    MEAN_C,
    MEAN_R,
    RC,
    RD,
    REST,
    RR,
    SUM_ABS,
    SUM_C,
    SUM_R,
    SURVEY,
    ZEROS,
)

_UNDERFLOW = 1e-32  # a sum of float32 squares below this may have lost some of them


@compiled()
def is_safe(found: np.ndarray) -> bool:
    """Whether float32 has not overflowed and lost no small squares."""
    for summed in range(SUM_R, ZEROS):
        if not math.isfinite(found[summed]):
            return False
    if found[SUM_ABS] > 0.0:
        # where the candidate is another thing altogether, cc does not follow from the rest
        return bool(min(found[RR], found[CC], found[DD]) >= _UNDERFLOW and found[DD] < found[RR] * FAR)
    return bool(found[RR] >= _UNDERFLOW or (found[LOW_R] == 0.0 and found[HIGH_R] == 0.0))


@compiled()
def needs_values(found: np.ndarray, count: int, cancelled: float, sums: np.ndarray) -> bool:
    """Whether `add_block` has to look at the values of a block, of so many elements."""
    return (
        _spread_is_lost(found[SUM_R], found[RR], count, cancelled)
        or _spread_is_lost(found[SUM_C], found[CC], count, cancelled)
        or _reaches_out(found, sums)
        or _is_far(found)
        or _rest_is_lost(found, cancelled)
    )


@compiled()
def _spread_is_lost(summed: float, squares: float, count: int, cancelled: float) -> bool:
    if not math.isfinite(summed):
        return True
    return not (squares - summed * (summed / count) > squares * cancelled or squares == 0.0)


@compiled()
def _reaches_out(found: np.ndarray, sums: np.ndarray) -> bool:
    """Whether some c may be beyond the bounds of those before."""
    reach = max(sums[MAX_ABS], 0.0) * (1.0 + loops.NEAR)
    return bool(found[LOW_R] - reach < sums[LOW_C] or found[HIGH_R] + reach > sums[HIGH_C])


@compiled()
def _is_far(found: np.ndarray) -> bool:
    return bool(not found[DD] < found[RR] * FAR and found[CC] > 0.0)


@compiled()
def _rest_is_lost(found: np.ndarray, cancelled: float) -> bool:
    rr, rd, dd = found[RR], found[RD], found[DD]
    return bool(rr > 0.0 and dd > 0.0 and dd - rd * (rd / rr) <= dd * cancelled)


@compiled()
def add_block(
    r: np.ndarray, c: np.ndarray, count: int, found: np.ndarray, cancelled: float, sums: np.ndarray, counts: np.ndarray
) -> None:
    """Take in the sums and bounds of a block of so many finite numbers, which are there where it `needs_values`."""
    _add_side(sums, counts[FINITE], MEAN_R, r, count, found[SUM_R], found[RR], cancelled)
    _add_side(sums, counts[FINITE], MEAN_C, c, count, found[SUM_C], found[CC], cancelled)
    counts[FINITE] += count
    sums[MAX_ABS] = max(sums[MAX_ABS], 0.0)
    sums[LOW_R], sums[HIGH_R] = min(sums[LOW_R], found[LOW_R]), max(sums[HIGH_R], found[HIGH_R])
    if _reaches_out(found, sums):
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
    along, squares, is_lost = rr + rd, dd, _rest_is_lost(found, cancelled)
    if _is_far(found):
        along, squares = loops.along(r, c), cc
        if rr > 0.0:
            squares -= along * (along / rr)
            is_lost = squares <= cc * cancelled
    elif rr > 0.0:
        squares -= rd * (rd / rr)
    if is_lost:
        along, squares = loops.rest_of(r, c, rr, along / rr)
    if rr > 0.0 and sums[RR] > 0.0:
        step = sums[RC] / sums[RR] - along / rr
        squares += step * step * sums[RR] * (rr / (sums[RR] + rr))
    found[RC] = along
    sums[REST] += squares


@compiled()
def _add_side(
    sums: np.ndarray,
    known: int,
    mean_at: int,
    values: np.ndarray,
    count: int,
    summed: float,
    squares: float,
    cancelled: float,
) -> None:
    """As `Moments.add` does; the spread stands next to the mean."""
    mean = summed / count
    spread = squares - summed * mean
    if _spread_is_lost(summed, squares, count, cancelled):
        mean, spread = loops.mean_and_spread(values, mean)
    share = count / (known + count)
    step = mean - sums[mean_at]
    if math.isfinite(step):
        sums[mean_at] += step * share
    else:
        sums[mean_at] = sums[mean_at] * (1.0 - share) + mean * share
    sums[mean_at + 1] += spread
    if known:
        sums[mean_at + 1] += step * step * known * share
