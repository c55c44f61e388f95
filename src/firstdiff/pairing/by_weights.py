"""Pair what modules compute by the weights they hold: equal weights make two modules one, whatever their names.

An error changes what is computed, hardly ever the weights: they still say which module is which where values do not.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import final

from firstdiff.pairing.agreement import Agreement
from firstdiff.pairing.by_value import are_one_kind, equal_values, inputs_of_pairs
from firstdiff.pairing.fused_weights import Places, fused_weights
from firstdiff.pairing.sequence import increasing
from firstdiff.pairing.strategy import Findings, Proposal, Side, Situation, Strategy

_CONFIDENCE = 0.85
_WHY = "the same weights"
_FUSED = "the weights of several modules in one"
_WEIGHTS = frozenset({"param", "buffer"})


def _propose(situation: Situation) -> Findings:
    """Pair weights that hold equal values, then the outputs and inputs of the modules that they make one."""
    alone = _weights_alone(situation)
    weights = equal_values(alone)
    modules = _Modules(situation)
    outputs = list(modules.outputs(weights))
    known = [one for one in weights if one.confidence >= situation.options.min_confidence]
    reference = alone.reference.without({at for one in known for at in one.reference})
    candidate = alone.candidate.without({at for one in known for at in one.candidate})
    for whole, parts in fused_weights(candidate, reference):
        outputs += modules.fused(parts, (whole,))
    for whole, parts in fused_weights(reference, candidate):
        outputs += modules.fused((whole,), parts)
    return Findings([*weights, *outputs, *inputs_of_pairs(situation, outputs)])


def _weights_alone(situation: Situation) -> Situation:
    def others(side: Side) -> set[int]:
        return {place for place in side.free if side.keys[place].role not in _WEIGHTS}

    reference, candidate = situation.reference, situation.candidate
    return replace(
        situation, reference=reference.without(others(reference)), candidate=candidate.without(others(candidate))
    )


@final
class _Modules:
    """The modules of both sides by their names, with their weights and what their calls give."""

    def __init__(self, situation: Situation) -> None:
        self._situation = situation
        self._sides = situation.reference, situation.candidate
        self._free = tuple(frozenset(side.free) for side in self._sides)
        self._tensors = tuple(_by_module(side) for side in self._sides)

    def outputs(self, weights: Iterable[Proposal]) -> Iterator[Proposal]:
        """Yield outputs of modules that hold the same weights, are called equally often and keep their order."""
        found = []
        for module, other in self._same_weights(weights).items():
            ours, theirs = (_calls(of[name]) for of, name in zip(self._tensors, (module, other), strict=True))
            if ours.keys() != theirs.keys():
                continue  # one side uses the module more often, so that the number of a call says nothing
            pairs = ((place, theirs[call]) for call, place in ours.items())
            found += [pair for pair in pairs if self._are_free(pair) and are_one_kind(self._situation, *pair)]
        keys = self._sides[0].keys
        in_order = set(
            increasing([*(pair for pair in self._situation.anchors if keys[pair[0]].role == "output"), *found])
        )
        for place, partner in found:
            if (place, partner) in in_order:
                yield Proposal((place,), (partner,), _CONFIDENCE, why=_WHY)

    def fused(self, ours: Places, theirs: Places) -> Iterator[Proposal]:
        """Yield weights, biases and outputs of modules one of which does the work of several."""
        yield Proposal(ours, theirs, _CONFIDENCE, why=_FUSED)
        tensors = []
        for side, known, places in zip(self._sides, self._tensors, (ours, theirs), strict=True):
            modules = [known[_module(side.keys[place].name)] for place in places]
            kinds = set.intersection(*(set(of) for of in modules))
            tensors.append({kind: tuple(of[kind] for of in modules) for kind in kinds})
        for kind in tensors[0].keys() & tensors[1].keys() - {"weight"}:
            mine, yours = tensors[0][kind], tensors[1][kind]
            same_size = self._sides[0].size(mine) == self._sides[1].size(yours)
            if same_size and self._free[0].issuperset(mine) and self._free[1].issuperset(yours):
                yield Proposal(mine, yours, _CONFIDENCE, why=_FUSED)

    def _same_weights(self, weights: Iterable[Proposal]) -> Mapping[str, str]:
        """Return the modules that hold the same weights, one to one."""
        (ours, theirs), agree = (side.keys for side in self._sides), Agreement(self._situation)
        sure = (one for one in weights if self._is_sure(one))
        known = [*self._situation.anchors, *((one.reference[0], one.candidate[0]) for one in sure)]
        pairs = {
            (_module(ours[place].name), _module(theirs[other].name))
            for place, other in known
            if ours[place].role in _WEIGHTS and agree(place, other)
        }
        often = [Counter(pair[side] for pair in pairs) for side in (0, 1)]
        return {one: other for one, other in pairs if one and other and often[0][one] == often[1][other] == 1}

    def _is_sure(self, one: Proposal) -> bool:
        return one.confidence >= self._situation.options.min_confidence and not one.alternatives

    def _are_free(self, pair: tuple[int, int]) -> bool:
        place, other = pair
        same_size = self._sides[0].sizes[place] == self._sides[1].sizes[other]
        return same_size and place in self._free[0] and other in self._free[1]


def _module(weight: str) -> str:
    return weight.rpartition(".")[0]


def _by_module(side: Side) -> dict[str, dict[Hashable, int]]:
    """Places of tensors by their module: weights by their names in it, what it gives by the call."""
    found: dict[str, dict[Hashable, int]] = defaultdict(dict)
    for place, key in enumerate(side.keys):
        if key.role in _WEIGHTS:
            module, _, name = key.name.rpartition(".")
            found[module][name] = place
        elif key.role == "output" and key.slot == "0" and not side.tensor(place).record.is_function:
            found[key.name][key.call, key.step, key.rank] = place
    return found


def _calls(tensors: Mapping[Hashable, int]) -> dict[Hashable, int]:
    return {call: place for call, place in tensors.items() if isinstance(call, tuple)}


STRATEGY = Strategy("content", 38, _propose)
