"""The interface of a hypothesis: one cause, tested on the values of a case."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from firstdiff.diagnose.fit import Fit

if TYPE_CHECKING:
    from firstdiff.diagnose.case import Case
    from firstdiff.diagnose.operation import Operation


class Specific(IntEnum):
    """The specificity of a cause; of two that fit, the more specific one comes first.

    SYMPTOM: what the values look like ("uncorrelated", "all zero"): true, but no mistake of somebody's yet
    FORM: how the values are related ("each channel has its own factor"): many mistakes look like that
    MISTAKE: what somebody did ("the bias is not added", "eps is 1e-6"): it can be undone
    """

    SYMPTOM = 0
    FORM = 1
    MISTAKE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """One way in which a case may have come about, and how well it fits.

    cause: the code
    fit: what is left over if the candidate was made this way
    evidence: one sentence: what was changed and what it does to the difference (`case.falls_to(fit)` says the latter)
    fix: one sentence: what to do in the candidate
    assumed: how many numbers or choices were fitted to the candidate's own values: 0 for "no bias", 1 for a solved
        eps or a factor, the number of channels for a factor each
    specific: how much it says
    implies: more general causes that hold as well
    doubt: 0 to 1, how often this fits although it is not so, beyond what the numbers tell
    predicted: what the candidate should then have, in the layout of `case.candidate`; lets a second cause be found
    operation: the operation with the change made; lets a second cause be found in the same operation
    """

    cause: str
    fit: Fit
    evidence: str
    fix: str
    assumed: int = 0
    specific: Specific = Specific.MISTAKE
    implies: tuple[str, ...] = ()
    doubt: float = 0.0
    predicted: np.ndarray | None = None
    operation: Operation | None = None


class Hypothesis(ABC):
    """One cause and its test, and one entry of the hook `firstdiff.hypotheses`.

    The docstring of the class is the page that `firstdiff causes CODE` shows: a first line, then what happened, how it
    shows, how it is tested and what to do.

    code: the cause, in the style of `norm.eps`
    also: other causes that its explanations may state, told of on the same page
    """

    code: ClassVar[str]
    also: ClassVar[tuple[str, ...]] = ()

    def applies(self, case: Case) -> bool:
        """True if the test makes sense for a case; must be cheap. By default: both sides have one shape."""
        return case.comparable

    @abstractmethod
    def test(self, case: Case) -> Iterable[Explanation]:
        """The ways in which the case may have come about by this cause; none where it did not.

        What explains nothing need not be left out: the ranking does that.
        """
