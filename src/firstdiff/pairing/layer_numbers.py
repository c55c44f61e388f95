"""Find which layer of the candidate is which of the reference, where the two count them differently."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from firstdiff.pairing.fingerprints import EQUAL, Fingerprints, fits
from firstdiff.pairing.name_forms import Form, Forms
from firstdiff.pairing.names import AS_COUNTED, LayerNumbers, Words
from firstdiff.pairing.strategy import Side

_FEWEST = 3
_UNDO = "--layer-offset 0 to compare equal numbers"

_Prints = tuple[Fingerprints, Fingerprints]
_Stage = tuple[Words, str, str, str, int | None]
_Stages = dict[_Stage, dict[int, int]]


def find_layers(reference: Side, candidate: Side, prints: _Prints) -> tuple[LayerNumbers, list[str]]:
    """Return which layer is which, and what to tell the user of it; nothing where nothing speaks against the numbers.

    Layers are counted differently where each side holds one, where one side has layers more whose weights the other
    has not, or where one offset explains every two tensors of one stage whose values agree.
    """
    forms = Forms(reference, candidate)
    stages = _by_stage(forms.reference, reference), _by_stage(forms.candidate, candidate)
    layers = [sorted({layer for found in side.values() for layer in found}) for side in stages]
    if not layers[0] or not layers[1]:
        return AS_COUNTED, []
    if len(layers[0]) == len(layers[1]) == 1:
        offset = layers[0][0] - layers[1][0]
        shared = len(stages[0].keys() & stages[1].keys())
        text = _applied(layers[0][0], layers[1][0])
        return (LayerNumbers(offset), [text]) if offset and shared else (AS_COUNTED, [])
    moved = _by_weights(stages, prints)
    if moved:
        return LayerNumbers(moved=moved), [text for found in moved.items() for text in _told(*found, stages)]
    offset = _offset_of_values(stages, prints) or 0
    if offset == 0:
        return AS_COUNTED, []
    first = next(layer for layer in layers[1] if layer + offset in layers[0])
    return LayerNumbers(offset), [_applied(first + offset, first, more=", and so on")]


def _applied(reference: int, candidate: int, more: str = "") -> str:
    return f"candidate layer {candidate} compared with reference layer {reference}{more}; --layer-offset 0 to undo"


def _by_stage(forms: Mapping[int, Form], side: Side) -> _Stages:
    """Return places by stage and layer."""
    stages: _Stages = defaultdict(dict)
    for place, form in forms.items():
        if form.layers:
            key = side.keys[place]
            rest = f"{form.layers[1:]} {form.part} {form.tail} {key.slot}.{key.call}"
            stage = form.stack, rest, key.role, f"{key.step}.{key.rank}", side.sizes[place]
            stages[stage][form.layers[0]] = place
    return stages


def _by_weights(stages: tuple[_Stages, _Stages], prints: _Prints) -> dict[Words, dict[int, int]]:
    """Return the candidate's layers as the reference counts them, for stacks of which one side has more layers."""
    found = {}
    for stack in sorted({stage[0] for stage in stages[0]} & {stage[0] for stage in stages[1]}):
        layers = tuple(sorted({at for stage in side if stage[0] == stack for at in side[stage]}) for side in stages)
        if len(layers[0]) == len(layers[1]):
            continue
        weights = [stage for stage in stages[0].keys() & stages[1].keys() if stage[0] == stack and stage[2] == "param"]
        longer, shorter = (0, 1) if len(layers[0]) > len(layers[1]) else (1, 0)
        votes = _votes([(stages[longer][stage], stages[shorter][stage]) for stage in weights], prints, longer)
        partners = _in_order(layers[longer], layers[shorter], votes)
        if all(one == other for one, other in partners.items()):
            continue
        if longer == 0:
            found[stack] = {other: one for one, other in partners.items()}
        else:
            found[stack] = {one: partners.get(one, -1 - one) for one in layers[longer]}
    return found


def _votes(
    stages: Iterable[tuple[Mapping[int, int], Mapping[int, int]]], prints: _Prints, longer: int
) -> dict[int, int]:
    """Return for each layer of the side that has more the layer of the other that holds most of its weights."""
    votes: dict[int, Counter[int]] = defaultdict(Counter)
    for one, other in stages:
        layer_of = {place: layer for layer, place in one.items()}, {place: layer for layer, place in other.items()}
        near = fits(prints[longer], list(layer_of[0]), prints[1 - longer], list(layer_of[1]), within=EQUAL)
        several = Counter(fit.reference for fit in near)
        for fit in near:
            if several[fit.reference] == 1:  # weights that several layers share tell nothing
                votes[layer_of[0][fit.reference]][layer_of[1][fit.candidate]] += 1
    sure = {layer: found.most_common(1)[0] for layer, found in votes.items()}
    return {layer: other for layer, (other, count) in sure.items() if 2 * count > votes[layer].total()}


def _in_order(longer: Sequence[int], shorter: Sequence[int], votes: Mapping[int, int]) -> dict[int, int]:
    """Return the layers of the longer side that all layers of the shorter one are, in order; nothing if it is unclear.

    Layers whose weights nothing tells are what stands between their neighbours, if there are as many on both sides.
    """
    first: dict[int, int] = {}
    for layer in longer:
        if layer in votes:
            first.setdefault(votes[layer], layer)  # of copies, the others are too many
    known = [(first[layer], layer) for layer in shorter if layer in first]
    if len(known) < _FEWEST or any(one[0] >= two[0] for one, two in pairwise(known)):
        return {}
    partners = dict(known)
    copies = votes.keys() - partners.keys()
    ends = (longer[0] - 1, shorter[0] - 1), (longer[-1] + 1, shorter[-1] + 1)
    for (one, other), (next_one, next_other) in pairwise([ends[0], *known, ends[1]]):
        between = [layer for layer in longer if one < layer < next_one and layer not in copies]
        untold = [layer for layer in shorter if other < layer < next_other]
        if untold and len(between) != len(untold):
            return {}
        partners.update(zip(between, untold, strict=False))
    return partners


def _told(stack: Words, moved: Mapping[int, int], stages: tuple[_Stages, _Stages]) -> Iterable[str]:
    """Say which layers a side lacks, and from where on the numbers differ."""
    layers = sorted({at for stage, found in stages[0].items() if stage[0] == stack for at in found})
    lacking = [layer for layer in layers if layer not in moved.values()]
    extra = [layer for layer, other in sorted(moved.items()) if other < 0]
    first = next((one for one, other in sorted(moved.items()) if other >= 0 and one != other), None)
    where = f" of {'.'.join(stack)}" if stack else ""
    side, other_side = ("candidate", "reference") if lacking else ("reference", "candidate")
    counted = ""
    if first is not None:
        both = f"candidate layer {first} was compared with reference layer {moved[first]}, and so on"
        counted = f"; {both}; {_UNDO}"
    yield f"the {side} lacks {_layers(lacking or extra)}{where} of the {other_side}{counted}"


def _layers(layers: Sequence[int]) -> str:
    if len(layers) == 1:
        return f"layer {layers[0]}"
    if list(layers) == list(range(layers[0], layers[-1] + 1)):
        return f"layers {layers[0]} to {layers[-1]}"
    return f"layers {', '.join(map(str, layers[:-1]))} and {layers[-1]}"


def _offset_of_values(stages: tuple[_Stages, _Stages], prints: _Prints) -> int | None:
    """Return the one offset that all tensors of one stage whose values agree speak for; None where they do not."""
    votes: Counter[int] = Counter()
    for stage in stages[0].keys() & stages[1].keys():
        reference, candidate = stages[0][stage], stages[1][stage]
        layer_of = {place: layer for layer, place in reference.items()}, {p: layer for layer, p in candidate.items()}
        found = fits(prints[0], list(layer_of[0]), prints[1], list(layer_of[1]), within=EQUAL)
        partners = Counter(fit.reference for fit in found)
        # what is the same in several layers, such as a rotary table, tells nothing
        single = [fit for fit in found if partners[fit.reference] == 1]
        offsets = {layer_of[0][fit.reference] - layer_of[1][fit.candidate] for fit in single}
        if 0 in offsets:
            return 0
        votes.update(offsets)
    if len(votes) != 1 or votes.total() < _FEWEST:
        return None
    return next(iter(votes))


def offset_of(reference: Form, candidate: Form) -> int | None:
    """Return the offset to add to the candidate's layer; None if the two differ in more than that."""
    if (
        not reference.layers
        or not candidate.layers
        or (reference.part, reference.tail) != (candidate.part, candidate.tail)
    ):
        return None
    return reference.layers[0] - candidate.layers[0] if reference.layers[1:] == candidate.layers[1:] else None


def propose_offset(offsets: Iterable[int | None], said: str) -> tuple[str, ...]:
    """A warning that proposes the layer offset most pairs speak for, if it is not 0 and they are enough."""
    offset, count = _most_common(offsets)
    if not offset:
        return ()
    return (
        f"{count} tensors {said} of the same name {_where(offset)} in the candidate; "
        f"if its layers are counted so, pass --layer-offset {offset}",
    )


def layers_left_out(votes: Iterable[tuple[int | None, int]], agreeing: Iterable[int]) -> tuple[str, ...]:
    """A warning that one side has layers which the other has not, if those below them are counted alike.

    votes: of each tensor that fits another one, the offset and the reference's layer
    agreeing: the reference's layer of each tensor that agrees with its partner
    """
    votes = list(votes)
    offset, count = _most_common(offset for offset, _ in votes)
    if not offset:
        return ()
    from_layer = min(layer for found, layer in votes if found == offset)
    first = from_layer - max(offset, 0)
    if sum(layer < first for layer in agreeing) < _FEWEST:
        return ()
    some = f"layer {first}" if abs(offset) == 1 else f"layers {first} to {first + abs(offset) - 1}"
    side, other = ("candidate", "reference") if offset > 0 else ("reference", "candidate")
    lacks = f"the {side} seems to lack {some} of the {other}"
    return (f"{lacks}: from layer {from_layer} on {count} tensors fit one of the same name {_where(offset)}",)


def _most_common(offsets: Iterable[int | None]) -> tuple[int, int]:
    """Return the offset that most tensors speak for, and how many; 0 if they are too few."""
    votes = Counter(offset for offset in offsets if offset is not None)
    offset, count = votes.most_common(1)[0] if votes else (0, 0)
    return (0, 0) if count < _FEWEST or 2 * count <= votes.total() else (offset, count)


def _where(offset: int) -> str:
    return f"{abs(offset)} layer{'s' if abs(offset) > 1 else ''} {'lower' if offset > 0 else 'higher'}"
