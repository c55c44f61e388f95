"""Score the answers of a tool to cases, total them, and compare them with targets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from firstdiff.schema import Comparison
from firstdiff.testing.zoo.case import Case
from firstdiff.testing.zoo.planting import Planted, Variant
from firstdiff.trace import Key

if TYPE_CHECKING:
    from firstdiff.testing.zoo.planting import Variant


CONFIDENT = 0.9


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a tool on two traces.

    first: the key of the first tensor that differs, as the reference has it (`layers.0.attn@1:in.0`)
    causes: codes with a confidence of 0 to 1, the likeliest first
    implies: for a code, others that are true if it is
    partners: what the candidate calls each tensor of the reference, if not by the same key
    """

    first: str | None
    causes: tuple[tuple[str, float], ...] = ()
    implies: Mapping[str, tuple[str, ...]] | None = None
    partners: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The score of an answer.

    truth: where the fault shows first
    exact: the first divergence was reported there
    rank: where in the list of causes a right one stands, from 1; None if nowhere
    stated: causes with their confidence, as listed
    confident, confidently_right: causes stated with 0.9 or more, and how many of them are right
    """

    case: Case
    variant: Variant
    site: str
    truth: str | None
    expected: tuple[str, ...]
    first: str | None
    exact: bool
    rank: int | None
    stated: tuple[tuple[str, float], ...]
    confident: int
    confidently_right: int


def score(planted: Planted, variant: Variant, answer: Answer) -> Outcome:
    """Score a tool's answer to a case."""
    truth, _ = planted.first_visible(answer.partners)
    expected = planted.expected
    confident = [cause for cause, confidence in answer.causes if confidence >= CONFIDENT]
    rank = next((place for place, (cause, _) in enumerate(answer.causes, 1) if cause in expected), None)
    right = answer.causes[rank - 1][0] if rank else ""
    also_true = {*expected, *(answer.implies or {}).get(right, ())}
    return Outcome(
        case=planted.case,
        variant=variant,
        site=planted.site.module,
        truth=str(truth.key) if truth else None,
        expected=expected,
        first=answer.first,
        exact=truth is not None
        and answer.first is not None
        and planted.site.holds(truth.record)
        and call_of(answer.first) == call_of(str(truth.key)),
        rank=rank,
        stated=answer.causes,
        confident=len(confident),
        confidently_right=sum(cause in also_true for cause in confident),
    )


def answer_of(comparison: Comparison) -> Answer:
    """Return firstdiff's answer from a comparison."""
    first = comparison.first_divergence
    return Answer(
        first=first.key if first else None,
        causes=tuple((found.cause, found.confidence) for found in comparison.diagnosis),
        implies={found.cause: found.implies for found in comparison.diagnosis},
        partners={
            pair.reference.name: pair.candidate.name for pair in comparison.pairs if pair.reference and pair.candidate
        },
    )


def call_of(text: str) -> tuple[str, str, int]:
    """Return the call of a key: outputs of one call are one place, and so are its inputs."""
    key = Key.parse(text)
    return key.name, key.role, key.call


@dataclass(frozen=True, slots=True)
class Score:
    """Counts of outcomes over some cases."""

    cases: int
    exact: int
    first: int
    third: int
    confident: int
    confidently_right: int

    @classmethod
    def of(cls, outcomes: Iterable[Outcome]) -> Score:
        every = list(outcomes)
        return cls(
            cases=len(every),
            exact=sum(outcome.exact for outcome in every),
            first=sum(outcome.rank == 1 for outcome in every),
            third=sum(outcome.rank is not None and outcome.rank <= 3 for outcome in every),
            confident=sum(outcome.confident for outcome in every),
            confidently_right=sum(outcome.confidently_right for outcome in every),
        )

    def share(self, part: int) -> float:
        return part / self.cases if self.cases else 0.0

    @property
    def honesty(self) -> float | None:
        """Share of right causes among those stated with a confidence of 0.9 or more."""
        return self.confidently_right / self.confident if self.confident else None


@dataclass(frozen=True, slots=True)
class Target:
    """A required figure and the one reached; None where nothing was run to measure it."""

    what: str
    wanted: float
    reached: float | None

    @property
    def met(self) -> bool:
        return self.reached is not None and self.reached >= self.wanted


_FIRST = {"full": 0.90, "stripped": 0.75}
_THIRD = {"full": 0.98, "stripped": 0.90}
_HONEST = 0.95


def targets(outcomes: Sequence[Outcome], variants: Sequence[Variant], quiet: Sequence[bool] = ()) -> list[Target]:
    """Return each target with the value reached.

    quiet: of healthy pairs, whether each raised no alarm
    """
    found = []
    for variant in variants:
        score = Score.of(outcome for outcome in outcomes if outcome.variant == variant)
        if score.cases:
            found += [
                Target(f"first divergence exact, {variant}", 1.0, score.share(score.exact)),
                Target(f"right cause first, {variant}", _FIRST[variant], score.share(score.first)),
                Target(f"right cause among three, {variant}", _THIRD[variant], score.share(score.third)),
            ]
    if outcomes:
        found.append(Target("right where confidence is 0.9 or more", _HONEST, Score.of(outcomes).honesty))
    if quiet:
        found.append(Target("healthy pairs without alarm", 1.0, sum(quiet) / len(quiet)))
    return found
