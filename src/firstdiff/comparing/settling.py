"""The default verdict on every row in the order of execution: its values, beside the noise of what came before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import final

from firstdiff import dtypes
from firstdiff.judge import judged_systematic, limits_for, reasons_of, required_of
from firstdiff.locate import MeasuredPair


def settled(rows: Sequence[MeasuredPair], *, equal_nan: bool) -> list[MeasuredPair]:
    """Judge rows again, now that the noise before each is known."""
    noise = UpstreamNoise(rows)
    found = []
    for row in rows:
        found.append(noise.judged(row, equal_nan=equal_nan))
        noise.add(found[-1])
    return found


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
        systematic = judged_systematic(row.systematic, self._upstream(row))
        row = replace(row, systematic=systematic)
        if row.tolerance is None or row.tolerance.rule != "default" or row.basis is None or row.layout_cause:
            return row
        reasons = reasons_of(row.basis, systematic, equal_nan=equal_nan)
        if not reasons:
            return _matching(row)
        required = required_of(row.basis, equal_nan=equal_nan)
        return replace(row, status="mismatch", reason="; ".join(reasons), required=required)

    def add(self, row: MeasuredPair) -> None:
        """Take in a row that has its final status."""
        if row.systematic is not None and row.status == "match" and not row.is_evidence:
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


def _matching(row: MeasuredPair) -> MeasuredPair:
    """Return a row that matches as a whole, so that none of its elements counts as mismatched."""
    metrics = row.metrics
    if metrics is None:
        return replace(row, status="match", reason=None, required=None)
    reason = "no elements to compare" if metrics.elements == 0 else None
    return replace(row, status="match", reason=reason, required=None, metrics=replace(metrics, mismatched=0))


def _begins_with_inputs(rows: Sequence[MeasuredPair]) -> bool:
    """Whether the inputs of the model itself were recorded, and with them all that there is upstream."""
    first = next((row.record for row in rows if row.record is not None and not row.is_evidence), None)
    return first is not None and first.seq is not None and first.role == "input" and first.parent is None
