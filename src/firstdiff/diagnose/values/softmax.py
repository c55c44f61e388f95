"""Hypotheses: softmax along another axis, with another scale or without its mask, from probabilities alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from firstdiff.diagnose.case import Case
from firstdiff.diagnose.hypothesis import Explanation, Hypothesis
from firstdiff.diagnose.values.estimates import constant_name, sizes_of
from firstdiff.diagnose.values.scales import shapes_near
from firstdiff.diagnose.values.sides import Sides, axis_words

_NEAR = 0.02
_LARGEST_SHARE = 0.98


@np.errstate(all="ignore")
def sums_to_one(values: np.ndarray) -> list[int]:
    """Return the axes longer than 1 along which nearly all sums are 1; none for values below 0."""
    if values.dtype.kind != "f" or not values.size or np.isnan(values).all():
        return []
    if np.nanmin(values) < -1e-6 or np.nanmax(values) > 1 + _NEAR:
        return []
    found = []
    for axis in range(values.ndim):
        if values.shape[axis] > 1:
            near = np.abs(values.sum(axis=axis) - 1.0) < _NEAR
            if np.mean(near) >= _LARGEST_SHARE:
                found.append(axis)
    return found


_TINY = 1e-30
_SMALL = 1e-6
_ONE = 1e-3


class _Softmax(Hypothesis):
    """The reference holds probabilities."""

    def applies(self, case: Case) -> bool:
        return case.comparable and Sides.of(case).real and bool(_probability_axes(case))


class SoftmaxAxis(_Softmax):
    """The softmax runs along another axis.

    Both sides hold probabilities, but they add up to 1 along different axes: over the queries in place of the keys, or
    over the heads.

    Tested by the sums, and by making the reference add up along the candidate's axis. Give the softmax the reference's
    axis.
    """

    code = "softmax.axis"

    @np.errstate(all="ignore")
    def test(self, case: Case) -> Iterator[Explanation]:
        sides = Sides.of(case)
        for right in _probability_axes(case):
            for wrong in sums_to_one(sides.candidate):
                if wrong in _probability_axes(case):
                    continue
                made = sides.reference * _normaliser_ratio(sides.reference, sides.candidate, right, wrong)
                yield from sides.told(
                    self.code,
                    made / made.sum(axis=wrong, keepdims=True),
                    f"the candidate adds up to 1 along {axis_words(wrong, sides.ndim)}, the reference along "
                    f"{axis_words(right, sides.ndim)}",
                    f"take the softmax along {axis_words(right, sides.ndim)}",
                    assumed=sides.reference.size // sides.shape[right],
                )


class AttentionScale(_Softmax):
    """The scores had another scale before the softmax.

    `1/sqrt(d)` forgotten, applied twice, or with the wrong d: probabilities are too sharp or too flat.

    Tested on the logarithms of the probabilities, which are the scores up to a constant: one factor between them.
    """

    code = "attention.scale"

    @np.errstate(all="ignore")
    def test(self, case: Case) -> Iterator[Explanation]:
        sides = Sides.of(case)
        for axis in _probability_axes(case):
            there = (sides.reference > _SMALL) & (sides.candidate > _SMALL)
            reference, candidate = (
                _centred_logarithms(side, there, axis) for side in (sides.reference, sides.candidate)
            )
            power = float(np.sum(reference**2))
            factor = float(np.sum(reference * candidate)) / power if power else 1.0
            if abs(factor - 1) < _ONE or factor <= 0:
                continue
            powered = np.where(sides.reference > 0, np.exp(factor * np.log(sides.reference + _TINY)), 0.0)
            name = constant_name(factor, 1e-4, sizes_of(shapes_near(case)))
            yield from sides.told(
                self.code,
                powered / powered.sum(axis=axis, keepdims=True),
                f"the scores were {factor:.5g}{f' ({name})' if name else ''} times what they should be",
                f"divide the scores by {factor:.5g} before the softmax",
                assumed=1,
            )


class AttentionMask(_Softmax):
    """The mask is missing, or hides something else.

    Probabilities are 0 in the reference where the candidate has some, or the other way round; what both show has kept
    its proportions.

    Tested by the places that both sides see: there one factor for each row must be all that differs. Use the
    reference's mask.
    """

    code = "attention.mask"

    @np.errstate(all="ignore")
    def test(self, case: Case) -> Iterator[Explanation]:
        sides = Sides.of(case)
        hidden, hides = sides.reference <= _TINY, sides.candidate <= _TINY
        if np.array_equal(hidden, hides):
            return
        for axis in _probability_axes(case):
            shown = ~hidden & ~hides
            reference, candidate = (
                np.where(shown, side, 0.0).sum(axis=axis, keepdims=True) for side in (sides.reference, sides.candidate)
            )
            made = np.where(shown, sides.reference * (candidate / reference), sides.candidate)
            more, less = int((hidden & ~hides).sum()), int((hides & ~hidden).sum())
            told = " and ".join(
                text
                for count, text in (
                    (more, f"{more:,} places that the reference hides are seen"),
                    (less, f"{less:,} places that the reference sees are hidden"),
                )
                if count
            )
            above = _is_causal(hidden, hides)
            yield from sides.told(
                self.code,
                np.where(np.isfinite(made), made, sides.candidate),
                f"{told}{above}; what both see keeps its proportions",
                "use the reference's mask",
                assumed=sides.reference.size // sides.shape[axis],
            )


def _probability_axes(case: Case) -> list[int]:
    return case.derived(_axes_that_sum_to_one)


def _axes_that_sum_to_one(case: Case) -> list[int]:
    return sums_to_one(Sides.of(case).reference)


def _centred_logarithms(values: np.ndarray, there: np.ndarray, axis: int) -> np.ndarray:
    """Return logarithms minus the mean of each row."""
    logs = np.where(there, np.log(np.where(there, values, 1.0)), 0.0)
    mean = logs.sum(axis=axis, keepdims=True) / np.maximum(there.sum(axis=axis, keepdims=True), 1)
    return np.where(there, logs - mean, 0.0)


def _normaliser_ratio(reference: np.ndarray, candidate: np.ndarray, right: int, wrong: int) -> np.ndarray:
    """Return the normaliser of each row of the right axis, up to one factor, from the ratio of both sides."""
    ratio = np.log(np.maximum(candidate, _TINY)) - np.log(np.maximum(reference, _TINY))
    ratio = ratio - ratio.mean(axis=right, keepdims=True).mean(axis=wrong, keepdims=True)
    return np.asarray(np.exp(ratio.mean(axis=right, keepdims=True)))


def _is_causal(hidden: np.ndarray, hides: np.ndarray) -> str:
    changed = hidden != hides
    if changed.ndim < 2 or changed.shape[-1] < 2:
        return ""
    rows, columns = np.nonzero(changed.reshape(-1, *changed.shape[-2:]).any(axis=0))
    return ", all of them after the query (a causal mask)" if (columns > rows).all() else ""


AXIS: Final = SoftmaxAxis()
SCALE: Final = AttentionScale()
MASK: Final = AttentionMask()
