"""Judge the candidate's error against that of a control, a third run known to be good at the candidate's precision.

Both are measured against the reference. The control's error is then known for every tensor, row and channel, and
the candidate's may be about as large: no limit has to be guessed from other models.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, sqrt

import numpy as np

from firstdiff import dtypes
from firstdiff.judge.noise_rule import percent, short_name
from firstdiff.judge.noise_sums import LineSums, NoiseSums
from firstdiff.judge.systematic import noise_sums, without_fillers
from firstdiff.measure import scan_pair
from firstdiff.schema import Controlled
from firstdiff.trace import Source

# times the control's error that a healthy run at its precision stays below: on two trained transformers in bf16, eager,
# fused and in other orders of summation, 34,660 pairs reach 1.5, 5.7, 4.5 and 8.5; a token that holds a massive value
# has the rounding of that value, which the control may happen to get right
MOST_RMS = 1.6
MOST_ROW = 6.5
MOST_CHANNEL = 5.5
MOST_ELEMENT = 10.0
ILL_CONDITIONED = 0.1  # relative error of a control from which on the reference says nothing at this precision
_ROUNDED = 0.3  # eps of error that the rounding of a result alone leaves: less is no measure
_ROUNDED_LINE = 0.6  # the same of one line, in which few values may hold nearly all of the size
_LEAST_ROWS = 8  # without the worst of them the others still tell what is usual
_ENOUGH = 256  # elements, or lines, of which errors are about the same in any two healthy runs
_MOST_SLACK = 4.0


@dataclass(frozen=True, slots=True)
class _Line:
    """The worst row or channel, and how many times the control's error it has."""

    ratio: float
    index: int


def beside_control(pair: tuple[Source, Source], control: tuple[Source, Source], dtype: np.dtype) -> Controlled | None:
    """Judge a pair by the error of a control; None where the two cannot be measured in the same way.

    control: reference and control, in the layout of the pair
    dtype: the coarsest type that the control was computed in
    """
    sums, control_sums = _sums(pair), _sums(control)
    if sums is None or control_sums is None or len(sums.rows) != len(control_sums.rows):
        return None
    total, healthy = sums.rows.total, control_sums.rows.total
    if total.rr[0] == 0:
        return None
    eps = dtypes.eps_of(dtype)
    size = sqrt(total.rr[0])
    error, cost = sqrt(total.dd[0]) / size, sqrt(healthy.dd[0]) / size
    row = _worst_line(sums.rows, control_sums.rows, eps, uneven=True)
    rms = error / max(cost, _ROUNDED * eps)
    if len(sums.rows) >= _LEAST_ROWS:
        rms = min(rms, _without(row.index, sums.rows, control_sums.rows, eps), _usual(sums.rows, control_sums.rows))
    channel = (
        _worst_line(sums.channels, control_sums.channels, eps)
        if len(sums.channels) == len(control_sums.channels)
        else None
    )
    typical = size / sqrt(max(total.count[0], 1))
    found = Controlled(
        status="match",
        dtype=dtype.name,
        error=error,
        control_error=cost,
        rms=rms,
        row=row.ratio,
        channel=None if channel is None else channel.ratio,
        element=float(total.max_d[0] / max(healthy.max_d[0], eps * typical)),
        row_index=row.index,
        channel_index=None if channel is None else channel.index,
    )
    return _judged(found, int(total.count[0]), eps)


def _judged(found: Controlled, count: int, eps: float) -> Controlled:
    """Say what the ratios mean; few elements have errors that differ more from run to run."""
    slack = min(_MOST_SLACK, sqrt(max(1.0, _ENOUGH / max(count, 1))))
    cost = f"what {short_name(found.dtype)} costs"
    figures = f"{percent(found.error)} against {percent(found.control_error)}"
    failed = []
    if found.rms > MOST_RMS * slack:
        failed.append(f"{_times(found.rms)} {cost} here ({figures})")
    lines = [
        (found.row, MOST_ROW, f"row {found.row_index}"),
        (found.channel or 0.0, MOST_CHANNEL, f"channel {found.channel_index}"),
    ]
    for ratio, most, line in sorted(lines, key=lambda entry: -entry[0] / entry[1]):
        if ratio > most * slack:
            failed.append(f"{line} is off by {_times(ratio)} {cost} there")
    if found.element > MOST_ELEMENT * slack:
        failed.append(f"the largest difference is {_times(found.element)} {cost}")
    if failed:
        return replace(found, status="mismatch", text="; ".join(failed[:2]))
    if found.control_error >= ILL_CONDITIONED and found.error > 0:
        text = f"the control is {percent(found.control_error)} off itself: the reference is ill-conditioned here"
        return replace(found, status="inconclusive", text=text)
    if found.error <= _ROUNDED * eps:
        return replace(found, text=f"within the rounding of {short_name(found.dtype)}")
    return replace(found, text=f"this is {cost} here ({figures})")


def _worst_line(sums: LineSums, control_sums: LineSums, eps: float, *, uneven: bool = False) -> _Line:
    """Compare errors line by line; a line where the control happens to be right is judged by the others, too.

    uneven: any line may be as far off as the control's worst is, such as a token that attends elsewhere
    """
    if not len(sums):
        return _Line(0.0, 0)
    healthy = control_sums.dd + control_sums.dd.mean()
    rounded = (_ROUNDED_LINE * eps) ** 2 * np.maximum(sums.rr, sums.rr.mean())
    allowed = np.maximum(healthy, rounded)
    if uneven:
        relative = np.divide(
            control_sums.dd, control_sums.rr, out=np.zeros_like(allowed), where=control_sums.rr > 0
        ).max()
        allowed = np.maximum(allowed, np.minimum(relative * sums.rr, control_sums.dd.max()))
    ratios = np.sqrt(np.divide(sums.dd, allowed, out=np.zeros_like(allowed), where=allowed > 0))
    ratios[(allowed == 0) & (sums.dd > 0)] = np.inf
    worst = int(ratios.argmax())
    return _Line(float(ratios[worst]), worst)


def _without(worst: int, sums: LineSums, control_sums: LineSums, eps: float) -> float:
    """Return the ratio without one row: a massive value that rounds another way is the worst row's, not everyone's."""
    others = np.arange(len(sums)) != worst
    rest, healthy = sums.where(others).total, control_sums.where(others).total
    least = (_ROUNDED * eps) ** 2 * rest.rr[0]
    allowed = max(float(healthy.dd[0]), float(least))
    return sqrt(rest.dd[0] / allowed) if allowed > 0 else 0.0


def _usual(sums: LineSums, control_sums: LineSums) -> float:
    """Return the median ratio of a row, which a few tokens that attend elsewhere do not move; inf if most are equal."""
    both = (sums.dd > 0) & (control_sums.dd > 0)
    if 2 * np.count_nonzero(both) < len(sums):
        return inf
    return float(np.sqrt(np.median(sums.dd[both] / control_sums.dd[both])))


def _sums(pair: tuple[Source, Source]) -> NoiseSums | None:
    scan = scan_pair(*pair, threads=1)
    filled = without_fillers(scan, pair)
    if filled is None:
        return noise_sums(scan, pair, None)
    return noise_sums(scan, filled.sources, filled) if filled.sources else None


def _times(ratio: float) -> str:
    return f"{ratio:.1f} times" if ratio < 100 else f"{ratio:,.0f} times"
