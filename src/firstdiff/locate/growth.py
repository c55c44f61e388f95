"""How large an error is against what was allowed, and whether it jumps."""

from __future__ import annotations

from math import hypot, inf

from firstdiff.locate.row import DepthPoint, Row
from firstdiff.schema import Pair

# In a GPT of three layers, float32, with 49 faults planted one by one, an error that is there already grows at most
# threefold from one module to the next; the module that makes it stands out 320-fold or more
JUMP = 10.0


def severity(pair: Pair) -> float:
    """The greatest difference in units of what was allowed there; infinite where no number can tell."""
    metrics, tolerance = pair.metrics, pair.tolerance
    if metrics is None or tolerance is None or metrics.max_abs is None:
        return inf if pair.status == "mismatch" else 0.0
    if (metrics.nan_candidate, metrics.inf_candidate) != (metrics.nan_reference, metrics.inf_reference):
        return inf
    at = metrics.reference_at_max
    allowed = tolerance.atol + tolerance.rtol * (abs(at) if isinstance(at, int | float | complex) else 0.0)
    if allowed == 0:
        return inf if metrics.max_abs else 0.0
    return float(metrics.max_abs / allowed)


def jumps(pair: Pair, before: float) -> bool:
    """Whether a row is so much worse than what came before it that the error must be its own."""
    return severity(pair) > JUMP * before


def depth_of(row: Row) -> DepthPoint | None:
    """The error of a row as a point over depth; None where it has none."""
    pair = row.pair
    if row.is_evidence or pair.metrics is None or pair.metrics.rel_l2 is None:
        return None
    return DepthPoint(pair.index, pair.key, pair.metrics.rel_l2, _allowed(pair))


def _allowed(pair: Pair) -> float | None:
    """What is allowed of an element of typical size, relative to that size."""
    statistics = pair.reference.statistics if pair.reference else None
    if pair.tolerance is None or statistics is None or statistics.mean is None or statistics.std is None:
        return None
    typical = hypot(statistics.mean, statistics.std)
    return None if typical == 0 else pair.tolerance.atol / typical + pair.tolerance.rtol
