"""Total the outcomes by fault, by architecture and in all, and compare them with targets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from firstdiff.testing.zoo.answering import Outcome
    from firstdiff.testing.zoo.planting import Variant


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
        """Of the causes stated with a confidence of 0.9 or more, how many are right."""
        return self.confidently_right / self.confident if self.confident else None


@dataclass(frozen=True, slots=True)
class Target:
    """One thing that is asked for, and what was reached; None where nothing was run that would tell."""

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
