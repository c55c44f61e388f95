"""Score the outcome of a case, and compare totals with targets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from firstdiff.schema import Comparison
from firstdiff.testing.ports.places import Places
from firstdiff.testing.ports.port import Fault
from firstdiff.testing.ports.table import Case

Placed = Literal["exact", "bracket", "wrong"]
CONFIDENT = 0.5
CPU_SECONDS = 5.0
_PLACED = 0.92
_WRONG_CAUSES = 0.08


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of a case.

    verdict: of the comparison
    quiet: of a healthy case: no alarm; otherwise `said` has it
    place: of a fault: whether it was found where it is
    said: the first divergence, or the alarm
    truth: where the fault shows first
    cause, confidence: the first cause that was stated
    cause_right: it is one of the fault's causes
    wrong_cause: it is not, although it was stated with confidence
    seconds: of CPU, for the comparison alone
    """

    case: Case
    verdict: str
    seconds: float
    quiet: bool | None = None
    place: Placed | None = None
    said: str = ""
    truth: tuple[str, ...] = ()
    cause: str | None = None
    confidence: float = 0.0
    cause_right: bool = False
    wrong_cause: bool = False


def score_healthy(case: Case, comparison: Comparison, seconds: float) -> Outcome:
    """Score the comparison of two healthy runs: it must match and say nothing more."""
    alarm = ""
    if comparison.first_divergence is not None:
        alarm = f"{comparison.first_divergence.key} diverges"
    elif comparison.diagnosis:
        alarm = f"{comparison.diagnosis[0].cause} is stated"
    elif comparison.verdict != "match":
        alarm = f"the verdict is {comparison.verdict}"
    return Outcome(case=case, verdict=comparison.verdict, seconds=seconds, quiet=not alarm, said=alarm)


def score_fault(case: Case, planted: Fault, places: Places, comparison: Comparison, seconds: float) -> Outcome:
    """Score the comparison of a reference with a port that has a fault."""
    first = comparison.first_divergence
    cause = comparison.diagnosis[0] if comparison.diagnosis else None
    right = cause is not None and not {cause.cause, *cause.implies}.isdisjoint(planted.causes)
    return Outcome(
        case=case,
        verdict=comparison.verdict,
        seconds=seconds,
        place=_place(comparison, planted, places),
        said=f"{first.key}{f' (between {first.between[0]} and {first.between[-1]})' if first.between else ''}"
        if first
        else "",
        truth=planted.places,
        cause=cause.cause if cause else None,
        confidence=cause.confidence if cause else 0.0,
        cause_right=right,
        wrong_cause=cause is not None and not right and cause.confidence >= CONFIDENT,
    )


def _place(comparison: Comparison, planted: Fault, places: Places) -> Placed:
    first = comparison.first_divergence
    if first is None:
        return "wrong"
    if places.is_exact(first.key, planted.places):
        return "exact"
    partners = {pair.candidate.name: pair.key for pair in comparison.pairs if pair.candidate and pair.reference}
    between = [partners.get(key, key) if key not in places.place_of else key for key in first.between]
    return "bracket" if places.is_bracketed(between, planted.places) else "wrong"


@dataclass(frozen=True, slots=True)
class Gate:
    """One thing that is asked for: `reached` of `count` cases, and how many it has to be."""

    what: str
    reached: int
    count: int
    least: float | None = None
    most: float | None = None

    @property
    def share(self) -> float:
        return self.reached / self.count if self.count else 0.0

    @property
    def met(self) -> bool | None:
        """None where nothing was run that would tell, or nothing is asked."""
        if not self.count or (self.least is None and self.most is None):
            return None
        return self.share >= (self.least or 0.0) and (self.most is None or self.share <= self.most)


def gates(outcomes: Sequence[Outcome]) -> list[Gate]:
    """Return what is asked for and what was reached."""
    faults = [outcome for outcome in outcomes if outcome.case.kind == "fault"]
    ports, variations = ([o for o in outcomes if o.case.kind == kind] for kind in ("port", "variation"))
    missed = sum(outcome.verdict == "match" for outcome in faults)
    placed = sum(outcome.place in ("exact", "bracket") for outcome in faults)
    slow = sum(outcome.seconds > CPU_SECONDS for outcome in outcomes)
    return [
        Gate("healthy ports quiet", sum(bool(outcome.quiet) for outcome in ports), len(ports), least=1.0),
        Gate("variations quiet", sum(bool(outcome.quiet) for outcome in variations), len(variations), least=1.0),
        Gate("faults that end in a match", missed, len(faults), most=0.0),
        Gate("place right", placed, len(faults), least=_PLACED),
        Gate("of them to the tensor", sum(outcome.place == "exact" for outcome in faults), len(faults)),
        Gate(
            "wrong first cause, confidence >= 0.5", sum(o.wrong_cause for o in faults), len(faults), most=_WRONG_CAUSES
        ),
        Gate("right first cause", sum(outcome.cause_right for outcome in faults), len(faults)),
        Gate(f"comparisons over {CPU_SECONDS:.0f} s of CPU", slow, len(outcomes), most=0.0),
    ]
