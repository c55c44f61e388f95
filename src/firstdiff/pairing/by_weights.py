"""Pair what modules compute by the weights they hold: equal weights make two modules one, whatever their names.

An error changes what is computed, hardly ever the weights: they still say which module is which where values do not.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace

from firstdiff.pairing.agreement import Agreement
from firstdiff.pairing.by_value import are_one_kind, equal_values, inputs_of_pairs
from firstdiff.pairing.sequence import increasing
from firstdiff.pairing.strategy import Findings, Proposal, Side, Situation, Strategy

_CONFIDENCE = 0.85
_WHY = "the same weights"
_WEIGHTS = frozenset({"param", "buffer"})


def _propose(situation: Situation) -> Findings:
    """Pair weights that hold equal values, then the outputs and inputs of the modules that they make one."""
    weights = equal_values(_weights_alone(situation))
    outputs = list(_outputs(situation, weights))
    return Findings([*weights, *outputs, *inputs_of_pairs(situation, outputs)])


def _weights_alone(situation: Situation) -> Situation:
    def others(side: Side) -> set[int]:
        return {place for place in side.free if side.keys[place].role not in _WEIGHTS}

    reference, candidate = situation.reference, situation.candidate
    return replace(
        situation, reference=reference.without(others(reference)), candidate=candidate.without(others(candidate))
    )


def _outputs(situation: Situation, weights: list[Proposal]) -> Iterator[Proposal]:
    sides, agree = (situation.reference, situation.candidate), Agreement(situation)
    known = [*situation.anchors, *((one.reference[0], one.candidate[0]) for one in weights if _is_sure(situation, one))]
    modules = _modules(situation, [pair for pair in known if sides[0].keys[pair[0]].role in _WEIGHTS and agree(*pair)])
    calls = _calls(sides[0]), _calls(sides[1])
    free = frozenset(sides[0].free), frozenset(sides[1].free)
    found = []
    for module, other in modules.items():
        ours, theirs = calls[0].get(module, {}), calls[1].get(other, {})
        if ours.keys() != theirs.keys():
            continue  # one side uses the module more often, so that the number of a call says nothing
        for call, place in ours.items():
            partner = theirs[call]
            same_size = sides[0].sizes[place] == sides[1].sizes[partner]
            if place in free[0] and partner in free[1] and same_size and are_one_kind(situation, place, partner):
                found.append((place, partner))
    executed = [pair for pair in situation.anchors if sides[0].keys[pair[0]].role == "output"]
    in_order = set(increasing([*executed, *found]))
    for place, partner in found:
        if (place, partner) in in_order:
            yield Proposal((place,), (partner,), _CONFIDENCE, why=_WHY)


def _is_sure(situation: Situation, one: Proposal) -> bool:
    return one.confidence >= situation.options.min_confidence and not one.alternatives


def _modules(situation: Situation, weights: list[tuple[int, int]]) -> Mapping[str, str]:
    """Return the modules that hold the same weights, one to one."""
    ours, theirs = (side.keys for side in (situation.reference, situation.candidate))
    pairs = {(_module(ours[place].name), _module(theirs[other].name)) for place, other in weights}
    often = [Counter(pair[side] for pair in pairs) for side in (0, 1)]
    return {one: other for one, other in pairs if one and other and often[0][one] == often[1][other] == 1}


def _module(weight: str) -> str:
    return weight.rpartition(".")[0]


def _calls(side: Side) -> dict[str, dict[tuple[int, int, int], int]]:
    """Places of what modules give, by the module and its call."""
    found: dict[str, dict[tuple[int, int, int], int]] = defaultdict(dict)
    for place, key in enumerate(side.keys):
        if key.role == "output" and key.slot == "0" and not side.tensor(place).record.is_function:
            found[key.name][key.call, key.step, key.rank] = place
    return found


STRATEGY = Strategy("content", 38, _propose)
