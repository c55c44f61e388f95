"""Judged rows of two traces, paired by key, as a comparison hands them to locate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from firstdiff.judge import Rules, judge, tolerance_for
from firstdiff.locate import Located, Row, locate
from firstdiff.measure import Allowed, measure_pair
from firstdiff.schema import Pair, Statistics, TensorInfo, Tolerance
from firstdiff.trace import Source, Tensor, Trace

Side = Trace | Mapping[str, Any]


def rows_of(reference: Side, candidate: Side) -> list[Row]:
    """Rows in the order of the reference, then what only the candidate has."""
    ours, theirs = _trace(reference), _trace(candidate)
    partners = {str(tensor.key): tensor for tensor in theirs}
    rows = [_row(tensor, partners.pop(str(tensor.key), None)) for tensor in ours]
    rows += [Row(_pair(tensor, "extra"), None, tensor) for tensor in partners.values()]
    return [_numbered(index, row) for index, row in enumerate(rows)]


def located(reference: Side, candidate: Side, *, order: str | None = None) -> Located:
    return locate(rows_of(reference, candidate), order=order or _trace(reference).order)


def _trace(side: Side) -> Trace:
    return side if isinstance(side, Trace) else Trace.from_arrays(side)


def _numbered(index: int, row: Row) -> Row:

    return replace(row, pair=replace(row.pair, index=index))


def _row(reference: Tensor, candidate: Tensor | None) -> Row:
    if candidate is None:
        return Row(_pair(reference, "missing"), reference, None)
    sources = reference.values(), candidate.values()
    if sources[0].shape != sources[1].shape:
        return Row(_pair(reference, "mismatch"), reference, candidate)
    return Row(_judged(reference, *sources), reference, candidate, sources)


def _judged(tensor: Tensor, reference: Source, candidate: Source) -> Pair:
    found: list[Tolerance] = []

    def allowed(statistics: Statistics) -> Allowed:
        found.append(tolerance_for(Rules(), str(tensor.key), reference.dtype, candidate.dtype, statistics.std or 0.0))
        return Allowed(found[0].atol, found[0].rtol)

    figures = measure_pair(reference, candidate, allowed)
    judgement = judge(figures, equal_nan=False)
    sides = (
        TensorInfo(str(tensor.key), side.shape, side.dtype.name, statistics)
        for side, statistics in ((reference, figures.reference), (candidate, figures.candidate))
    )
    return _pair(
        tensor,
        judgement.status,
        **dict(zip(("reference", "candidate"), sides, strict=True)),
        metrics=figures.metrics,
        tolerance=found[0],
    )


def _pair(tensor: Tensor, status: Any, **more: Any) -> Pair:
    record = tensor.record
    return Pair(
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
