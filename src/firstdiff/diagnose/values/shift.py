"""Hypothesis: values are shifted along an axis."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from firstdiff.diagnose.case import Case
from firstdiff.diagnose.hypothesis import Explanation, Hypothesis
from firstdiff.diagnose.values.lines import Lines
from firstdiff.diagnose.values.sides import Sides, axis_words, views

_FARTHEST = 64
_LEFT = 0.3
_LEAST_LENGTH = 4
_CLEARLY = 2.0
_AS_GOOD = 0.7
_ROUND = "rolled round"
_AS_HEADS = 0.5


class ShiftSequence(Hypothesis):
    """Values stand one or more places further along an axis, rolled round or filled up at the end.

    A token too many at the start, padding on the other side, a convolution without its causal padding, frames that are
    not centred, a target that was shifted twice.

    Tested by moving what the candidate should have along each axis, by up to 64 places. Take away, or add, as many
    places at the start.
    """

    code = "shift.sequence"

    def test(self, case: Case) -> Iterator[Explanation]:
        for sides in views(case):
            for axis, length in enumerate(sides.shape):
                if length >= _LEAST_LENGTH and sides.real:
                    yield from self._along(sides, axis)

    def _along(self, sides: Sides, axis: int) -> Iterator[Explanation]:
        lag = _best_lag(Lines.along(sides, axis))
        if lag is None:
            return
        predicted, filled, unknown = _shifted(sides, axis, lag)
        places = f"{abs(lag)} place{'s' if abs(lag) > 1 else ''}"
        where = axis_words(axis, sides.ndim)
        yield from sides.told(
            self.code,
            predicted,
            f"along {where} the candidate is {places} {'late' if lag > 0 else 'early'}, {filled}",
            f"move it {places} {'back' if lag > 0 else 'on'}: look at what is put in front, cut off or padded",
            assumed=1 + unknown,
            doubt=_AS_HEADS if filled == _ROUND and _moves_whole_chunks(sides, axis, lag) else 0.0,
        )


def _moves_whole_chunks(sides: Sides, axis: int, lag: int) -> bool:
    """True if channels are rolled by a divisor of their number, which is more likely heads in another order."""
    of_channels = axis == sides.ndim - 1 and sides.ndim >= 3 and sides.case.row.audio is None
    return of_channels and abs(lag) > 1 and sides.shape[axis] % abs(lag) == 0


def _best_lag(lines: Lines) -> int | None:
    """The shift that leaves least, if it leaves little and clearly less than most others."""
    most = min(_FARTHEST, len(lines) - max(2, len(lines) // 4))
    lags = [lag for size in range(1, most + 1) for lag in (size, -size)]
    if not lags or not lines.before:
        return None
    left = np.array([lines.left_by_shift(lag) for lag in lags])
    best = int(np.argmax(left <= left.min() / _AS_GOOD + 1e-6))  # of those as good, the shortest
    clear = left[best] * _CLEARLY < float(np.median(left)) if left.size > 2 else True
    return lags[best] if left[best] < _LEFT and clear else None


@np.errstate(all="ignore")
def _shifted(sides: Sides, axis: int, lag: int) -> tuple[np.ndarray, str, int]:
    """The reference moved along an axis, what stands in the places that became free, and how many are unknown."""
    reference, candidate = np.moveaxis(sides.reference, axis, 0), np.moveaxis(sides.candidate, axis, 0)
    allowed = np.moveaxis(sides.allowed, axis, 0)
    moved = np.roll(reference, lag, axis=0)
    free = slice(0, lag) if lag > 0 else slice(lag, None)
    edge = reference[:1] if lag > 0 else reference[-1:]
    for fill, words in ((moved[free], _ROUND), (0.0, "filled with 0"), (edge, "filled with its edge")):
        if np.all(np.abs(candidate[free] - fill) <= allowed[free]):
            moved[free] = fill
            return np.moveaxis(moved, 0, axis), words, 0
    moved[free] = candidate[free]
    return np.moveaxis(moved, 0, axis), "filled with something else", int(candidate[free].size)


HYPOTHESIS: Final = ShiftSequence()
