"""How far a pair is from what is allowed, as one number to sort and to draw by."""

from __future__ import annotations

import math

from firstdiff.measure import Envelope


def worst_ratio(envelope: Envelope, atol: float, rtol: float) -> float:
    """The largest `|c - r| / (atol + rtol * |r|)`; above 1 it is not allowed, infinite where nothing but 0 is.

    >>> worst_ratio(envelope, 1e-5, 0.0)                                        # doctest: +SKIP
    0.25
    """
    points = [*envelope.corners, (0.0, envelope.at_zero)]
    return max((_ratio(difference, atol + rtol * size) for size, difference in points), default=0.0)


def _ratio(difference: float, allowed: float) -> float:
    if difference == 0.0:
        return 0.0
    return difference / allowed if allowed > 0.0 else math.inf
