"""Hypotheses: an activation is missing, extra or another one, from the values alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from typing import Final

import numpy as np

from firstdiff import dtypes
from firstdiff.diagnose.case import Case
from firstdiff.diagnose.hypothesis import Explanation, Hypothesis
from firstdiff.diagnose.values.sides import Sides
from firstdiff.ops import activations

Map = Callable[[np.ndarray], np.ndarray]

_POINTS = 20_001
_REACH = 40.0


def _relu6(x: np.ndarray) -> np.ndarray:
    return np.asarray(np.clip(x, 0.0, 6.0))


def _hard_swish(x: np.ndarray) -> np.ndarray:
    return np.asarray(x * np.clip(x + 3.0, 0.0, 6.0) / 6.0)


def _elu(x: np.ndarray) -> np.ndarray:
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0.0)))


MAPS: Final[Mapping[str, Map]] = {
    "relu": activations.relu,
    "gelu (erf)": activations.gelu,
    "gelu (tanh)": partial(activations.gelu, approximate="tanh"),
    "quick gelu": partial(activations.gelu, approximate="quick"),
    "silu": activations.silu,
    "sigmoid": activations.sigmoid,
    "tanh": activations.tanh,
    "exp": np.exp,
    "softplus": activations.softplus,
    "mish": activations.mish,
    "elu": _elu,
    "leaky relu (0.01)": activations.leaky_relu,
    "leaky relu (0.1)": partial(activations.leaky_relu, negative_slope=0.1),
    "leaky relu (0.2)": partial(activations.leaky_relu, negative_slope=0.2),
    "relu6": _relu6,
    "hard swish": _hard_swish,
    "squared relu": activations.relu_squared,
}

# below 0 these functions are not invertible; above 0 all of them rise
KINDS: Final = tuple(name for name in MAPS if name not in ("exp", "relu6"))


@lru_cache(maxsize=32)
def _sampled_map(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Sample a function from 0 up: the inputs and its outputs."""
    x = np.concatenate([np.linspace(0.0, 1.0, _POINTS)[:-1], np.geomspace(1.0, _REACH, _POINTS)])
    return x, np.asarray(MAPS[name](x))


def inverse_above_zero(name: str, values: np.ndarray) -> np.ndarray:
    """Invert a function from 0 up, exact to about 1e-9; NaN where it never takes the value."""
    x, made = _sampled_map(name)
    found = np.interp(values, made, x, left=np.nan, right=np.nan)
    with np.errstate(all="ignore"):
        step = 1e-6
        slope = (MAPS[name](found + step) - MAPS[name](found)) / step
        better = found - (MAPS[name](found) - values) / slope
    return np.asarray(np.where(np.isfinite(better), better, found))


# the minimum of each function, and those that are 0 for all numbers below 0
_MINIMA: Final[Mapping[str, float]] = {
    "gelu (erf)": -0.1701,
    "gelu (tanh)": -0.1701,
    "quick gelu": -0.1637,
    "silu": -0.2785,
    "mish": -0.3089,
    "hard swish": -0.3751,
    "elu": -1.0,
    "tanh": -1.0,
}
_CUT_OFF = frozenset({"relu", "relu6", "squared relu"})
_POSITIVE = frozenset({"sigmoid", "exp", "softplus"})
_AT_MOST_ONE = frozenset({"sigmoid", "tanh"})
_SLOPES: Final[Mapping[str, float]] = {"leaky relu (0.01)": 0.01, "leaky relu (0.1)": 0.1, "leaky relu (0.2)": 0.2}
_UNEVEN = 3.0  # largest ratio of the reach below 0 to that above it, before a slope flattens the negative side
_SLACK = 1e-2
_MOST_OUTSIDE = 0.02


def could_come_from(name: str, values: np.ndarray) -> bool:
    """True if values can be outputs of an activation: in its range, and with the zeros that it leaves."""
    told = values[np.isfinite(values)]
    if not told.size:
        return False
    low, high = float(told.min()), float(told.max())
    if name in _CUT_OFF:
        return low >= 0 and float(np.mean(told == 0)) > _MOST_OUTSIDE
    if name in _POSITIVE:
        return low >= 0 and (high <= 1 + _SLACK or name not in _AT_MOST_ONE)
    if name in _AT_MOST_ONE and high > 1 + _SLACK:
        return False
    if name in _SLOPES and -low > _UNEVEN * _SLOPES[name] * high:
        return False
    return _MINIMA.get(name, -np.inf) - _SLACK <= low < 0


_SAMPLE = 512
_FEWEST_VALUES = 16
_LEFT = 0.2
_BENT = 0.5


class _FromActivations(Hypothesis):
    """Both sides hold real numbers that an activation may have made."""

    def applies(self, case: Case) -> bool:
        return case.comparable and Sides.of(case).real and dtypes.kind_of(case.candidate_dtype) == "float"


class ActivationMissing(_FromActivations):
    """An activation is not applied: the reference is the candidate after it.

    Tested by applying every known activation to the candidate's values: is the reference what comes out? Apply it.
    """

    code = "activation.missing"

    @np.errstate(all="ignore")
    def test(self, case: Case) -> Iterator[Explanation]:
        sides = Sides.of(case)
        reference, candidate = _sampled_values(sides)
        for name, function in MAPS.items():
            made = function(candidate)
            if (
                candidate.size < _FEWEST_VALUES
                or not could_come_from(name, sides.reference)
                or not _predicts_best(made, reference, candidate)
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


class ActivationExtra(_FromActivations):
    """An activation is applied that should not be, or applied twice.

    Tested by applying every known activation to what the candidate should have. Leave it out.
    """

    code = "activation.extra"

    @np.errstate(all="ignore")
    def test(self, case: Case) -> Iterator[Explanation]:
        sides = Sides.of(case)
        reference, candidate = _sampled_values(sides)
        for name, function in MAPS.items():
            if candidate.size < _FEWEST_VALUES or not could_come_from(name, sides.candidate):
                continue
            if _predicts_best(function(reference), candidate, reference):
                yield from sides.told(
                    self.code,
                    function(sides.reference),
                    f"the candidate is {name} of what it should be",
                    f"leave out {name}",
                    implies=("values.zero", "values.clipped"),
                )


class ActivationKind(_FromActivations):
    """Another activation is applied: gelu by tanh in place of erf, silu in place of gelu, relu in place of either.

    Tested where the reference is positive: there every activation can be undone, and another one applied to what it was
    made of. Use the reference's.
    """

    code = "activation.kind"

    @np.errstate(all="ignore")
    def test(self, case: Case) -> Iterator[Explanation]:
        sides = Sides.of(case)
        reference, candidate = _sampled_values(sides)
        above = (reference > 0) & np.isfinite(candidate)
        if int(above.sum()) < _FEWEST_VALUES:
            return
        for right in (name for name in KINDS if could_come_from(name, sides.reference)):
            inside = inverse_above_zero(right, reference[above])
            if np.isnan(inside).mean() > 0.1:
                continue
            for wrong in KINDS:
                if wrong == right or not could_come_from(wrong, sides.candidate):
                    continue
                made = MAPS[wrong](inside)
                if _predicts_best(made, candidate[above], reference[above]):
                    yield from self._told(sides, right, wrong)

    def _told(self, sides: Sides, right: str, wrong: str) -> Iterator[Explanation]:
        above = sides.reference > 0
        predicted = np.where(above, MAPS[wrong](inverse_above_zero(right, sides.reference)), sides.candidate)
        yield from sides.told(
            self.code,
            predicted,
            f"where the reference, {right}(x), is positive, the candidate is {wrong} of the same x",
            f"use {right} in place of {wrong}",
            doubt=0.05,
        )


def _sampled_values(sides: Sides) -> tuple[np.ndarray, np.ndarray]:
    """Return both sides at wrong elements and at as many of any: the wrong ones of a relu alone are all below 0."""
    flat = np.concatenate([_thinned((sides.wrong & sides.finite).reshape(-1)), _thinned(sides.finite.reshape(-1))])
    return sides.reference.reshape(-1)[flat], sides.candidate.reshape(-1)[flat]


def _thinned(told: np.ndarray) -> np.ndarray:
    there = np.flatnonzero(told)
    return there if there.size <= _SAMPLE else there[np.arange(_SAMPLE) * there.size // _SAMPLE]


def _predicts_best(made: np.ndarray, wanted: np.ndarray, plain: np.ndarray) -> bool:
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
