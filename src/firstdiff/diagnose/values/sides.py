"""Both sides of a case as arrays, the part of them that is wrong, and the fit of predictions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import exp, log
from typing import final

import numpy as np

from firstdiff import dtypes
from firstdiff.diagnose.case import Case
from firstdiff.diagnose.hypothesis import Explanation, Specific
from firstdiff.locate.where import Pattern, pattern_of

_TRIMMED = 0.01
_LEAST_LEFT = 1e-9
_PRICE = log(10.0)


@dataclass(frozen=True, slots=True)
class Share:
    """Share of the difference that a prediction leaves.

    left: fraction that remains over the elements that differ, corrected for fitted numbers
    count: number of elements compared
    fitted: number of fitted parameters
    """

    left: float
    count: int
    fitted: int

    @property
    def evidence(self) -> float:
        """Return the log likelihood ratio against chance; low for few elements, which fit anything."""
        free = self.count - self.fitted
        if free <= 0 or self.left >= 1.0:
            return 0.0
        return max(free * log(1.0 / max(self.left, _LEAST_LEFT)) - self.fitted * _PRICE, 0.0)


NOTHING = Share(1.0, 0, 0)


@np.errstate(all="ignore")
def share_left(
    reference: np.ndarray, candidate: np.ndarray, predicted: np.ndarray, wrong: np.ndarray, fitted: int = 0
) -> Share:
    """Compare a prediction with the candidate, over the elements where the sides differ.

    fitted: number of parameters taken from the candidate itself

    Relative to the candidate's own spread too, so that predicting 0 does not explain a candidate near 0.
    """
    told = wrong & np.isfinite(predicted) & np.isfinite(reference) & np.isfinite(candidate)
    count = int(np.count_nonzero(told))
    if not count or 2 * count < np.count_nonzero(wrong):
        return NOTHING
    ref, cand, made = reference[told], candidate[told], predicted[told]
    before = typical(cand - ref)
    every = candidate[np.isfinite(candidate)]
    spread = typical(every - every.mean())
    before = min(before, spread) if spread > 0 else before
    after = typical(cand - made) * (count / max(count - fitted, 1)) ** 0.5
    return Share(after / before if before > 0 else 1.0, count, fitted)


def typical(values: np.ndarray) -> float:
    """Return the root mean square without the largest hundredth, for outliers would dominate it."""
    sizes = np.abs(values).reshape(-1)
    kept = sizes.size - int(sizes.size * _TRIMMED)
    if kept < sizes.size:
        sizes = np.partition(sizes, kept - 1)[:kept]
    top = float(sizes.max(initial=0.0))
    return top * float(np.sqrt(np.mean((sizes / top) ** 2))) if 0 < top < np.inf else top


_ALL = 0.999
_SLIGHT, _BULK = 0.02, 0.25
_WORTH_TELLING = 0.5
_ENOUGH = 10.0
_FAR = 50.0
_FEW = 0.002
_STRAYED = 0.1


@final
@dataclass(frozen=True, eq=False)
class Sides:
    """Expected and actual values of the candidate, in one shape, as float64 or complex128.

    allowed: how far apart two healthy values may be, element by element
    patterns: axes of which only some indices are wrong; these sides are cut down to them
    """

    case: Case
    reference: np.ndarray
    candidate: np.ndarray
    allowed: np.ndarray
    patterns: dict[int, Pattern]

    @staticmethod
    def of(case: Case) -> Sides:
        """Return the sides of a whole case; the same object on every call."""
        return case.derived(_sides_of)

    @property
    def ndim(self) -> int:
        return self.reference.ndim

    @property
    def shape(self) -> tuple[int, ...]:
        return self.reference.shape

    @property
    def real(self) -> bool:
        return self.reference.dtype.kind == "f"

    @property
    def eps(self) -> float:
        """Machine epsilon of the coarser dtype; 0 for integers."""
        return dtypes.eps_of(self.case.dtype)

    @cached_property
    def finite(self) -> np.ndarray:
        return np.asarray(np.isfinite(self.reference) & np.isfinite(self.candidate))

    @cached_property
    def difference(self) -> np.ndarray:
        with np.errstate(all="ignore"):
            return np.asarray(self.candidate - self.reference)

    @cached_property
    def wrong(self) -> np.ndarray:
        """Mark the elements that differ by more than is allowed, or by about as much as those that do."""
        with np.errstate(all="ignore"):
            apart = np.abs(self.difference)
            beyond = self.finite & (apart > self.allowed)
            if beyond.any():
                usual = typical(apart[beyond])
                beyond = self.finite & (apart > np.clip(self.allowed, _SLIGHT * usual, _BULK * usual))
            same = (self.reference == self.candidate) | (np.isnan(self.reference) & np.isnan(self.candidate))
        return np.asarray(beyond | (~self.finite & ~same))

    @cached_property
    def part(self) -> Sides:
        """Return only the indices that are wrong (one head, the tokens from 12 on); itself if all are."""
        found = {}
        for axis in range(self.ndim):
            others = tuple(other for other in range(self.ndim) if other != axis)
            pattern = pattern_of(self.wrong.sum(axis=others).astype(np.float64))
            if pattern is not None and pattern.share > _ALL:
                found[axis] = pattern
        return self.cut_to(found) if found else self

    def cut_to(self, patterns: dict[int, Pattern]) -> Sides:
        """Return some indices of some axes of a whole case."""
        cut = self._index(patterns)
        return Sides(self.case, self.reference[cut], self.candidate[cut], self.allowed[cut], patterns)

    @property
    def is_part(self) -> bool:
        return bool(self.patterns)

    @property
    def place(self) -> str:
        """Describe the location of the part to begin a sentence: `in index 5 of axis 1, `; empty for the whole."""
        words = [f"{found.words('index')} of {axis_words(axis, self.ndim)}" for axis, found in self.patterns.items()]
        return f"in {' and '.join(words)}, " if words else ""

    def told(
        self,
        cause: str,
        predicted: np.ndarray,
        evidence: str,
        fix: str,
        *,
        assumed: int = 0,
        chosen: int = 0,
        specific: Specific = Specific.MISTAKE,
        implies: tuple[str, ...] = (),
        doubt: float = 0.0,
    ) -> Iterator[Explanation]:
        """Yield the explanation that a prediction of the candidate is, unless it explains next to nothing.

        evidence: what was seen; where, and what it does to the difference, is added
        chosen: choices, such as which index goes where, that were made to fit and that many elements confirm
        doubt: how often this fits although it is not so; few elements add to it
        """
        share = self.left_by(predicted, assumed + chosen)
        if share.left > _WORTH_TELLING or not share.evidence:
            return
        strays = self._strays(predicted)
        whole = self.put_back(np.where(strays, self.candidate, predicted) if strays.any() else predicted)
        fit = self.case.fit(whole)
        apart = f" apart from {int(strays.sum())} elements" if strays.any() else ""
        yield Explanation(
            cause=cause,
            fit=fit,
            evidence=f"{self.place}{evidence}{apart}: {self.case.falls_to(fit)}",
            fix=fix,
            assumed=assumed,
            specific=specific,
            implies=implies,
            doubt=1.0 - (1.0 - max(doubt, _STRAYED * bool(apart))) * (1.0 - exp(-share.evidence / _ENOUGH)),
            predicted=whole,
        )

    def left_by(self, predicted: np.ndarray, fitted: int = 0) -> Share:
        """Return the fraction of the difference that a prediction leaves."""
        return share_left(self.reference, self.candidate, predicted, self.wrong, fitted)

    def _strays(self, predicted: np.ndarray) -> np.ndarray:
        """Mark the few elements that are far off where nearly all others fit."""
        with np.errstate(all="ignore"):
            apart = np.abs(self.candidate - predicted)
            far = self.finite & (apart > _FAR * self.allowed) & (apart > _FAR * np.median(apart[self.finite]))
        few = 0 < np.count_nonzero(far) <= _FEW * np.count_nonzero(self.wrong)
        return np.asarray(far if few else np.zeros_like(far))

    def put_back(self, predicted: np.ndarray) -> np.ndarray:
        """Return the reference of the whole case with this part replaced."""
        if not self.patterns:
            return predicted
        whole = Sides.of(self.case).reference.copy()
        whole[self._index(self.patterns)] = predicted
        return whole

    def _index(self, patterns: dict[int, Pattern]) -> tuple[np.ndarray, ...]:
        shape = self.case.candidate.shape
        lines = [
            np.asarray(patterns[axis].indices) if axis in patterns else np.arange(n) for axis, n in enumerate(shape)
        ]
        return np.ix_(*lines)


def _sides_of(case: Case) -> Sides:
    reference, candidate = case.expected, case.candidate
    kind = np.result_type(reference, candidate)
    reference, candidate = reference.astype(kind, copy=False), candidate.astype(kind, copy=False)
    return Sides(case, reference, candidate, case.floor.allowed, {})


def axis_words(axis: int, ndim: int) -> str:
    if ndim == 1:
        return "its only axis"
    return "the last axis" if axis == ndim - 1 else "the first axis" if axis == 0 else f"axis {axis}"


def views(case: Case) -> Iterator[Sides]:
    """Yield the whole case, then its wrong part if that is smaller."""
    whole = Sides.of(case)
    yield whole
    if whole.part is not whole:
        yield whole.part


def of_channels(sides: Sides) -> bool:
    """True if only some channels or heads are wrong."""
    axes = {sides.ndim - 1, *({1} if sides.ndim >= 3 else set())}
    return any(axis in axes and pattern.form in ("one", "several") for axis, pattern in sides.patterns.items())
