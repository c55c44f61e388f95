"""Types of the locating stage: measured pairs in, located pairs out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import hypot, inf
from typing import Any

from firstdiff.judge import level_allowed
from firstdiff.schema import (
    Alignment,
    Controlled,
    Diagnosis,
    Divergence,
    Isolated,
    JudgingBasis,
    Metrics,
    Note,
    Origin,
    Pairing,
    Required,
    Status,
    Systematic,
    TensorInfo,
    Tolerance,
    Where,
)
from firstdiff.trace import Record, Source, Tensor

EVIDENCE_ONLY = frozenset({"param", "buffer"})

# In a GPT of three layers, float32, with 49 faults planted one by one, an error that is there already grows at most
# threefold from one module to the next; the module that makes it stands out 320-fold or more
JUMP = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredPair:
    """A pair with its figures and verdict, or a tensor without a partner.

    index: its place among all rows, in the order of the reference
    reference, candidate: the tensors, the first one where several were joined
    reference_info, candidate_info: what the report says of them
    basis: what other tolerances can be judged by without the data
    layout_cause: the values agree, but in a layout that may not match
    sources: both sides in one layout, where they were measured
    systematic: the form of the difference, which the default verdict goes by
    parts: the reference's tensors, where several are one tensor of the candidate
    controlled: the difference beside that of a control
    """

    index: int
    key: str
    name: str
    role: str
    step: int = 0
    rank: int = 0
    op: str | None = None
    layer: int | None = None
    stage: str | None = None
    status: Status
    reason: str | None = None
    reference: Tensor | None = None
    candidate: Tensor | None = None
    reference_info: TensorInfo | None = None
    candidate_info: TensorInfo | None = None
    pairing: Pairing | None = None
    alignment: Alignment | None = None
    metrics: Metrics | None = None
    audio: Mapping[str, Any] | None = None
    tolerance: Tolerance | None = None
    required: Required | None = None
    basis: JudgingBasis | None = None
    layout_cause: Diagnosis | None = None
    sources: tuple[Source, Source] | None = None
    systematic: Systematic | None = None
    parts: tuple[Tensor, ...] = ()
    controlled: Controlled | None = None

    @property
    def compared(self) -> bool:
        return self.reference is not None and self.status in ("match", "mismatch")

    @property
    def differs(self) -> bool:
        return self.status == "mismatch"

    @property
    def is_evidence(self) -> bool:
        return self.role in EVIDENCE_ONLY

    @property
    def record(self) -> Record | None:
        """The reference's record; those give the structure."""
        return self.reference.record if self.reference else None

    @property
    def is_function(self) -> bool:
        """True for a torch function called in a module's code, rather than a module."""
        return self.record is not None and self.record.is_function


@dataclass(frozen=True, slots=True, kw_only=True)
class LocatedPair:
    """A measured pair and where its error comes from.

    origin_reason: how `origin` is known; `estimated` says that it is the likeliest and not certain
    recovers_from: the row that differs and feeds this one, which matches
    isolated: the operation judged on the candidate's own inputs
    """

    measured: MeasuredPair
    origin: Origin | None = None
    origin_reason: str | None = None
    estimated: bool = False
    recovers_from: int | None = None
    where: Where | None = None
    isolated: Isolated | None = None


@dataclass(frozen=True, slots=True)
class DepthPoint:
    """One point of the error over depth: `relative` and `allowed` are both relative to the reference's norm."""

    index: int
    key: str
    relative: float
    allowed: float | None


@dataclass(frozen=True, slots=True)
class Located:
    """The located divergences of two runs.

    pairs: one for each row, in order
    first_divergence: the first row that differs, in the order of the reference
    divergences: every place where an error was introduced, in order
    depth: error over depth, for plots
    notes: what else there is to say
    """

    pairs: tuple[LocatedPair, ...]
    first_divergence: Divergence | None
    divergences: tuple[Divergence, ...]
    depth: tuple[DepthPoint, ...]
    notes: tuple[Note, ...]


def severity(row: MeasuredPair) -> float:
    """Return the greatest difference in units of what was allowed there; infinite where no number can tell."""
    metrics, tolerance = row.metrics, row.tolerance
    if metrics is None or tolerance is None or metrics.max_abs is None:
        return inf if row.differs else 0.0
    if (metrics.nan_candidate, metrics.inf_candidate) != (metrics.nan_reference, metrics.inf_reference):
        return inf
    at = metrics.reference_at_max
    allowed = tolerance.atol + tolerance.rtol * (abs(at) if isinstance(at, int | float | complex) else 0.0)
    if allowed == 0:
        return inf if metrics.max_abs else 0.0
    return float(metrics.max_abs / allowed)


def jumps(row: MeasuredPair, before: float) -> bool:
    """Return whether a row is so much worse than what came before it that the error must be its own."""
    return severity(row) > JUMP * before


def depth_of(row: MeasuredPair) -> DepthPoint | None:
    """Return the error of a row as a point over depth; None where it has none."""
    if row.is_evidence or row.metrics is None or row.metrics.rel_l2 is None:
        return None
    return DepthPoint(row.index, row.key, row.metrics.rel_l2, _allowed(row))


def _allowed(row: MeasuredPair) -> float | None:
    """Return the error that is allowed, relative to the reference's norm; by tolerance that of a typical element."""
    if row.systematic is not None and row.tolerance is not None and row.tolerance.rule == "default":
        return level_allowed(row.systematic)
    statistics = row.reference_info.statistics if row.reference_info else None
    if row.tolerance is None or statistics is None or statistics.mean is None or statistics.std is None:
        return None
    typical = hypot(statistics.mean, statistics.std)
    return None if typical == 0 else row.tolerance.atol / typical + row.tolerance.rtol
