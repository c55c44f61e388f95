"""Replay a changed operation, and solve for the change that fits."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import exp, log
from typing import Any, ClassVar

import numpy as np

from firstdiff.diagnose.case import Case
from firstdiff.diagnose.hypothesis import Explanation, Fit, Hypothesis, Specific
from firstdiff.diagnose.segment import Operation
from firstdiff.ops import Plan


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Variant:
    """An operation with something changed.

    plan: the changed operation
    what: the change as the beginning of a sentence: "without its bias"
    fix: one sentence: what to do in the candidate
    cause: the code, if it is not that of the hypothesis
    fit: if it is known already, as after a search
    """

    plan: Plan
    what: str
    fix: str
    cause: str | None = None
    assumed: int = 0
    specific: Specific = Specific.MISTAKE
    implies: tuple[str, ...] = ()
    doubt: float = 0.0
    fit: Fit | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """One operation of a case, to be run with something changed."""

    case: Case
    operation: Operation

    @property
    def plan(self) -> Plan:
        return self.operation.plan

    @property
    def function(self) -> Any:
        return self.operation.function

    @property
    def key(self) -> str:
        return self.operation.key

    def run(self, plan: Plan) -> np.ndarray | None:
        """Return the row that a plan predicts; None if it cannot be computed."""
        return self.operation.run(plan)

    def fit(self, plan: Plan) -> Fit | None:
        """Fit the row that a plan predicts to the candidate's; None if it cannot be computed."""
        return self.case.fit_of(self.operation, plan)


class Counterfactual(Hypothesis):
    """A hypothesis made of variants of an operation.

    functions: the operators it knows variants of; all if empty
    """

    functions: ClassVar[tuple[Any, ...]] = ()

    def applies(self, case: Case) -> bool:
        return case.comparable and any(self._knows(operation) for operation in case.operations)

    @abstractmethod
    def variants(self, trial: Trial) -> Iterable[Variant]:
        """Yield the operations that the candidate may have computed instead."""

    def test(self, case: Case) -> Iterator[Explanation]:
        """Fit each variant to the candidate's values."""
        for operation in case.operations:
            if self._knows(operation):
                for variant in self.variants(Trial(case, operation)):
                    yield from self._explained(case, operation, variant)

    def _knows(self, operation: Operation) -> bool:
        return not self.functions or operation.function in self.functions

    def _explained(self, case: Case, operation: Operation, variant: Variant) -> Iterator[Explanation]:
        fit = variant.fit or case.fit_of(operation, variant.plan)
        if fit is None:
            return
        yield Explanation(
            cause=variant.cause or self.code,
            fit=fit,
            evidence=f"{variant.what} {case.falls_to(fit)}",
            fix=variant.fix,
            assumed=variant.assumed,
            specific=variant.specific,
            implies=variant.implies,
            doubt=variant.doubt,
            operation=operation.with_plan(variant.plan),
        )


_COARSE = 15
_FINE = 24
_GOLDEN = 0.6180339887498949


@dataclass(frozen=True, slots=True, eq=False)
class Solved:
    """The value that fits best; `usual` if models use it, so that nothing was fitted."""

    value: float
    fit: Fit
    plan: Plan
    usual: bool


def solve_setting(trial: Trial, setting: str, *, usual: Iterable[float], low: float, high: float) -> Solved | None:
    """Find the value of a setting that fits the candidate best: a usual one if one fits, else by search.

    low, high: the search is logarithmic between the two
    """
    best: Solved | None = None
    for value in usual:
        best = _better(best, _tried(trial, setting, value, usual=True))
    if best is not None and best.fit.reaches_floor:
        return best
    grid = [low * exp(log(high / low) * step / (_COARSE - 1)) for step in range(_COARSE)]
    tried = [_tried(trial, setting, value, usual=False) for value in grid]
    found = [(solved.fit.rms, step) for step, solved in enumerate(tried) if solved is not None]
    if not found:
        return best
    step = min(found)[1]
    return _better(best, _golden(trial, setting, grid[max(0, step - 1)], grid[min(_COARSE - 1, step + 1)]))


def _golden(trial: Trial, setting: str, low: float, high: float) -> Solved | None:
    """Search the minimum by golden section over the logarithm."""
    left, right = log(low), log(high)
    best: Solved | None = None
    inner = right - _GOLDEN * (right - left), left + _GOLDEN * (right - left)
    ends = [_tried(trial, setting, exp(value), usual=False) for value in inner]
    for _ in range(_FINE):
        if ends[0] is None or ends[1] is None:
            return best
        best = _better(_better(best, ends[0]), ends[1])
        if ends[0].fit.rms <= ends[1].fit.rms:
            right = inner[1]
            inner = right - _GOLDEN * (right - left), inner[0]
            ends = [_tried(trial, setting, exp(inner[0]), usual=False), ends[0]]
        else:
            left = inner[0]
            inner = inner[1], left + _GOLDEN * (right - left)
            ends = [ends[1], _tried(trial, setting, exp(inner[1]), usual=False)]
    return best


def _tried(trial: Trial, setting: str, value: float, *, usual: bool) -> Solved | None:
    plan = trial.plan.changed(**{setting: value})
    fit = trial.fit(plan)
    return None if fit is None else Solved(value, fit, plan, usual)


def _better(one: Solved | None, other: Solved | None) -> Solved | None:
    if one is None or other is None:
        return one or other
    return other if other.fit.rms < one.fit.rms else one
