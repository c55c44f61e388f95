"""Judged rows of two traces, paired by key, as a comparison hands them to locate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from firstdiff.judge import Rules, judge, tolerance_for
from firstdiff.locate import Located, MeasuredPair, RowGraph, locate
from firstdiff.measure import Allowed, scan_pair
from firstdiff.schema import TensorInfo
from firstdiff.trace import Source, Tensor, Trace

Side = Trace | Mapping[str, Any]


def graph_of(reference: Side, candidate: Side) -> RowGraph:
    return RowGraph(rows_of(reference, candidate))


def rows_of(reference: Side, candidate: Side) -> list[MeasuredPair]:
    """Rows in the order of the reference, then what only the candidate has."""
    ours, theirs = _trace(reference), _trace(candidate)
    partners = {str(tensor.key): tensor for tensor in theirs}
    rows = [_row(tensor, partners.pop(str(tensor.key), None)) for tensor in ours]
    rows += [_pair(tensor, "extra", candidate=tensor) for tensor in partners.values()]
    return [replace(row, index=index) for index, row in enumerate(rows)]


def located(reference: Side, candidate: Side, *, order: str | None = None) -> Located:
    return locate(graph_of(reference, candidate), order=order or _trace(reference).order)


def _trace(side: Side) -> Trace:
    return side if isinstance(side, Trace) else Trace.from_arrays(side)


def _row(reference: Tensor, candidate: Tensor | None) -> MeasuredPair:
    if candidate is None:
        return _pair(reference, "missing", reference=reference)
    sources = reference.values(), candidate.values()
    if sources[0].shape != sources[1].shape:
        return _pair(reference, "mismatch", reference=reference, candidate=candidate)
    return _judged(reference, candidate, *sources)


def _judged(tensor: Tensor, partner: Tensor, reference: Source, candidate: Source) -> MeasuredPair:
    scan = scan_pair(reference, candidate)
    deviation = scan.reference.std or 0.0
    tolerance = tolerance_for(Rules(), str(tensor.key), reference.dtype, candidate.dtype, deviation)
    figures = scan.measure(Allowed(tolerance.atol, tolerance.rtol))
    judgement = judge(figures, equal_nan=False)
    infos = [
        TensorInfo(str(tensor.key), side.shape, side.dtype.name, statistics)
        for side, statistics in ((reference, figures.reference), (candidate, figures.candidate))
    ]
    return _pair(
        tensor,
        judgement.status,
        reference=tensor,
        candidate=partner,
        reference_info=infos[0],
        candidate_info=infos[1],
        metrics=figures.metrics,
        tolerance=tolerance,
        sources=(reference, candidate),
    )


def _pair(tensor: Tensor, status: Any, **more: Any) -> MeasuredPair:
    record = tensor.record
    return MeasuredPair(
        index=0,
        key=str(tensor.key),
        name=record.name,
        role=tensor.key.role,
        step=record.step,
        rank=record.rank,
        op=record.op,
        status=status,
        **more,
    )
