"""Find an offset of layer numbers from pairs that fit by value and differ only in the layer."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from firstdiff.pairing.fingerprint import Fingerprints
from firstdiff.pairing.fit import EQUAL, fits
from firstdiff.pairing.forms import Form, Forms
from firstdiff.pairing.side import Side

_FEWEST = 3

_Prints = tuple[Fingerprints, Fingerprints]
_Stages = dict[tuple[str, str, str, int | None], dict[int, int]]


def find_offset(reference: Side, candidate: Side, prints: _Prints) -> tuple[int, list[str]]:
    """Return what to add to the candidate's layers, and what to tell the user of it; 0 where nothing speaks for more.

    An offset is found where each side holds one layer, or where it explains every two tensors of one stage whose
    values agree.
    """
    forms = Forms(reference, candidate)
    stages = _by_stage(forms.reference, reference), _by_stage(forms.candidate, candidate)
    layers = [sorted({layer for found in side.values() for layer in found}) for side in stages]
    if not layers[0] or not layers[1]:
        return 0, []
    if len(layers[0]) == len(layers[1]) == 1:
        offset = layers[0][0] - layers[1][0]
        shared = len(stages[0].keys() & stages[1].keys())
        text = _applied(layers[0][0], layers[1][0])
        return (offset, [text]) if offset and shared else (0, [])
    offset = _offset_of_values(stages, prints) or 0
    if offset == 0:
        return 0, []
    first = next(layer for layer in layers[1] if layer + offset in layers[0])
    return offset, [_applied(first + offset, first, more=", and so on")]


def _applied(reference: int, candidate: int, more: str = "") -> str:
    return f"candidate layer {candidate} compared with reference layer {reference}{more}; --layer-offset 0 to undo"


def _by_stage(forms: dict[int, Form], side: Side) -> _Stages:
    """Return places by stage and layer."""
    stages: _Stages = defaultdict(dict)
    for place, form in forms.items():
        if form.layers:
            key = side.keys[place]
            rest = f"{'.'.join(form.stack)} {form.layers[1:]} {form.part} {form.tail}"
            stages[rest, f"{key.role}.{key.slot}.{key.call}", f"{key.step}.{key.rank}", side.sizes[place]][
                form.layers[0]
            ] = place
    return stages


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


def offset_of(ours: Form, theirs: Form) -> int | None:
    """Return the offset to add to the candidate's layer; None if the two differ in more than that."""
    if not ours.layers or not theirs.layers or (ours.part, ours.tail) != (theirs.part, theirs.tail):
        return None
    return ours.layers[0] - theirs.layers[0] if ours.layers[1:] == theirs.layers[1:] else None


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
