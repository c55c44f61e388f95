"""Find pairs whose values agree, which confirms them, and what is right since a pair that agrees is computed from it.

A pair by name or order alone may be wrong.
"""

from __future__ import annotations

from typing import final

import numpy as np

from firstdiff.errors import ReadError
from firstdiff.pairing.dataflow import Dataflow
from firstdiff.pairing.fingerprints import EQUAL, NOISE, first_copies, misfit, without_fillers
from firstdiff.pairing.strategy import Side, Situation, grouped

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
        # two tensors of one kind are spread alike, so that in order of size their values are never far apart
        return _apart_in_any_order(self._reference, place, self._candidate, other) <= min(self._within, NOISE)


def equal_in_order(reference: Side, place: int, candidate: Side, other: int) -> bool:
    """True if two tensors too small for a fingerprint hold the same values in the same order, which are not all one."""
    mine, yours = _read(reference, place), _read(candidate, other)
    if mine is None or yours is None or mine.shape != yours.shape or mine.size < _FEWEST or np.ptp(mine) == 0:
        return False
    return bool(np.abs(mine - yours).max() <= NOISE * float(np.abs(mine).max()))


def _apart_in_any_order(reference: Side, place: int, candidate: Side, other: int) -> float:
    """Return how far two small tensors of one size are apart in order of their values, by the largest of them."""
    if (reference.sizes[place] or 0) > _SMALL:
        return np.inf
    mine, yours = _sorted(reference, place), _sorted(candidate, other)
    if mine is None or yours is None:
        return np.inf
    difference, largest = float(np.abs(mine - yours).max(initial=0.0)), float(np.abs(mine).max(initial=0.0))
    return difference / largest if difference and largest else difference


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
    return without_fillers(np.nan_to_num(found, posinf=0.0, neginf=0.0))


_ABOVE_NOISE = 8.0
_FEWEST_NEAR, _GAP = 3, 100.0
_SINGLE = 4  # bytes
EXACT = 1e-5  # what another order of summation does in float32


def agreement_of_runs(situation: Situation, least: float = NOISE) -> Agreement:
    """Tell which values agree as well as those of these two runs do: bf16 excuses more than fp32.

    least: the misfit that is excused in any case
    """
    mine, yours = situation.prints
    sizes = situation.reference.sizes, situation.candidate.sizes
    outputs = [
        (place, other)
        for place, other in situation.anchors
        if situation.reference.keys[place].role == "output" and sizes[0][place] == sizes[1][other]
    ]
    apart = {two: misfit(mine, two[0], yours, two[1]) for two in outputs}
    near = {two: value for two, value in apart.items() if value <= EQUAL}
    for two in apart.keys() - near.keys():  # two axes of one length hide the places of a fingerprint
        value = _apart_in_any_order(situation.reference, two[0], situation.candidate, two[1])
        if value <= NOISE:
            near[two] = value
    values = sorted(near.values())
    if all(_is_wide(situation, *two) for two in near):
        values = _below_gap(values)
    noise = _ABOVE_NOISE * float(np.median(values)) if values else EQUAL
    return Agreement(situation, within=min(max(noise, least), EQUAL))


def _below_gap(values: list[float]) -> list[float]:
    """Return the lowest values, up to the first that is far above them: an error, however small, is no noise."""
    for at in range(_FEWEST_NEAR, len(values)):
        if values[at] > _GAP * max(values[at - 1], EXACT):
            return values[:at]
    return values


def _is_wide(situation: Situation, place: int, other: int) -> bool:
    """True for two tensors of single precision or better: what is rounded more is noisy from one operation on."""
    sources = situation.reference.tensor(place).source, situation.candidate.tensor(other).source
    return all(source is not None and source.dtype.itemsize >= _SINGLE for source in sources)


@final
class Settled:
    """Tells for each side which tensors a pair that agrees is computed from.

    `is_known` is False where the reference did not record what its values are computed from.
    """

    def __init__(self, situation: Situation, agree: Agreement) -> None:
        flows = Dataflow(situation.reference), Dataflow(situation.candidate)
        agreeing = [pair for pair in situation.anchors if _tells(situation, pair[0]) and agree(*pair)]
        self.is_known = flows[0].is_recorded
        self.reference = _with_copies(situation, flows[0].upstream(place for place, _ in agreeing))
        self.candidate = flows[1].upstream(other for _, other in agreeing) if flows[1].is_recorded else set[int]()


def held_by_pairs(situation: Situation) -> frozenset[int]:
    """Free outputs of the reference whose values, under another name, have a partner that agrees."""
    side, agree = situation.reference, agreement_of_runs(situation)
    outputs = [place for place, key in enumerate(side.keys) if key.role == "output"]
    by_size = grouped(outputs, (side.sizes[place] for place in outputs))
    telling = {at for group in by_size.values() for at in situation.prints[0].points(group, "in_order")[1]}
    proven = {place for place, other in situation.anchors if place in telling and agree(place, other)}
    free = telling.intersection(side.free)
    first = first_copies(side, situation.prints[0], proven | free)
    values = {first[place] for place in proven if place in first}
    return frozenset(place for place in free if first.get(place) in values)


def repeated_taps(situation: Situation) -> frozenset[int]:
    """Free taps that repeat an earlier one: nobody records a value twice on purpose, so an operation may be missing."""
    side = situation.candidate
    if Dataflow(side).is_recorded or not Dataflow(situation.reference).is_recorded:
        return frozenset()
    outputs = {place for place, key in enumerate(side.keys) if key.role == "output"}
    first = first_copies(side, situation.prints[1], outputs)
    return frozenset(place for place in outputs.intersection(side.free) if first.get(place, place) != place)


def _with_copies(situation: Situation, settled: set[int]) -> set[int]:
    """Add outputs that hold the same values, such as that of a module whose last part agrees."""
    side = situation.reference
    outputs = [place for place, key in enumerate(side.keys) if key.role == "output"]
    first = first_copies(side, situation.prints[0], outputs)
    values = {first[place] for place in outputs if place in settled and place in first}
    return settled | {place for place in outputs if first.get(place) in values}


def _tells(situation: Situation, place: int) -> bool:
    """False for ids and masks, which are made of no other values, and for inputs, which may be given from outside."""
    source = situation.reference.tensor(place).source
    return situation.reference.keys[place].role == "output" and source is not None and source.dtype.kind not in "iub"
