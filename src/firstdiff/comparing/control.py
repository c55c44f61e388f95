"""Judge rows of the default rule by the error of a control run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from firstdiff import dtypes
from firstdiff.comparing.options import Effort, Options
from firstdiff.comparing.pair_comparison import PairComparison
from firstdiff.comparing.rows import MatchedPair, matched_pairs
from firstdiff.judge import beside_control, nonfinite_reasons, required_of
from firstdiff.locate import MeasuredPair
from firstdiff.pairing import pair_up
from firstdiff.schema import Controlled, Isolated, Note
from firstdiff.trace import Trace

_SURE = 0.9  # confidence of a pair
_NO_SAY = "the default verdict holds"
_CERTAIN = ("alone", "exact", "mask")  # parts of a difference that no precision explains


@dataclass(frozen=True, slots=True)
class ControlledRows:
    """The rows with their verdicts beside a control, and what the control could not tell."""

    rows: list[MeasuredPair]
    notes: tuple[Note, ...] = ()


def judged_beside(
    measured: Mapping[str, MeasuredPair],
    rows: Sequence[MeasuredPair],
    isolated: Sequence[Isolated | None],
    options: Options,
) -> ControlledRows:
    """Judge rows by a control's error against the same reference.

    Rows that go by another rule, or of which the control has nothing, keep their verdict, as do rows whose own
    operation introduces an error.

    measured: the control, as `measured_control` returns it
    isolated: each operation judged on the candidate's own inputs
    """
    if not measured:
        text = f"the control shares no tensors with the reference that could be compared: {_NO_SAY}"
        return ControlledRows(list(rows), (Note("control", None, text),))
    if all(row.metrics is not None and not row.metrics.max_abs for row in measured.values()):
        text = f"the control equals the reference exactly, so that it does not tell what its precision costs: {_NO_SAY}"
        return ControlledRows(list(rows), (Note("control", None, text),))
    found, wanting = [], []
    for row, alone in zip(rows, isolated, strict=True):
        judged = _beside(row, measured.get(row.key))
        if row.key not in measured and _is_open(row) and row.metrics is not None and row.metrics.max_abs:
            wanting.append(row.key)
        introduced = row.differs and alone is not None and alone.status == "mismatch"
        if judged is None or (introduced and judged.status != "mismatch"):
            found.append(replace(row, controlled=judged))
        else:
            found.append(_with_verdict(row, judged, equal_nan=options.rules.equal_nan))
    return ControlledRows(found, (*_wanting(wanting), *_other_type(found)))


def measured_control(
    control: Trace, reference: Trace, rows: Sequence[MeasuredPair], options: Options
) -> dict[str, MeasuredPair]:
    """Measure the control against the reference, where the candidate was measured; by the reference's key."""
    wanted = {row.key for row in rows if _is_open(row)}
    paired = pair_up(reference, control, replace(options.pairing, map=None, layer_offset=None))
    comparison = PairComparison(paired, options, Effort(0.0))
    matched: list[MatchedPair] = [row for row in matched_pairs(paired) if row.key in wanted and _is_sure(row)]
    return {row.key: row for row in comparison.measure(matched) if row.sources is not None}


def _is_sure(row: MatchedPair) -> bool:
    """True for a tensor of the control that surely is the reference's: another one would look like noise."""
    return row.match is not None and row.match.pairing.confidence >= _SURE


def _is_open(row: MeasuredPair) -> bool:
    """True for a row of the default rule that a control may judge."""
    by_default = row.tolerance is not None and row.tolerance.rule == "default"
    return by_default and row.systematic is not None and row.sources is not None and not row.is_evidence


def _beside(row: MeasuredPair, control: MeasuredPair | None) -> Controlled | None:
    if control is None or not _is_open(row) or row.sources is None or control.sources is None:
        return None
    if control.systematic is None or row.layout_cause is not None:
        return None
    if row.sources[0].shape != control.sources[0].shape:
        return None
    return beside_control(row.sources, control.sources, dtypes.from_name(control.systematic.dtype))


def _with_verdict(row: MeasuredPair, found: Controlled, *, equal_nan: bool) -> MeasuredPair:
    assert row.basis is not None, "it was measured"
    assert row.systematic is not None, "it goes by the default rule"
    reasons = nonfinite_reasons(row.basis.conflicting, row.basis.both_nan, equal_nan=equal_nan)
    reasons += [part.text for part in row.systematic.failed if part.part in _CERTAIN]
    if reasons and found.status != "mismatch":
        return replace(row, controlled=found)
    if found.status == "match":
        metrics = row.metrics and replace(row.metrics, mismatched=0)
        return replace(row, status="match", reason=None, required=None, metrics=metrics, controlled=found)
    required = required_of(row.basis, equal_nan=equal_nan) if found.status == "mismatch" else None
    reason = "; ".join([*reasons, found.text])
    return replace(row, status=found.status, reason=reason, required=required, controlled=found)


def _wanting(keys: Sequence[str]) -> tuple[Note, ...]:
    if not keys:
        return ()
    names = ", ".join(keys[:3]) + (f" and {len(keys) - 3:,} more" if len(keys) > 3 else "")
    return (Note("control", None, f"the control has nothing to judge {names} by: {_NO_SAY} there"),)


def _other_type(rows: Sequence[MeasuredPair]) -> tuple[Note, ...]:
    """Say so if the control was not computed in the candidate's type."""
    types = {(row.systematic.dtype, row.controlled.dtype) for row in rows if row.systematic and row.controlled}
    other = sorted(pair for pair in types if pair[0] != pair[1])
    if not other or len(other) < len(types):
        return ()
    reference, control = other[0]
    return (
        Note(
            "control",
            None,
            f"the control was computed in {control} and the candidate in {reference}: give one in {reference}",
        ),
    )
