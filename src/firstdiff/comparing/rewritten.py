"""Inputs that a port arranges in another way, such as patches cut for a Linear instead of a convolution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from firstdiff.locate import MeasuredPair

_REARRANGED = "the input is rearranged, to the bit, and what is made of it agrees"


def accept_rearranged_inputs(rows: Sequence[MeasuredPair]) -> list[MeasuredPair]:
    """Let an input in another layout match where its values are the same to the bit and the output matches too."""
    agreeing = {_call(row) for row in rows if row.role == "output" and row.status == "match"}
    return [_accepted(row) if _is_rearranged(row) and _call(row) in agreeing else row for row in rows]


def _is_rearranged(row: MeasuredPair) -> bool:
    if row.role != "input" or row.layout_cause is None or row.metrics is None or row.alignment is None:
        return False
    sides = row.reference_info, row.candidate_info
    other_shape = sides[0] is not None and sides[1] is not None and sides[0].shape != sides[1].shape
    return other_shape and row.metrics.max_abs == 0 and row.alignment.coverage == 1


def _accepted(row: MeasuredPair) -> MeasuredPair:
    assert row.alignment is not None, "it was measured in a layout"
    alignment = replace(row.alignment, barred=None)
    return replace(row, status="match", reason=_REARRANGED, layout_cause=None, alignment=alignment)


def _call(row: MeasuredPair) -> tuple[object, ...]:
    return row.name, row.record.call if row.record else 0, row.step, row.rank
