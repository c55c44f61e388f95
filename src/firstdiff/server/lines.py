"""Lines of the tables that the page shows: of the pairs, and of the tensors of one side.

The process that compares writes them, so that they are apart from what only travels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from firstdiff.judge.ratio import worst_ratio
from firstdiff.measure import Envelope
from firstdiff.schema import Pair, Status


@dataclass(frozen=True, slots=True, kw_only=True)
class RowLine:
    """A row of the table.

    recipe: null where both sides have one layout
    ratio: the worst difference divided by what is allowed there; above 1 it does not match
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
    """A tensor to pick from; `row` is where it stands now."""

    key: str
    shape: tuple[int, ...] | None
    dtype: str | None
    row: int | None


def line_of(pair: Pair) -> RowLine:
    """What the table shows of a pair."""
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
        ratio=_ratio(pair),
    )


def _recipe(pair: Pair) -> str | None:
    return pair.alignment.recipe if pair.alignment and pair.alignment.recipe != "identity" else None


def _elements(pair: Pair) -> int | None:
    shapes = [side.shape for side in (pair.reference, pair.candidate) if side and side.shape is not None]
    return math.prod(shapes[0]) if shapes else None


def _ratio(pair: Pair) -> float | None:
    if pair.envelope is None or pair.tolerance is None:
        return None
    against = pair.envelope.get("conflicting", 0)
    if against:
        return math.inf
    return worst_ratio(Envelope.from_plain(pair.envelope), pair.tolerance.atol, pair.tolerance.rtol)
