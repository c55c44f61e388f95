"""Match or mismatch, and what would have passed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from firstdiff.measure import PairMeasurement
from firstdiff.measure.spread import beyond_floor, spread_between
from firstdiff.schema import Required
from firstdiff.trace import Source


@dataclass(frozen=True, slots=True)
class Judgement:
    status: Literal["match", "mismatch"]
    reason: str | None
    required: Required | None


def judge(measured: PairMeasurement, *, equal_nan: bool) -> Judgement:
    """The verdict on a pair that was measured under its tolerance.

    A NaN or an infinity that the other side does not share is a mismatch whatever the tolerance.
    """
    nonfinite, metrics = measured.nonfinite, measured.metrics
    reasons = []
    if nonfinite.conflicting:
        reasons.append(f"{nonfinite.conflicting:,} elements are NaN or Inf on one side only, or not the same")
    if nonfinite.both_nan and not equal_nan:
        reasons.append(f"{nonfinite.both_nan:,} elements are NaN on both sides (--equal-nan lets them match)")
    beyond = metrics.mismatched - nonfinite.conflicting - (0 if equal_nan else nonfinite.both_nan)
    if beyond > 0:
        reasons.append("values differ by more than is allowed")
    if not reasons:
        return Judgement("match", "no elements to compare" if metrics.elements == 0 else None, None)
    return Judgement("mismatch", "; ".join(reasons), _required(measured, equal_nan))


def judge_channels(reference: Source, candidate: Source, floor: Mapping[str, Any]) -> str | None:
    """Why a pair whose elements are all within the floor is a mismatch all the same; None if it is none.

    In half precision one wrongly scaled channel hides below the largest healthy difference of single elements, but
    healthy differences have no direction and a wrong scale has one.
    """
    spread = spread_between(reference.view(), candidate.view())
    beyond = beyond_floor(spread.difference, floor) if spread else {}
    if not beyond:
        return None
    figure, times = max(beyond.items(), key=lambda item: item[1])
    words = {"channel_gain": "is scaled", "channel_rms": "differs", "max_abs": "differs"}[figure]
    return f"a channel of the last axis {words} by {times:.3g} times what healthy runs differ by (floor: {figure})"


def _required(measured: PairMeasurement, equal_nan: bool) -> Required:
    if measured.nonfinite.conflicting or (measured.nonfinite.both_nan and not equal_nan):
        return Required(None, None)
    return Required(measured.envelope.required_atol(), measured.envelope.required_rtol())
