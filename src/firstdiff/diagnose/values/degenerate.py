"""Hypotheses: values that are 0, all the same, clipped or uncorrelated with the expected ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from firstdiff import dtypes
from firstdiff.diagnose.case import Case
from firstdiff.diagnose.hypothesis import Explanation, Fit, Hypothesis, Specific
from firstdiff.diagnose.values.sides import Sides

_TINY = 1e-12


class ValuesZero(Hypothesis):
    """Values are 0 where they should not be: all of them, a chunk, a channel, or from a token on.

    A buffer that was never filled, an activation that lets nothing through, a mask that hides everything, an expert or
    a chunk that is skipped.

    Tested by the elements that are wrong: all of them are 0. See whether an activation, a mask or an unfilled buffer
    makes them so.
    """

    code = "values.zero"

    def applies(self, case: Case) -> bool:
        return case.comparable and dtypes.kind_of(case.candidate_dtype) != "bool"

    def test(self, case: Case) -> Iterator[Explanation]:
        sides = Sides.of(case).part
        wrong = sides.wrong & sides.finite
        if not wrong.any():
            return
        top = float(np.abs(sides.reference[np.isfinite(sides.reference)]).max(initial=0.0))
        zero = np.abs(sides.candidate) <= _TINY * top
        if not zero[wrong].all():
            return
        whole = bool(zero.all())
        yield from sides.told(
            self.code,
            np.where(zero, 0.0, sides.reference),
            "the candidate is 0" if whole else f"{int(wrong.sum()):,} elements are 0 in the candidate",
            "see whether an activation, a mask or a buffer that is never filled makes these values 0",
            specific=Specific.SYMPTOM,
            doubt=0.0 if whole else 0.2,
        )


class ValuesConstant(Hypothesis):
    """Values are all the same number.

    An activation is saturated, a softmax runs over an axis of one, a default was never overwritten.

    Tested by the part that is wrong: its values do not vary. See what makes them so.
    """

    code = "values.constant"

    def test(self, case: Case) -> Iterator[Explanation]:
        sides = Sides.of(case).part
        values = sides.candidate[sides.finite]
        if values.size < 2 or values.dtype.kind != "f":
            return
        value = float(values[0])
        if not value or float(np.ptp(values)) > _TINY * abs(value):
            return
        yield from sides.told(
            self.code,
            np.full_like(sides.reference, value),
            f"the candidate is {value:.6g} everywhere",
            "see what makes these values all the same: a saturated activation, a softmax over one element, a default",
            specific=Specific.SYMPTOM,
            assumed=1,
        )


_KNOWN_BOUNDS = {
    65504.0: "the largest float16",
    448.0: "the largest float8_e4m3",
    57344.0: "the largest float8_e5m2",
    127.0: "the largest int8",
    128.0: "the range of int8",
    255.0: "the largest byte",
    32767.0: "the largest 16-bit sample",
    32768.0: "the range of 16-bit samples",
    1.0: "the range of sound and of tanh",
    6.0: "the bound of relu6",
}


class ValuesClipped(Hypothesis):
    """Values stop at a bound: beyond it they are the bound.

    A clamp that the reference has not, or at another place; sound that is cut at 1; a type that saturates at its
    largest number.

    Tested by clipping what the candidate should have to the range the candidate has, of which the ends must be met
    more than once. Leave the clamp out, or set it to the reference's bounds.
    """

    code = "values.clipped"

    def applies(self, case: Case) -> bool:
        return case.comparable and Sides.of(case).real

    def test(self, case: Case) -> Iterator[Explanation]:
        sides = Sides.of(case)
        candidate = sides.candidate[sides.finite]
        if candidate.size < 3 or not np.ptp(candidate):
            return
        reference = sides.reference[sides.finite]
        low, high = _bound(-candidate, -reference), _bound(candidate, reference)
        if low is None and high is None:
            return
        low = high if low is None and high == -candidate.min() else low  # the other end may be met only once
        high = low if high is None and low == candidate.max() else high
        low = None if low is None else -low
        below = -np.inf if low is None else low
        above = np.inf if high is None else high
        if below == 0.0 and above == np.inf:
            return  # a relu, not a bound
        words = " and ".join(_bound_name(bound) for bound in (low, high) if bound is not None)
        yield from sides.told(
            self.code,
            np.clip(sides.reference, below, above),
            f"the candidate stops at {words}",
            f"leave out what clips at {words}, or give the values a type or a scale that holds them",
            assumed=(low is not None) + (high is not None),
        )


def _bound(candidate: np.ndarray, reference: np.ndarray) -> float | None:
    """Return the candidate's largest value if several elements that should be larger have it; else None."""
    top = float(candidate.max())
    at = candidate == top
    beyond = at & (reference > top)
    return top if int(beyond.sum()) >= 2 and 2 * int(beyond.sum()) >= int(at.sum()) else None


def _bound_name(bound: float) -> str:
    name = _KNOWN_BOUNDS.get(abs(bound))
    return f"{bound:.6g} ({name})" if name else f"{bound:.6g}"


_FEWEST_VALUES = 32
_UNRELATED = 0.1
_DOUBT = 0.1
_BELOW_OTHERS = 0.45  # fraction of the difference reported as left, so that anything that explains more ranks first


class ValuesUncorrelated(Hypothesis):
    """Values have nothing to do with what they should be.

    Other weights, another input, another seed, memory of something else: not a scale, not an order, not noise.

    Tested by the correlation of both sides, as values and as ranks. Look at what goes in: is it the same tensor, the
    same checkpoint, the same draw?
    """

    code = "values.uncorrelated"

    def applies(self, case: Case) -> bool:
        return case.comparable and Sides.of(case).real

    @np.errstate(all="ignore")
    def test(self, case: Case) -> Iterator[Explanation]:
        sides = Sides.of(case).part
        reference, candidate = sides.reference[sides.finite], sides.candidate[sides.finite]
        if reference.size < _FEWEST_VALUES or not reference.std() or not candidate.std():
            return
        values, ranks = _correlation(reference, candidate), _correlation(_ranks(reference), _ranks(candidate))
        limit = _UNRELATED + 3 / reference.size**0.5
        if max(abs(values), abs(ranks)) > limit:
            return
        spread = f"its deviation is {candidate.std():.3g} against {reference.std():.3g}"
        yield Explanation(
            cause=self.code,
            fit=Fit(float("inf"), _BELOW_OTHERS * case.unexplained.rms, float("inf")),
            evidence=f"{sides.place}the correlation is {values:.2g}, {spread}",
            fix="look at what goes in: is it the same input, the same checkpoint, the same draw?",
            specific=Specific.SYMPTOM,
            doubt=_DOUBT,
        )


def _correlation(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.mean((one - one.mean()) * (other - other.mean())) / (one.std() * other.std()))


def _ranks(values: np.ndarray) -> np.ndarray:
    few = values[: 1 << 14]
    ranks = np.empty(few.size)
    ranks[np.argsort(few, kind="stable")] = np.arange(few.size)
    return ranks


ZERO: Final = ValuesZero()
CONSTANT: Final = ValuesConstant()
VALUES_CLIPPED: Final = ValuesClipped()
VALUES_UNCORRELATED: Final = ValuesUncorrelated()
