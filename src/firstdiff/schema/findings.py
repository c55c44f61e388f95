"""Findings about a pair: the form of its difference, its location, its cause, its tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Part = Literal[
    "scale",
    "shift",
    "element",
    "row_noise",
    "row",
    "channel",
    "level",
    "odd_channel",
    "local",
    "alone",
    "exact",
    "mask",
]


@dataclass(frozen=True, slots=True)
class FailedPart:
    """One part of a difference that is beyond its limit.

    part: which
    figure, limit: both relative to the values (0.02 is 2 %), but for `odd_channel`, which counts deviations
    index: of the row or channel it is about
    text: the finding in words
    within: what healthy runs stay within, in words; None where there is no such limit, or the text has it
    """

    part: Part
    figure: float
    limit: float
    text: str
    index: int | None = None
    within: str | None = None


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Controlled:
    """The candidate's error beside that of a control, a run that is known to be good at the candidate's precision.

    dtype: the coarsest type that the control was computed in
    error, control_error: relative L2 of the candidate and of the control
    rms, row, channel, element: how many times the control's error the candidate has, in the whole, in the worst row and
        channel, and in the largest element
    row_index, channel_index: of the worst
    text: the finding in words
    """

    status: Literal["match", "mismatch", "inconclusive"]
    dtype: str
    error: float
    control_error: float
    rms: float
    row: float
    channel: float | None
    element: float
    row_index: int
    channel_index: int | None
    text: str = ""


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

    residual: how far apart, in eps of the candidate's type; `limit` is what still counts as rounding
    reason: why it does not fit, or cannot be judged; then `record_next` says what to record
    lacks_params: whether it cannot be judged because parameters were not recorded
    ill_conditioned: whether it cannot be judged because the reference's own result is off by more than the candidate's,
        and one rounding of its inputs moves it as far
    """

    status: Literal["match", "mismatch", "unknown"]
    residual: float | None = None
    limit: float | None = None
    reason: str | None = None
    record_next: str | None = None
    lacks_params: bool = False
    ill_conditioned: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgmaxChange:
    """The first position at which the candidate's best token is another.

    gap: by how much the reference's best logit is above the one of the candidate's choice
    noise: what rounding may do to that gap; below it the two are a near tie, above it the change is real
    """

    index: tuple[int, ...]
    reference: int
    candidate: int
    reference_token: str | None
    candidate_token: str | None
    gap: float
    noise: float
    near_tie: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LogitsAgreement:
    """The agreement of two sides' logits, position by position.

    looked_at: how many positions were, from the front; `not_finite` of them hold NaN or +Inf and are left out
    same_argmax: the share of positions with the same best token
    shared_top_k: the share of the `top_k` best tokens that both sides have in common
    mean_kl, max_kl: divergence of the candidate's distribution from the reference's, in nats
    """

    vocab_size: int
    positions: int
    looked_at: int
    not_finite: int
    same_argmax: float | None
    top_k: int
    shared_top_k: float | None
    mean_kl: float | None
    max_kl: float | None
    first_argmax: ArgmaxChange | None


@dataclass(frozen=True, slots=True)
class IdsAgreement:
    """The ids that differ: their number of those `compared` in each row; index, ids and tokens of the first."""

    different: int
    compared: int
    reference_length: int
    candidate_length: int
    index: tuple[int, ...] | None = None
    reference: int | None = None
    candidate: int | None = None
    reference_token: str | None = None
    candidate_token: str | None = None
