"""Tables of a comparison for the page: rows, tensors of each side, and filter choices.

The worker process writes them beside the result, so that the server need not read all of it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firstdiff.json_text import from_plain
from firstdiff.judge import ratio_to_limits
from firstdiff.pairing import PairingOptions, pair_up
from firstdiff.pairing.by_name import EXACT_STRATEGY, LAYER_STAGE_STRATEGY, NORMALISED_STRATEGY
from firstdiff.reports.sentences import divergence
from firstdiff.schema import Comparison, Pair, Status
from firstdiff.store.entry import Kind, Outcome
from firstdiff.store.results import Result, ResultFiles, write_result
from firstdiff.trace import Trace

# by names alone: a row does not tell how its third tensor was found, so none is guessed
_BY_NAME = PairingOptions(layer_offset=0, strategies=(EXACT_STRATEGY, LAYER_STAGE_STRATEGY, NORMALISED_STRATEGY))


@dataclass(frozen=True, slots=True, kw_only=True)
class RowLine:
    """A row of the table.

    recipe: null where both sides have one layout
    ratio: how many times what is allowed it differs by; above 1 it does not match, unless its inputs explain that
    """

    index: int
    key: str
    name: str
    candidate_name: str | None
    role: str
    step: int
    rank: int
    op: str | None
    layer: int | None
    stage: str | None
    component: str | None
    status: Status
    reason: str | None
    reference_shape: tuple[int, ...] | None
    candidate_shape: tuple[int, ...] | None
    reference_dtype: str | None
    candidate_dtype: str | None
    recipe: str | None
    coverage: float | None
    method: str | None
    pairing_confidence: float | None
    origin: str | None
    cause: str | None
    elements: int | None
    mismatched: int | None
    max_abs: float | None
    mean_abs: float | None
    rel_l2: float | None
    one_minus_cosine: float | None
    max_rel: float | None
    mean_rel: float | None
    rmse: float | None
    nmse: float | None
    max_ulp: float | None
    ratio: float | None


@dataclass(frozen=True, slots=True)
class TensorLine:
    """A tensor to pick from, and the row it is in."""

    key: str
    shape: tuple[int, ...] | None
    dtype: str | None
    row: int | None


def write_tables(folder: Path, kind: Kind, comparison: Comparison, traces: Mapping[str, Trace]) -> Outcome:
    """Write a result with its tables, and return what the list of comparisons shows of it."""
    third = third_keys(comparison, traces["reference"], traces["third"]) if "third" in traces else {}
    tensors = {side: _tensors(comparison, side, trace) for side, trace in traces.items()}
    equal_nan = bool(comparison.settings.get("equal_nan"))
    lines = [line_of(pair, equal_nan=equal_nan) for pair in comparison.pairs]
    write_result(folder, ResultFiles(comparison, lines, tensors, third, choices_of(lines)))
    first = comparison.first_divergence
    return Outcome(
        verdict=None if kind == "look" else comparison.verdict,
        summary=comparison.summary,
        first=divergence(comparison, first) if first else None,
        tensors={side: len(trace) for side, trace in traces.items()},
    )


def head_of(result: Result) -> dict[str, Any]:
    """Return the fields of `wire.Head`: all but the rows, and what there is to filter them by."""
    return {**result.head(), **(result.choices() or _from_rows(result))}


def choices_of(lines: Iterable[RowLine]) -> dict[str, list[Any]]:
    """List what rows can be filtered by: layers and types in their order, stages as they come."""
    rows = list(lines)
    types = {dtype for row in rows for dtype in (row.reference_dtype, row.candidate_dtype) if dtype is not None}
    return {
        "layers": sorted({row.layer for row in rows if row.layer is not None}),
        "stages": list(dict.fromkeys(row.stage for row in rows if row.stage)),
        "dtypes": sorted(types),
    }


def _from_rows(result: Result) -> dict[str, list[Any]]:
    """List the same for a result that an earlier version wrote."""
    return choices_of(from_plain(RowLine, row) for row in json.loads(result.rows_text())["rows"])


def third_keys(comparison: Comparison, reference: Trace, third: Trace) -> dict[int, str]:
    """Return, by row, the key of the tensor that the third trace has under the reference's name."""
    ref, cand = reference.tensors, third.tensors
    keys = {
        str(ref[match.reference[0]].key): str(cand[match.candidate[0]].key)
        for match in pair_up(reference, third, _BY_NAME).pairs
        if len(match.reference) == len(match.candidate) == 1
    }
    return {
        pair.index: keys[pair.reference.name]
        for pair in comparison.pairs
        if pair.reference is not None and pair.reference.name in keys
    }


def line_of(pair: Pair, *, equal_nan: bool = False) -> RowLine:
    """Return what the table shows of a pair; `equal_nan` as it was compared."""
    reference, candidate, metrics = pair.reference, pair.candidate, pair.metrics
    return RowLine(
        index=pair.index,
        key=pair.key,
        name=pair.name,
        candidate_name=candidate.name if candidate else None,
        role=pair.role,
        step=pair.step,
        rank=pair.rank,
        op=pair.op,
        layer=pair.layer,
        stage=pair.stage,
        component=pair.component,
        status=pair.status,
        reason=pair.reason,
        reference_shape=reference.shape if reference else None,
        candidate_shape=candidate.shape if candidate else None,
        reference_dtype=reference.dtype if reference else None,
        candidate_dtype=candidate.dtype if candidate else None,
        recipe=_recipe(pair),
        coverage=pair.alignment.coverage if pair.alignment else None,
        method=pair.pairing.method if pair.pairing else None,
        pairing_confidence=pair.pairing.confidence if pair.pairing else None,
        origin=pair.origin,
        cause=pair.diagnosis[0].cause if pair.diagnosis else None,
        elements=metrics.elements if metrics else _elements(pair),
        mismatched=metrics.mismatched if metrics else None,
        max_abs=metrics.max_abs if metrics else None,
        mean_abs=metrics.mean_abs if metrics else None,
        rel_l2=metrics.rel_l2 if metrics else None,
        one_minus_cosine=metrics.one_minus_cosine if metrics else None,
        max_rel=metrics.max_rel if metrics else None,
        mean_rel=metrics.mean_rel if metrics else None,
        rmse=metrics.rmse if metrics else None,
        nmse=metrics.nmse if metrics else None,
        max_ulp=metrics.max_ulp if metrics else None,
        ratio=_ratio(pair, equal_nan),
    )


def _recipe(pair: Pair) -> str | None:
    return pair.alignment.recipe if pair.alignment and not pair.alignment.is_identity else None


def _elements(pair: Pair) -> int | None:
    shapes = [side.shape for side in (pair.reference, pair.candidate) if side and side.shape is not None]
    return math.prod(shapes[0]) if shapes else None


def _ratio(pair: Pair, equal_nan: bool) -> float | None:
    if pair.envelope is None or pair.tolerance is None:
        return None
    return ratio_to_limits(pair.envelope, pair.tolerance, pair.systematic, equal_nan=equal_nan)


def _tensors(comparison: Comparison, side: str, trace: Trace) -> list[TensorLine]:
    rows: dict[str, int] = {}
    for pair in comparison.pairs:
        info = pair.reference if side == "reference" else pair.candidate
        for key in info.keys if info else ():
            rows.setdefault(key, pair.index)
    return [
        TensorLine(
            key=str(tensor.key),
            shape=tensor.source.shape if tensor.source else None,
            dtype=tensor.source.dtype.name if tensor.source else None,
            row=rows.get(str(tensor.key)),
        )
        for tensor in trace
    ]
