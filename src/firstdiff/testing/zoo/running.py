"""Run firstdiff on a case: plant the fault, compare, and score the answer."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from firstdiff.comparing import compare
from firstdiff.testing.zoo.answering import Outcome, answer_of, score
from firstdiff.testing.zoo.case import Case
from firstdiff.testing.zoo.planting import VARIANTS, Planted, Variant, plant


@dataclass(frozen=True, slots=True)
class Run:
    """One comparison of a case, and how long it took."""

    outcome: Outcome
    seconds: float


def run(case: Case, variants: Sequence[Variant] = VARIANTS) -> list[Run]:
    """Plant the fault of a case, compare, and say how well it was found."""
    planted = plant(case)
    return [_run(planted, variant) for variant in variants]


def _run(planted: Planted, variant: Variant) -> Run:
    begun = time.perf_counter()
    comparison = compare(planted.reference, planted.side(variant))
    seconds = time.perf_counter() - begun
    return Run(score(planted, variant, answer_of(comparison)), seconds)
