"""Judge rows by their values alone, beside the noise of everything before them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import final

from firstdiff import dtypes
from firstdiff.judge import judged_again, judged_systematic, limits_for, reasons_of, required_of
from firstdiff.locate import MeasuredPair

_STATED = ("stated", "eps", "torch")


@final
class UpstreamNoise:
    """The largest level of the matching rows so far, as a share of the values."""

    def __init__(self, rows: Sequence[MeasuredPair]) -> None:
        self._from_the_start = _begins_with_inputs(rows)
        self._level = 0.0

    def judged(self, row: MeasuredPair, *, equal_nan: bool) -> MeasuredPair:
        """Return a row with its verdict; rows that go by another rule keep theirs."""
        if row.systematic is None:
            return row
        judge = judged_systematic if row.status == "rewritten" else judged_again  # which may have been excused
        systematic = judge(row.systematic, self._upstream(row))
        if row.tolerance is None or row.tolerance.rule != "default" or row.basis is None or row.layout_cause:
            return replace(row, systematic=systematic)
        reasons = reasons_of(row.basis, systematic, equal_nan=equal_nan)
        if not reasons:
            reason = row.reason if row.status == "match" else None
            return matching(replace(row, systematic=systematic), reason=reason)
        required = required_of(row.basis, equal_nan=equal_nan)
        return replace(row, status="mismatch", reason="; ".join(reasons), required=required, systematic=systematic)

    def add(self, row: MeasuredPair) -> None:
        """Take in a row that has its final status; what only a stated tolerance lets pass is no noise."""
        if row.systematic is None or (is_stated(row) and row.systematic.failed):
            return
        if row.status == "match" and not row.is_evidence:
            eps = dtypes.eps_of(dtypes.from_name(row.systematic.dtype))
            self._level = max(self._level, row.systematic.figures.get("level", 0.0) * eps)

    def _upstream(self, row: MeasuredPair) -> float | None:
        """In eps of the row's own type; None where what came before it may have been noisier than any row tells."""
        if row.systematic is None or row.is_evidence:
            return None
        dtype = dtypes.from_name(row.systematic.dtype)
        eps = dtypes.eps_of(dtype)
        level = self._level / eps if eps else 0.0
        return level if self._from_the_start or level > limits_for(dtype).quiet else None


def matching(row: MeasuredPair, reason: str | None = None) -> MeasuredPair:
    """Return a row that matches as a whole, so that none of its elements counts as mismatched."""
    metrics = row.metrics
    if metrics is not None and metrics.mismatched:
        metrics = replace(metrics, mismatched=0)
    elif row.status == "match" and row.reason == reason and row.required is None:
        return row
    return replace(row, status="match", reason=reason, required=None, metrics=metrics)


def _begins_with_inputs(rows: Sequence[MeasuredPair]) -> bool:
    """True if the inputs of the model itself were recorded, and with them all that there is upstream."""
    first = next((row.record for row in rows if row.record is not None and not row.is_evidence), None)
    return first is not None and first.seq is not None and first.role == "input" and first.parent is None


def is_stated(row: MeasuredPair) -> bool:
    """True for a row with a tolerance that the user stated, which may let pass what is no rounding."""
    return row.tolerance is not None and row.tolerance.rule in _STATED
