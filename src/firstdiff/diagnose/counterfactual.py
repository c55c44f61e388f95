"""Hypotheses that run the reference's operation again with one thing changed."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from firstdiff.diagnose.case import Case
from firstdiff.diagnose.fit import Fit
from firstdiff.diagnose.hypothesis import Explanation, Hypothesis, Specific
from firstdiff.diagnose.operation import Operation
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
        """Each variant against what the candidate has."""
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
