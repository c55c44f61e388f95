"""Results of the tools for agents: small, typed, and never a whole tensor."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from firstdiff.json_text import plain
from firstdiff.schema import Comparison, Diagnosis, Pair

# NaN and infinities travel as text, for JSON has no word for them
Number = float | int | str | None


@dataclass(frozen=True)
class CauseFound:
    """A cause that was tested on the numbers."""

    cause: str
    confidence: float
    evidence: str
    fix: str


@dataclass(frozen=True)
class RowResult:
    """One pair of tensors: its verdict, the figures behind it, and its causes."""

    key: str
    status: str
    op: str | None
    shape: list[int] | None
    dtype: str | None
    reason: str | None
    origin: str | None
    max_abs: Number
    rel_l2: Number
    mismatched: int | None
    elements: int | None
    worst_index: list[int] | None
    where: str | None
    causes: list[CauseFound]


@dataclass(frozen=True)
class DivergenceResult:
    """The first tensor that diverges, and the code the error was made in."""

    key: str
    origin: str
    inside: str | None
    between: list[str]
    reason: str | None
    row: RowResult


@dataclass(frozen=True)
class CompareResult:
    """Verdict, counts, first divergence, every place an error was introduced, and the first rows that differ."""

    verdict: str
    summary: str
    first_divergence: DivergenceResult | None
    introduced_at: list[str]
    rows: list[RowResult]
    rows_left_out: int
    warnings: list[str]
    notes: list[str]


@dataclass(frozen=True)
class ExplainResult:
    row: RowResult
    paired_by: str | None
    layout: str | None
    sentences: list[str]


@dataclass(frozen=True)
class DiagnoseResult:
    verdict: str
    rows: list[RowResult]
    notes: list[str]


@dataclass(frozen=True)
class TensorEntry:
    key: str
    shape: list[int] | None
    dtype: str | None
    error: str | None


@dataclass(frozen=True)
class TensorList:
    """The tensors of a trace that a glob fits; `left_out` of them are not listed."""

    tensors: list[TensorEntry]
    left_out: int
    order: str
    warnings: list[str]


@dataclass(frozen=True)
class TensorStatistics:
    key: str
    shape: list[int]
    dtype: str
    mean: Number
    std: Number
    min: Number
    max: Number
    nan: int
    inf: int


@dataclass(frozen=True)
class TensorSlice:
    """The values of a slice, nested as its shape is."""

    key: str
    slice: str
    shape: list[int]
    dtype: str
    values: Any


@dataclass(frozen=True)
class RuleFailure:
    rule: str
    check: str
    key: str
    index: list[int] | None
    value: Any
    count: int
    text: str


@dataclass(frozen=True)
class CheckResult:
    verdict: str
    rules: int
    failures: list[RuleFailure]
    failures_left_out: int


@dataclass(frozen=True)
class ComponentOutcome:
    name: str
    state: str
    checked: int
    expected: int
    first_failure: str | None
    text: str
    cause: str | None


@dataclass(frozen=True)
class ValidateResult:
    """A port's components against golden data, on one input set."""

    input_set: str
    passed: bool
    components: list[ComponentOutcome]
    first: str | None
    cause: str | None
    evidence: str | None
    fix: str | None
    golden: str
    candidate: str
    different_inputs: list[str]
    error: str | None
    warnings: list[str]


@dataclass(frozen=True)
class ValidateResults:
    passed: bool
    runs: list[ValidateResult]


@dataclass(frozen=True)
class NextTask:
    """The next task of a port; `done` means that there is none.

    check: the command that tells whether it is done
    stale: why the newest results may no longer hold
    """

    done: bool
    title: str | None = None
    component: str | None = None
    tensor: str | None = None
    text: str | None = None
    cause: str | None = None
    evidence: str | None = None
    fix: str | None = None
    check: str | None = None
    stale: str | None = None


def row_result(pair: Pair) -> RowResult:
    """Return what an agent needs of a row."""
    info, metrics = pair.reference or pair.candidate, pair.metrics
    return RowResult(
        key=pair.key,
        status=pair.status,
        op=pair.op,
        shape=list(info.shape) if info and info.shape is not None else None,
        dtype=info.dtype if info else None,
        reason=pair.reason,
        origin=pair.origin,
        max_abs=plain(metrics.max_abs) if metrics else None,
        rel_l2=plain(metrics.rel_l2) if metrics else None,
        mismatched=metrics.mismatched if metrics else None,
        elements=metrics.elements if metrics else None,
        worst_index=list(metrics.argmax) if metrics and metrics.argmax is not None else None,
        where=pair.where.text if pair.where else None,
        causes=_causes(pair.diagnosis),
    )


def _causes(found: Iterable[Diagnosis]) -> list[CauseFound]:
    return [CauseFound(one.cause, one.confidence, one.evidence, one.fix) for one in found]


def divergence_result(comparison: Comparison) -> DivergenceResult | None:
    first = comparison.first_divergence
    if first is None:
        return None
    row = row_result(comparison.pairs[first.pair])
    return DivergenceResult(first.key, first.origin, first.inside, list(first.between), first.reason, row)
