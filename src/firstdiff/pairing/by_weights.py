"""Pair what is computed with weights: equal weights make two calls one, whatever their names.

An error changes what is computed, hardly ever the weights: they still say which call is which where values do not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import final

from firstdiff.pairing.agreement import Agreement
from firstdiff.pairing.by_value import equal_values, inputs_of_pairs
from firstdiff.pairing.fused_weights import Places, fused_weights
from firstdiff.pairing.sequence import Two
from firstdiff.pairing.strategy import Findings, Proposal, Side, Situation, Strategy
from firstdiff.pairing.weight_uses import Use, WeightUses, are_one_operation

_CONFIDENCE = 0.85
_WHY = "the same weights"
_FUSED = "the weights of several modules in one"
_WEIGHTS = frozenset({"param", "buffer"})


def _propose(situation: Situation) -> Findings:
    """Pair weights that hold equal values, then the outputs and inputs of the calls that they make one."""
    alone = _weights_alone(situation)
    weights = equal_values(alone)
    calls = _Calls(situation)
    outputs = list(calls.outputs(weights))
    known = [one for one in weights if one.confidence >= situation.options.min_confidence]
    reference = alone.reference.without({at for one in known for at in one.reference})
    candidate = alone.candidate.without({at for one in known for at in one.candidate})
    for whole, parts in fused_weights(candidate, reference):
        outputs += calls.fused(parts, (whole,))
    for whole, parts in fused_weights(reference, candidate):
        outputs += calls.fused((whole,), parts)
    return Findings([*weights, *outputs, *inputs_of_pairs(situation, outputs)])


def _weights_alone(situation: Situation) -> Situation:
    def others(side: Side) -> set[int]:
        return {place for place in side.free if side.keys[place].role not in _WEIGHTS}

    reference, candidate = situation.reference, situation.candidate
    return replace(
        situation, reference=reference.without(others(reference)), candidate=candidate.without(others(candidate))
    )


@final
class _Calls:
    """The calls of both sides by the weights that take part in them."""

    def __init__(self, situation: Situation) -> None:
        self._situation = situation
        self._sides = situation.reference, situation.candidate
        self._free = tuple(frozenset(side.free) for side in self._sides)
        self._uses = WeightUses(situation.reference), WeightUses(situation.candidate)

    def outputs(self, weights: Iterable[Proposal]) -> Iterator[Proposal]:
        """Yield outputs of calls that the same weights take part in, equally often and in order."""
        partner_of = self._same_weights(weights)
        weight_of = {other: place for place, other in partner_of.items()}
        found = set()
        for weight, partner in partner_of.items():
            for use, other in self._one_by_one(weight, partner):
                reference = self._uses[0].completed(use, _partners(other, weight_of))
                candidate = self._uses[1].completed(other, _partners(use, partner_of))
                if reference is not None and candidate is not None and are_one_operation(reference, candidate):
                    found.add((reference.output, candidate.output))
        for pair in _one_to_one(found):
            if self._are_free(pair):
                yield Proposal(pair[:1], pair[1:], _CONFIDENCE, why=_WHY)

    def _one_by_one(self, weight: int, partner: int) -> Iterator[tuple[Use, Use]]:
        """Yield the calls of two weights in turn; where one is used more often, the turn says nothing."""
        reference, candidate = self._uses[0].of(weight), self._uses[1].of(partner)
        kinds = {use.kind for use in reference} & {use.kind for use in candidate}
        if len(reference) == len(candidate) == 1:
            yield reference[0], candidate[0]
            return
        for kind in kinds - {None}:
            mine, yours = ([use for use in uses if use.kind == kind] for uses in (reference, candidate))
            runs = [[(use.step, use.rank) for use in uses] for uses in (mine, yours)]
            if runs[0] == runs[1]:
                yield from zip(mine, yours, strict=True)

    def fused(self, reference: Places, candidate: Places) -> Iterator[Proposal]:
        """Yield weights, biases and outputs of calls one of which does the work of several."""
        yield Proposal(reference, candidate, _CONFIDENCE, why=_FUSED)
        uses = [
            [of.of(place) for place in places] for of, places in zip(self._uses, (reference, candidate), strict=True)
        ]
        counts = {len(one) for several in uses for one in several}
        if len(counts) > 1:
            return
        for number in range(min(counts)):
            mine, yours = ([one[number] for one in several] for several in uses)
            yield from self._fused_places([use.output for use in mine], [use.output for use in yours])
            if number == 0:
                slots = set.intersection(*(set(use.weights) for use in (*mine, *yours))) - {"weight"}
                for slot in sorted(slots):
                    places = ([use.weights[slot] for use in several] for several in (mine, yours))
                    yield from self._fused_places(*places)

    def _fused_places(self, reference: Iterable[int], candidate: Iterable[int]) -> Iterator[Proposal]:
        mine, yours = tuple(reference), tuple(candidate)
        same_size = self._sides[0].size(mine) == self._sides[1].size(yours)
        if same_size and self._free[0].issuperset(mine) and self._free[1].issuperset(yours):
            yield Proposal(mine, yours, _CONFIDENCE, why=_FUSED)

    def _same_weights(self, weights: Iterable[Proposal]) -> dict[int, int]:
        """Return which weight of the candidate holds the values of one of the reference."""
        agree = Agreement(self._situation)
        sure = ((one.reference[0], one.candidate[0]) for one in weights if self._is_sure(one))
        keys = self._sides[0].keys
        known = (pair for pair in (*self._situation.anchors, *sure) if keys[pair[0]].role in _WEIGHTS)
        return {place: other for place, other in known if agree(place, other)}

    def _is_sure(self, one: Proposal) -> bool:
        return one.confidence >= self._situation.options.min_confidence and not one.alternatives

    def _are_free(self, pair: Two) -> bool:
        place, other = pair
        same_size = self._sides[0].sizes[place] == self._sides[1].sizes[other]
        return same_size and place in self._free[0] and other in self._free[1]


def _partners(use: Use, partner_of: Mapping[int, int]) -> set[int]:
    return {partner_of[weight] for weight in use.weights.values() if weight in partner_of}


def _one_to_one(pairs: Iterable[Two]) -> list[Two]:
    """Return pairs of which no other speaks for another partner."""
    found = sorted(pairs)
    often = [Counter(pair[side] for pair in found) for side in (0, 1)]
    return [pair for pair in found if often[0][pair[0]] == often[1][pair[1]] == 1]


STRATEGY = Strategy("content", 38, _propose)
