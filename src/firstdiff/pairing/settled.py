"""Find unpaired tensors that are right all the same, since a later pair that agrees is computed from them."""

from __future__ import annotations

from typing import final

import numpy as np

from firstdiff.pairing.agreement import Agreement
from firstdiff.pairing.copies import first_copies
from firstdiff.pairing.dataflow import Dataflow
from firstdiff.pairing.fit import EQUAL, NOISE, misfit
from firstdiff.pairing.side import grouped
from firstdiff.pairing.strategy import Situation

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
