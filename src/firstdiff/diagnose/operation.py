"""The reference's operation behind a case, on the candidate's own inputs, ready to run with one thing changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from firstdiff.errors import UsageError
from firstdiff.ops import Plan


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """One operation that the row of a case is computed by.

    key: the row of the reference whose operation it is; the case's own, or one before it that the candidate lacks
    op: the kind as recorded
    plan: the operation as the reference's own output confirmed it, on the candidate's inputs
    own_inputs: whether these are the candidate's; else the reference's, which match them
    finish: from the operation's output to the case's row, in `case.candidate`'s layout and part
    """

    key: str
    op: str
    plan: Plan
    own_inputs: bool
    finish: Callable[[dict[str, np.ndarray]], np.ndarray | None]

    @property
    def function(self) -> Any:
        """The operator: one of `firstdiff.ops`."""
        return self.plan.function

    def run(self, plan: Plan | None = None) -> np.ndarray | None:
        """Return the row that the candidate would have with this operation; None if it cannot be computed."""
        try:
            return self.finish((plan or self.plan).run())
        except (ValueError, IndexError, UsageError):
            return None

    def with_plan(self, plan: Plan) -> Operation:
        """The same with the change made for good."""
        return replace(self, plan=plan)
