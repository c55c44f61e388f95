"""Match or mismatch, and what would have passed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from firstdiff.measure import PairMeasurement
from firstdiff.schema import Required


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


def _required(measured: PairMeasurement, equal_nan: bool) -> Required:
    if measured.nonfinite.conflicting or (measured.nonfinite.both_nan and not equal_nan):
        return Required(None, None)
    return Required(measured.envelope.required_atol(), measured.envelope.required_rtol())
