"""Find pairs whose values agree, which confirms them; a pair by name or order alone may be wrong."""

from __future__ import annotations

from typing import final

import numpy as np

from firstdiff.errors import ReadError
from firstdiff.pairing.fit import EQUAL, NOISE, misfit
from firstdiff.pairing.side import Side
from firstdiff.pairing.strategy import Situation

_FEWEST = 3  # values that could not be equal by chance
_SMALL = 1 << 12  # elements that are sorted whole where a few of them tell nothing


@final
class Agreement:
    """Tells which tensors of the two sides hold the same values, in any layout.

    within: how far they may be apart, as a share of their spread
    """

    def __init__(self, situation: Situation, within: float = EQUAL) -> None:
        self._within = within
        self._reference, self._candidate = situation.reference, situation.candidate
        self._prints = situation.prints
        self._known: dict[tuple[int, int], bool] = {}

    def __call__(self, place: int, other: int) -> bool:
        """True if two tensors hold the same values, as far as a few of them tell."""
        pair = place, other
        if pair not in self._known:
            self._known[pair] = self._agree(place, other)
        return self._known[pair]

    def _agree(self, place: int, other: int) -> bool:
        size = self._reference.sizes[place]
        if size != self._candidate.sizes[other] or size is None:
            return False
        if misfit(self._prints[0], place, self._prints[1], other) <= self._within:
            return True
        if size > _SMALL:
            return False
        mine, yours = _sorted(self._reference, place), _sorted(self._candidate, other)
        if mine is None or yours is None:
            return False
        scale = float(np.abs(mine).max(initial=0.0))
        # two tensors of one kind are spread alike, so that in order of size their values are never far apart
        return bool(np.abs(mine - yours).max(initial=0.0) <= min(self._within, NOISE) * scale)


def equal_in_order(reference: Side, place: int, candidate: Side, other: int) -> bool:
    """True if two tensors too small for a fingerprint hold the same values in the same order, which are not all one."""
    mine, yours = _read(reference, place), _read(candidate, other)
    if mine is None or yours is None or mine.shape != yours.shape or mine.size < _FEWEST or np.ptp(mine) == 0:
        return False
    return bool(np.abs(mine - yours).max() <= NOISE * float(np.abs(mine).max()))


def _sorted(side: Side, place: int) -> np.ndarray | None:
    found = _read(side, place)
    return None if found is None else np.sort(found)


def _read(side: Side, place: int) -> np.ndarray | None:
    try:
        values = side.tensor(place).values()
        raw = np.asarray(values.window(0, values.size))
        numbers: np.ndarray = np.abs(raw) if raw.dtype.kind == "c" else raw
        found = numbers.astype(np.float64)
    except (ReadError, TypeError, ValueError):
        return None
    return np.asarray(np.nan_to_num(found))
