"""Hypotheses: an activation is missing, extra or another one, from the values alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from firstdiff import dtypes
from firstdiff.diagnose.case import Case
from firstdiff.diagnose.hypothesis import Explanation, Hypothesis
from firstdiff.diagnose.values.activations import KINDS, MAPS, could_come_from, inverse_above_zero
from firstdiff.diagnose.values.sides import Sides

_SAMPLE = 512
_LEAST = 16
_LEFT = 0.2
_BENT = 0.5


class ActivationMissing(Hypothesis):
    """An activation is not applied: the reference is the candidate after it.

    Tested by applying every known activation to the candidate's values: is the reference what comes out? Apply it.
    """

    code = "activation.missing"

    def applies(self, case: Case) -> bool:
        return _applies(case)

    @np.errstate(all="ignore")
    def test(self, case: Case) -> Iterator[Explanation]:
        sides = Sides.of(case)
        flat = _sample(sides)
        reference, candidate = sides.reference.reshape(-1)[flat], sides.candidate.reshape(-1)[flat]
        for name, function in MAPS.items():
            made = function(candidate)
            if (
                candidate.size < _LEAST
                or not could_come_from(name, sides.reference)
                or not _fits(made, reference, candidate)
            ):
                continue
            made = function(sides.candidate)
            right = np.abs(made - sides.reference) <= sides.allowed + 1e-6 * np.abs(sides.reference)
            yield from sides.told(
                self.code,
                np.where(right, sides.candidate, sides.reference),
                f"{name} of the candidate's values is what they should be",
                f"apply {name}",
                implies=("values.clipped",),
            )


class ActivationExtra(Hypothesis):
    """An activation is applied that should not be, or applied twice.

    Tested by applying every known activation to what the candidate should have. Leave it out.
    """

    code = "activation.extra"

    def applies(self, case: Case) -> bool:
        return _applies(case)

    @np.errstate(all="ignore")
    def test(self, case: Case) -> Iterator[Explanation]:
        sides = Sides.of(case)
        flat = _sample(sides)
        reference, candidate = sides.reference.reshape(-1)[flat], sides.candidate.reshape(-1)[flat]
        for name, function in MAPS.items():
            if candidate.size < _LEAST or not could_come_from(name, sides.candidate):
                continue
            if _fits(function(reference), candidate, reference):
                yield from sides.told(
                    self.code,
                    function(sides.reference),
                    f"the candidate is {name} of what it should be",
                    f"leave out {name}",
                    implies=("values.zero", "values.clipped"),
                )


class ActivationKind(Hypothesis):
    """Another activation is applied: gelu by tanh in place of erf, silu in place of gelu, relu in place of either.

    Tested where the reference is positive: there every activation can be undone, and another one applied to what it was
    made of. Use the reference's.
    """

    code = "activation.kind"

    def applies(self, case: Case) -> bool:
        return _applies(case)

    @np.errstate(all="ignore")
    def test(self, case: Case) -> Iterator[Explanation]:
        sides = Sides.of(case)
        flat = _sample(sides)
        reference, candidate = sides.reference.reshape(-1)[flat], sides.candidate.reshape(-1)[flat]
        above = (reference > 0) & np.isfinite(candidate)
        if int(above.sum()) < _LEAST:
            return
        for right in (name for name in KINDS if could_come_from(name, sides.reference)):
            inside = inverse_above_zero(right, reference[above])
            if np.isnan(inside).mean() > 0.1:
                continue
            for wrong in KINDS:
                if wrong == right or not could_come_from(wrong, sides.candidate):
                    continue
                made = MAPS[wrong](inside)
                if _fits(made, candidate[above], reference[above]):
                    yield from self._told(sides, right, wrong)

    def _told(self, sides: Sides, right: str, wrong: str) -> Iterator[Explanation]:
        above = sides.reference > 0
        predicted = np.where(above, MAPS[wrong](inverse_above_zero(right, sides.reference)), sides.candidate)
        yield from sides.told(
            self.code,
            predicted,
            f"where the reference is positive, the candidate is {wrong} of what {right} makes the reference of",
            f"use {right} in place of {wrong}",
            doubt=0.05,
        )


def _applies(case: Case) -> bool:
    return case.comparable and Sides.of(case).real and dtypes.kind_of(case.candidate_dtype) == "float"


def _sample(sides: Sides) -> np.ndarray:
    """Places of elements that are wrong, and as many of any: of a relu, the wrong ones alone are all below 0."""
    return np.concatenate([_some((sides.wrong & sides.finite).reshape(-1)), _some(sides.finite.reshape(-1))])


def _some(told: np.ndarray) -> np.ndarray:
    there = np.flatnonzero(told)
    return there if there.size <= _SAMPLE else there[np.arange(_SAMPLE) * there.size // _SAMPLE]


def _fits(made: np.ndarray, wanted: np.ndarray, plain: np.ndarray) -> bool:
    """True if a map predicts the wanted values, and better than the identity or one factor does."""
    told = np.isfinite(made)
    if told.mean() < 0.9:
        return False
    before = np.sqrt(np.mean((wanted - plain)[told] ** 2))
    spread = np.std(wanted[told])
    after = np.sqrt(np.mean((wanted - made)[told] ** 2))
    power = float(np.sum(plain[told] ** 2))
    factor = float(np.sum(plain[told] * wanted[told])) / power if power else 1.0
    straight = np.sqrt(np.mean((wanted - factor * plain)[told] ** 2))
    return bool(before > 0 and after <= _LEFT * min(before, spread or before) and after < _BENT * straight)


MISSING: Final = ActivationMissing()
EXTRA: Final = ActivationExtra()
KIND: Final = ActivationKind()
