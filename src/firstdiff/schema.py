"""What a comparison is: frozen data, and its JSON. Whatever shows a comparison reads only this.

`docs/json.md` describes every field for those who script against it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

SCHEMA = "firstdiff/comparison/1"

Status = Literal["match", "mismatch", "missing", "extra", "failed", "alone"]
Verdict = Literal["match", "mismatch", "not_compared"]
Origin = Literal["introduced", "inherited", "unknown"]
Part = Literal["scale", "shift", "element", "row", "channel", "level", "odd_channel", "local", "exact", "mask"]
NoteCode = Literal["no_cause", "not_searched", "record_next", "omission", "other"]


@dataclass(frozen=True, slots=True)
class Statistics:
    """One side's values. NaN and Inf are counted and left out of the rest; None where no finite value is left."""

    mean: float | None
    std: float | None
    min: float | None
    max: float | None
    nan: int
    inf: int


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """One side of a row; `keys` are the tensors it is made of, and `name` shows them as one text."""

    name: str
    shape: tuple[int, ...] | None
    dtype: str | None
    statistics: Statistics | None = None
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Pairing:
    """How the two tensors were found to belong together; `alternatives` are keys of other candidates."""

    method: str
    confidence: float
    alternatives: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Alignment:
    """The layout a pair was compared in; `coverage` is that of the side of which less was compared.

    applied: False where the values would fit in this layout, but the figures are those of both sides as they lie
    barred: why values that agree in this layout are no match; None where they are one
    """

    recipe: str
    steps: tuple[str, ...] = ()
    coverage: float = 1.0
    confidence: float = 1.0
    alternatives: tuple[str, ...] = ()
    reference_coverage: float = 1.0
    candidate_coverage: float = 1.0
    notes: tuple[str, ...] = ()
    applied: bool = True
    barred: str | None = None

    @property
    def is_identity(self) -> bool:
        """True if both sides are compared as they are."""
        return self.recipe == "identity"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """The difference of a pair, over the elements that are finite on both sides; the others are counted apart.

    Relative metrics leave out elements whose reference is 0 (`zero_reference` of them). `mismatched` counts
    elements outside the tolerance, non-finite ones included. `sampled` names metrics taken from a fixed sample.
    """

    elements: int
    mismatched: int
    max_abs: float | None
    mean_abs: float | None
    max_rel: float | None
    mean_rel: float | None
    zero_reference: int
    mse: float | None
    rmse: float | None
    rel_l2: float | None
    cosine: float | None
    one_minus_cosine: float | None
    nmse: float | None
    sqnr_db: float | None
    max_ulp: float | None
    abs_percentiles: Mapping[str, float] = field(default_factory=dict)
    argmax: tuple[int, ...] | None = None
    reference_at_max: Any = None
    candidate_at_max: Any = None
    nan_reference: int = 0
    nan_candidate: int = 0
    inf_reference: int = 0
    inf_candidate: int = 0
    sampled: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """What was allowed of a single element: `k * eps * (scale + |r|)` for the rules `default` and `eps`, for the others
    `atol + rtol * |r|`. Rule `default` looks at more than elements: `Systematic` has it.
    """

    rule: str
    k: float | None = None
    scale: float | None = None
    atol: float
    rtol: float
    floor: float | None = None
    source: str = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgingBasis:
    """What other tolerances can be judged by without the data.

    elements .. sampled: the fields of `measure.Envelope`
    both_nan, conflicting: elements that are NaN on both sides; NaN or Inf that the other side does not share
    types: the dtypes that decide the default tolerance; `scale` is the reference's deviation
    exact: what the values are, where the default compares them exactly
    """

    elements: int
    max_abs: float
    max_rel: float
    at_zero: float
    corners: tuple[tuple[float, float], ...]
    slack: float
    cells: tuple[tuple[int | None, int, int], ...]
    sampled: int
    both_nan: int = 0
    conflicting: int = 0
    types: tuple[str, str] = ("float32", "float32")
    scale: float = 0.0
    exact: str | None = None


@dataclass(frozen=True, slots=True)
class FailedPart:
    """One part of a difference that is beyond its limit.

    part: which
    figure, limit: both relative to the values (0.02 is 2 %), but for `odd_channel`, which counts deviations
    index: of the row or channel it is about
    text: the finding in words, with what healthy runs do
    """

    part: Part
    figure: float
    limit: float
    text: str
    index: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Systematic:
    """The form of a difference, by which the default verdict tells an error from rounding.

    dtype: the coarsest type that either side was computed in, whose eps is the unit of `figures`
    figures: those of `judge.noise_figures`; empty where both sides are equal
    upstream: the largest level of a matching row before this one, in eps; None where it was not recorded
    hidden: elements that masks fill on both sides, which are left out
    failed: every part that is beyond its limit
    scale_seen: the smallest scale error, as a share, that would have been noticed
    note: what a match could not have seen, in words
    """

    dtype: str
    figures: Mapping[str, float] = field(default_factory=dict)
    upstream: float | None = None
    hidden: int = 0
    failed: tuple[FailedPart, ...] = ()
    scale_seen: float = 0.0
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Required:
    """The atol alone, or the rtol alone, that would have let the pair match; None where none would."""

    atol: float | None
    rtol: float | None


@dataclass(frozen=True, slots=True)
class Dimension:
    """One axis along which the error is concentrated, and the share of it that the indices hold."""

    dim: int
    indices: tuple[int, ...]
    share: float


@dataclass(frozen=True, slots=True)
class Where:
    text: str
    dims: tuple[Dimension, ...] = ()


@dataclass(frozen=True, slots=True)
class Diagnosis:
    cause: str
    confidence: float
    evidence: str
    fix: str
    residual: float | None = None
    implies: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Isolated:
    """An operation judged alone: the candidate's output against what its own inputs give.

    residual: how far apart, in steps of the candidate's type; `limit` is what still counts as rounding
    reason: why it does not fit, or cannot be judged; then `record_next` says what to record
    lacks_params: whether it cannot be judged because parameters were not recorded
    """

    status: Literal["match", "mismatch", "unknown"]
    residual: float | None = None
    limit: float | None = None
    reason: str | None = None
    record_next: str | None = None
    lacks_params: bool = False


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
    systematic: Systematic | None = None


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


@dataclass(frozen=True, slots=True)
class Side:
    path: str
    tensors: int


@dataclass(frozen=True, slots=True)
class Note:
    """A remark on the whole comparison, or on the row of `key`.

    code: "no_cause" where no cause that was tested explains the row, "not_searched" where there was no time to look
        for one, "record_next" for what to record to know more, "omission" for what was left out and decides
    """

    code: NoteCode
    key: str | None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The whole result; `verdict` is what the exit code says.

    depth: the error over depth: row, its error relative to the reference's norm, and what is allowed in that unit
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
