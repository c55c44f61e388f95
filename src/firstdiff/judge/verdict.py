"""The verdict on a pair: match or mismatch, its ratio to the tolerance, and the tolerance that would pass."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from firstdiff.judge.noise_rule import sentence_of
from firstdiff.measure import Envelope, PairMeasurement
from firstdiff.measure.noise_floor import beyond_floor, spread_between
from firstdiff.schema import JudgingBasis, Required, Systematic
from firstdiff.trace import Source

_MOST_PARTS = 2  # in words: the others are what the same error does elsewhere
BEYOND_TOLERANCE = "values differ beyond the tolerance"


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
    reasons = nonfinite_reasons(nonfinite.conflicting, nonfinite.both_nan, equal_nan=equal_nan)
    beyond = metrics.mismatched - nonfinite.conflicting - (0 if equal_nan else nonfinite.both_nan)
    if beyond > 0:
        reasons.append(BEYOND_TOLERANCE)
    if not reasons:
        return Judgement("match", "no elements to compare" if metrics.elements == 0 else None, None)
    return Judgement("mismatch", "; ".join(reasons), _required(measured, equal_nan))


def nonfinite_reasons(conflicting: int, both_nan: int, *, equal_nan: bool) -> list[str]:
    """Say why NaN and Inf make a pair a mismatch, whatever the tolerance."""
    reasons = []
    if conflicting:
        reasons.append(f"{conflicting:,} elements are NaN or Inf on one side only, or not the same")
    if both_nan and not equal_nan:
        reasons.append(f"{both_nan:,} elements are NaN on both sides (--equal-nan lets them match)")
    return reasons


def reasons_of(basis: JudgingBasis, systematic: Systematic, *, equal_nan: bool) -> list[str]:
    """Say why the default rule makes a pair a mismatch; nothing where it matches."""
    reasons = nonfinite_reasons(basis.conflicting, basis.both_nan, equal_nan=equal_nan)
    parts = systematic.failed[:_MOST_PARTS]
    return [*reasons, sentence_of(parts, systematic.dtype)] if parts else reasons


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


def required_of(basis: JudgingBasis, *, equal_nan: bool) -> Required:
    """Return the atol alone, or the rtol alone, that lets a pair match; none where NaN or Inf speak against it."""
    if basis.conflicting or (basis.both_nan and not equal_nan):
        return Required(None, None)
    return Required(basis.max_abs, None if basis.at_zero > 0.0 else basis.max_rel)


def basis_of(measured: PairMeasurement, types: tuple[str, str], scale: float, exact: str | None = None) -> JudgingBasis:
    """Keep what other tolerances can be judged by without the data."""
    envelope = measured.envelope
    return JudgingBasis(
        elements=envelope.elements,
        max_abs=envelope.max_abs,
        max_rel=envelope.max_rel,
        at_zero=envelope.at_zero,
        corners=envelope.corners,
        slack=envelope.slack,
        cells=envelope.cells,
        sampled=envelope.sampled,
        both_nan=measured.nonfinite.both_nan,
        conflicting=measured.nonfinite.conflicting,
        types=types,
        scale=scale,
        exact=exact,
    )


def envelope_of(basis: JudgingBasis) -> Envelope:
    """Return the envelope that was kept of a pair."""
    return Envelope(
        elements=basis.elements,
        max_abs=basis.max_abs,
        max_rel=basis.max_rel,
        at_zero=basis.at_zero,
        corners=basis.corners,
        slack=basis.slack,
        cells=basis.cells,
        sampled=basis.sampled,
    )


def ratio(basis: JudgingBasis, atol: float, rtol: float, *, equal_nan: bool) -> float:
    """Return how far a pair is from what is allowed: above 1 it does not match, infinite where no tolerance helps."""
    if basis.conflicting or (basis.both_nan and not equal_nan):
        return math.inf
    return _worst_ratio(basis, atol, rtol)


def worst_ratio(envelope: Envelope, atol: float, rtol: float) -> float:
    """The largest `|c - r| / (atol + rtol * |r|)`; above 1 it is not allowed, infinite where nothing but 0 is.

    >>> worst_ratio(envelope, 1e-5, 0.0)                                        # doctest: +SKIP
    0.25
    """
    return _worst_ratio(envelope, atol, rtol)


def _worst_ratio(kept: Envelope | JudgingBasis, atol: float, rtol: float) -> float:
    points = [*kept.corners, (0.0, kept.at_zero)]
    return max((_ratio(difference, atol + rtol * size) for size, difference in points), default=0.0)


def _ratio(difference: float, allowed: float) -> float:
    if difference == 0.0:
        return 0.0
    return difference / allowed if allowed > 0.0 else math.inf
