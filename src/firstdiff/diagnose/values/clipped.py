"""Hypothesis: values are clipped at a bound."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from firstdiff.diagnose.case import Case
from firstdiff.diagnose.hypothesis import Explanation, Hypothesis
from firstdiff.diagnose.values.sides import Sides

_BOUNDS = {
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
        low = high if low is None and high == -candidate.min() else low  # met once is enough for the other end
        high = low if high is None and low == candidate.max() else high
        low = None if low is None else -low
        below = -np.inf if low is None else low
        above = np.inf if high is None else high
        if below == 0.0 and above == np.inf:
            return  # that is relu
        words = " and ".join(_named(bound) for bound in (low, high) if bound is not None)
        yield from sides.told(
            self.code,
            np.clip(sides.reference, below, above),
            f"the candidate stops at {words}",
            f"leave out what clips at {words}, or give the values a type or a scale that holds them",
            assumed=(low is not None) + (high is not None),
        )


def _bound(candidate: np.ndarray, reference: np.ndarray) -> float | None:
    """The candidate's largest value, where several elements have it that should be larger."""
    top = float(candidate.max())
    at = candidate == top
    beyond = at & (reference > top)
    return top if int(beyond.sum()) >= 2 and 2 * int(beyond.sum()) >= int(at.sum()) else None


def _named(bound: float) -> str:
    name = _BOUNDS.get(abs(bound))
    return f"{bound:.6g} ({name})" if name else f"{bound:.6g}"


HYPOTHESIS: Final = ValuesClipped()
