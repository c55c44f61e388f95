"""The rows of a comparison, and the whole result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from firstdiff.schema.findings import Controlled, Diagnosis, IdsAgreement, Isolated, LogitsAgreement, Systematic, Where
from firstdiff.schema.measurement import Alignment, JudgingBasis, Metrics, Pairing, Required, TensorInfo, Tolerance

SCHEMA = "firstdiff/comparison/1"
Status = Literal["match", "mismatch", "missing", "extra", "failed", "rewritten", "inconclusive", "alone"]
Verdict = Literal["match", "mismatch", "not_compared"]
Origin = Literal["introduced", "inherited", "unknown"]
NoteCode = Literal["no_cause", "not_searched", "record_next", "omission", "control", "other"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One row: two tensors that belong together, or one that has no partner.

    `envelope` is what other tolerances can be judged by without the data. `origin_reason` says how `origin` is
    known, `origin_estimated` that it is the likeliest and not certain.
    """

    index: int
    key: str
    name: str
    role: str
    step: int
    rank: int
    op: str | None = None
    layer: int | None = None
    stage: str | None = None
    component: str | None = None
    status: Status
    reason: str | None = None
    reference: TensorInfo | None = None
    candidate: TensorInfo | None = None
    pairing: Pairing | None = None
    alignment: Alignment | None = None
    metrics: Metrics | None = None
    audio: Mapping[str, Any] | None = None
    tolerance: Tolerance | None = None
    required: Required | None = None
    origin: Origin | None = None
    recovers_from: int | None = None
    where: Where | None = None
    diagnosis: tuple[Diagnosis, ...] = ()
    envelope: JudgingBasis | None = None
    origin_reason: str | None = None
    origin_estimated: bool = False
    isolated: Isolated | None = None
    logits: LogitsAgreement | None = None
    ids: IdsAgreement | None = None
    systematic: Systematic | None = None
    controlled: Controlled | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """A place where an error appears: the row, who made it, and the code it must have happened in.

    `reason` says how that is known, `estimated` that it is the likeliest and not certain.
    """

    pair: int
    key: str
    name: str
    origin: Origin
    inside: str | None = None
    between: tuple[str, ...] = ()
    reason: str | None = None
    estimated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    match: int
    mismatch: int
    missing: int
    extra: int
    failed: int
    elements: int
    coverage: float
    rewritten: int = 0
    inconclusive: int = 0


@dataclass(frozen=True, slots=True)
class Side:
    path: str
    tensors: int


@dataclass(frozen=True, slots=True)
class Note:
    """A remark on the whole comparison, or on the row of `key`.

    code: "no_cause" where no cause that was tested explains the row, "not_searched" where there was no time to look
        for one, "record_next" for what to record to know more, "omission" for what was left out and decides,
        "control" for what a control could not tell
    """

    code: NoteCode
    key: str | None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The whole result; `verdict` is what the exit code says.

    depth: the error over depth: row, its error relative to the reference's norm, and what is allowed in that unit
    control: the run that tells what the candidate's precision costs, where one was given
    complete: False where it was interrupted: rows that were not reached are `failed`
    notes: what else there is to say about the first divergence, and what to record to know more
    """

    schema: str = SCHEMA
    version: str
    settings: Mapping[str, Any]
    warnings: tuple[str, ...]
    reference: Side
    candidate: Side
    verdict: Verdict
    summary: Summary
    first_divergence: Divergence | None
    divergences: tuple[Divergence, ...]
    pairs: tuple[Pair, ...]
    diagnosis: tuple[Diagnosis, ...] = ()
    timings: Mapping[str, float] = field(default_factory=dict)
    depth: tuple[tuple[int, float, float | None], ...] = ()
    notes: tuple[Note, ...] = ()
    complete: bool = True
    control: Side | None = None
