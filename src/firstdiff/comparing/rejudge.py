"""Judge a comparison by other tolerances from the stored envelopes of its pairs, without its data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from firstdiff.comparing.summary import summary_of, verdict_of
from firstdiff.dtypes import from_name
from firstdiff.judge import (
    BEYOND_TOLERANCE,
    Rules,
    envelope_of,
    nonfinite_reasons,
    ratio,
    ratio_to_limits,
    reasons_of,
    tolerance_for,
)
from firstdiff.locate import first_divergence
from firstdiff.measure import Envelope
from firstdiff.schema import Comparison, Divergence, Pair, Required, Status, Summary, Tolerance, Verdict


@dataclass(frozen=True, slots=True)
class JudgedRow:
    """One row under other tolerances.

    mismatched: about how many elements lie outside
    ratio: how many times what is allowed it differs by
    worst_element: the worst difference of an element divided by its tolerance
    """

    index: int
    status: Status
    reason: str | None
    mismatched: int | None
    ratio: float | None
    tolerance: Tolerance | None
    required: Required | None
    worst_element: float | None = None


@dataclass(frozen=True, slots=True)
class Judged:
    """All rows under other tolerances; `estimated` says that some could be told for certain only from the data."""

    verdict: Verdict
    summary: Summary
    rows: tuple[JudgedRow, ...]
    first_divergence: Divergence | None
    estimated: bool
    warnings: tuple[str, ...]


def rejudge(comparison: Comparison, rules: Rules) -> Judged:
    """Judge a comparison under other rules.

    >>> rejudge(comparison, Rules(atol=1e-3)).verdict                           # doctest: +SKIP
    'match'
    """
    judged = [_judged(pair, rules) for pair in comparison.pairs]
    pairs = tuple(replace(pair, status=row.status) for pair, (row, _) in zip(comparison.pairs, judged, strict=True))
    settings = comparison.settings
    summary = summary_of(pairs)
    verdict = verdict_of(
        pairs,
        summary,
        allow_missing=bool(settings.get("allow_missing")),
        allow_extra=bool(settings.get("allow_extra")),
        allow_partial=bool(settings.get("allow_partial")),
        omitted=any(note.code == "omission" for note in comparison.notes),
    )
    return Judged(
        verdict=verdict,
        summary=summary,
        rows=tuple(row for row, _ in judged),
        first_divergence=_first(comparison, pairs),
        estimated=not all(sure for _, sure in judged),
        warnings=rules.unused([pair.key for pair in pairs]),
    )


def tolerance_of(pair: Pair, rules: Rules) -> Tolerance | None:
    """Return the tolerance of a measured pair under these rules."""
    if pair.tolerance is None or pair.envelope is None:
        return None
    reference, candidate = (from_name(name) for name in pair.envelope.types)
    spread = pair.tolerance.floor
    floor: Mapping[str, Any] | None = None if spread is None else {"max_abs": spread}
    exact = pair.envelope.exact
    return tolerance_for(rules, pair.key, reference, candidate, pair.envelope.scale, floor, exact)


def _first(comparison: Comparison, pairs: Sequence[Pair]) -> Divergence | None:
    """The row that was first before keeps all that was found out about it."""
    found, known = first_divergence(pairs), comparison.first_divergence
    return known if found and known and found.pair == known.pair else found


def _judged(pair: Pair, rules: Rules) -> tuple[JudgedRow, bool]:
    """The row, and whether the data could say anything else."""
    tolerance = tolerance_of(pair, rules)
    if tolerance is None or pair.envelope is None or pair.metrics is None or pair.status == "rewritten":
        return _kept(pair), True
    # the control's error is the measure, or the reference itself is none
    if tolerance.rule == "default" and (pair.controlled is not None or pair.status == "inconclusive"):
        return replace(_kept(pair), tolerance=tolerance), True
    basis = pair.envelope
    envelope = envelope_of(basis)
    admits = envelope.admits(tolerance.atol, tolerance.rtol)
    against = basis.conflicting + (0 if rules.equal_nan else basis.both_nan)
    if tolerance.rule == "default" and pair.systematic is not None:
        reasons = reasons_of(basis, pair.systematic, equal_nan=rules.equal_nan)
        admits = True
    else:
        reasons = nonfinite_reasons(basis.conflicting, basis.both_nan, equal_nan=rules.equal_nan)
        # whole numbers that differ match where they are what their own inputs give
        excused = tolerance.rule == "exact" and tolerance == pair.tolerance and pair.status == "match"
        reasons += [] if admits or excused else [BEYOND_TOLERANCE]
    if not reasons and tolerance == pair.tolerance and pair.status == "mismatch" and pair.reason:
        reasons = [pair.reason]  # a channel beyond its floor, or a layout that may not match
    elif not reasons and pair.alignment is not None and pair.alignment.applied and pair.alignment.barred:
        reasons = [pair.alignment.barred]
    row = JudgedRow(
        index=pair.index,
        status="mismatch" if reasons else "match",
        reason="; ".join(reasons) or (pair.reason if pair.status == "match" else None),
        mismatched=envelope.approximate_count(tolerance.atol, tolerance.rtol) + against,
        ratio=ratio_to_limits(basis, tolerance, pair.systematic, equal_nan=rules.equal_nan),
        worst_element=ratio(basis, tolerance.atol, tolerance.rtol, equal_nan=rules.equal_nan),
        tolerance=tolerance,
        required=_required(envelope, against) if reasons else None,
    )
    return row, admits is not None


def _kept(pair: Pair) -> JudgedRow:
    """A row as the comparison has it."""
    return JudgedRow(pair.index, pair.status, pair.reason, None, None, pair.tolerance, pair.required)


def _required(envelope: Envelope, against: int) -> Required:
    return Required(None, None) if against else Required(envelope.required_atol(), envelope.required_rtol())
