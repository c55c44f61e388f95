"""Hypotheses: what a test of a cause predicts, and how well the prediction fits."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from math import inf, isfinite
from typing import TYPE_CHECKING, ClassVar, final

import numpy as np

from firstdiff import dtypes
from firstdiff.judge.alone import parts_alone

if TYPE_CHECKING:
    from firstdiff.diagnose.case import Case
    from firstdiff.diagnose.segment import Operation

# masks use larger values in place of infinity, which are no part of the scale
_FILLER = 1e30
# the maximum of ten thousand healthy elements stays within this many deviations
_DEVIATIONS = 6.0
_LEAST_STEPS = 2.0
# one rounding is at most half a step
_LEAST_STEPS_ALONE = 0.75


@dataclass(frozen=True, slots=True)
class Fit:
    """A prediction against the candidate's values.

    worst: the greatest difference in units of the floor: up to 1 it fits, elementwise and everywhere
    rms: the root of the mean square of all differences, in the same unit
    max_abs: the greatest difference, in the values' own unit
    """

    worst: float
    rms: float
    max_abs: float

    @property
    def reaches_floor(self) -> bool:
        return self.worst <= 1.0


@final
class Floor:
    """The noise floor `steps * eps * (std + |value|)` of the candidate's values; 0 for integers.

    rounded_once: a prediction must also be within one rounding as a whole, as isolation asks: 1 % on every value of a
        bf16 tensor is less than the rounding of any of them
    each_element: the operation is one on each element alone
    """

    def __init__(
        self,
        candidate: np.ndarray,
        dtype: np.dtype,
        steps: float,
        *,
        rounded_once: bool = False,
        each_element: bool = False,
    ) -> None:
        self._candidate = candidate
        self.rounded_once = rounded_once
        self._each_element = each_element
        self._finite = np.isfinite(candidate)
        self._all_finite = bool(self._finite.all())
        self.steps = steps
        self.dtype = dtype
        self.allowed = _allowed(candidate, self._finite, steps * dtypes.eps_of(dtype))

    @np.errstate(all="ignore")
    def fit(self, predicted: np.ndarray) -> Fit:
        """Return the fit of a prediction; NaN fits NaN, infinities themselves, another shape nothing."""
        if predicted.shape != self._candidate.shape:
            return Fit(inf, inf, inf)
        difference = np.abs(predicted - self._candidate)
        if not self._all_finite or not isfinite(float(np.sum(difference))):
            alike = (predicted == self._candidate) | (np.isnan(predicted) & np.isnan(self._candidate))
            difference = np.where(alike, 0.0, np.where(np.isnan(difference), inf, difference))
        if difference.size == 0:
            return Fit(0.0, 0.0, 0.0)
        units = np.where(difference == 0, 0.0, difference / self.allowed)
        worst = float(units.max())
        if self.rounded_once and worst <= 1.0:
            parts = parts_alone(predicted, self._candidate, self.dtype, each_element=self._each_element)
            worst = max([worst, *(part.figure / part.limit for part in parts)])
        return Fit(worst, float(np.sqrt(np.mean(units * units))), float(difference.max()))


@np.errstate(all="ignore")
def noise_steps(expected: np.ndarray, candidate: np.ndarray, dtype: np.dtype, alone: bool = False) -> float:
    """Return the steps of a floor above the noise of most elements, once a common factor and offset are taken out.

    alone: expected values come from the candidate's own inputs, so that one operation is all that differs
    """
    kept = np.isfinite(expected) & np.isfinite(candidate) & (np.abs(expected) < _FILLER)
    x, y = expected[kept].real, candidate[kept].real
    eps = dtypes.eps_of(dtype)
    spread = float(np.std(x)) if x.size else 0.0
    if not eps or not spread:
        return inf
    factor = float(np.mean((x - x.mean()) * (y - y.mean()))) / spread**2
    rest = y - y.mean() - factor * (x - x.mean())
    deviation = 1.4826 * float(np.median(np.abs(rest)))
    least = _LEAST_STEPS_ALONE if alone else _LEAST_STEPS
    return max(least, _DEVIATIONS * deviation / (eps * spread))


@np.errstate(all="ignore")
def _allowed(values: np.ndarray, finite: np.ndarray, share: float) -> np.ndarray:
    kept = values[finite & (np.abs(values) < _FILLER)]
    top = float(np.max(np.abs(kept), initial=0.0))
    spread = top * float(np.std(kept / top)) if top else 0.0
    return np.asarray(share * (spread + np.where(finite, np.abs(values), 0.0)), dtype=np.float64)


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
    """A possible cause of a case, and how well it fits.

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
        """Yield the explanations of a case by this cause; none where it does not fit.

        What explains nothing need not be left out: the ranking does that.
        """
