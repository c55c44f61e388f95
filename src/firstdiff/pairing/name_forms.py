"""Parse names of every dialect into one common form, and find an offset of their layer numbers."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import final

from firstdiff.pairing.fingerprints import EQUAL, Fingerprints, fits
from firstdiff.pairing.names import (
    BARE,
    CONTAINERS,
    GATE,
    GATED,
    GLOBAL,
    LEAVES,
    UNLESS,
    Words,
    layer_index,
    unwrapped,
    words_of,
)
from firstdiff.pairing.strategy import Side

_TAILS = frozenset({"weight", "bias"})
_STACKS = frozenset({"encoder", "decoder"})
_DEEPER = frozenset({"layers", "blocks"})
_FIRST_COMPONENT = re.compile(r"[^./]+[./]")
_NUMBER_IN_FRONT = re.compile(r"^\d+[_.\- ](?=.)")


@dataclass(frozen=True, slots=True)
class Form:
    """The parsed form of a name.

    stack: what stands before the layer, such as `encoder`
    layers: the layer's number, and those of layers within it
    part: the rest in canonical words, such as `attn.q`
    tail: `weight` or `bias`, or nothing
    """

    stack: Words
    layers: tuple[int, ...]
    part: str
    tail: str


@dataclass(frozen=True, slots=True)
class _Parsed:
    stack: Words
    layers: tuple[int, ...]
    part: Words
    tail: str


@final
class Forms:
    """The form of every tensor of both sides by its place, made when first asked for.

    How one side is read depends a little on the other. `offset` is added to the candidate's layers.
    """

    def __init__(self, reference: Side, candidate: Side, offset: int = 0) -> None:
        self._sides = reference, candidate
        self._offset = offset

    @property
    def reference(self) -> dict[int, Form]:
        return self._both[0]

    @property
    def candidate(self) -> dict[int, Form]:
        return self._both[1]

    @cached_property
    def _both(self) -> tuple[dict[int, Form], dict[int, Form]]:
        ours, theirs = _read(self._sides[0], 0), _read(self._sides[1], self._offset)
        if not _has_several_stacks(ours) and not _has_several_stacks(theirs):
            # the only stack of a model needs no name
            ours, theirs = ([replace(item, stack=()) for item in parsed] for parsed in (ours, theirs))
        forms = _forms(ours), _forms(theirs)
        return _resolved(forms[0], forms[1]), _resolved(forms[1], forms[0])


def _read(side: Side, offset: int) -> list[_Parsed]:
    names = [key.name for key in side.keys]
    while (front := _common_front(names)) is not None:
        names = [name[len(front) :] for name in names]
    return [_parse(name, side.numbered, offset) for name in names]


def _common_front(names: list[str]) -> str | None:
    """A first component that every name has, such as `my_model.`: a wrapper, unless it is all that tells a name."""
    found = _FIRST_COMPONENT.match(names[0]) if len(names) > 1 else None
    if found is None or _STACKS.intersection(words_of(found[0])):
        return None
    front = found[0]
    alike = all(name.startswith(front) and name[len(front) : len(front) + 1].isalpha() for name in names)
    return front if alike else None


def _parse(name: str, numbered: bool, offset: int) -> _Parsed:
    if numbered:
        name = _NUMBER_IN_FRONT.sub("", name)
    index = layer_index(name, numbered=numbered)
    if index is None:
        words = unwrapped(words_of(name), keep=1)
        stack = words[:1] if len(words) > 1 and words[0] in _STACKS else ()
        return _Parsed(stack, (), *_split_tail(words[len(stack) :]))
    layers, part = [index.layer + offset], words_of(index.part)
    while len(part) > 1 and part[0] in _DEEPER and part[1].isdigit():
        layers.append(int(part[1]))
        part = part[2:]
    return _Parsed(unwrapped(words_of(index.stack)), tuple(layers), *_split_tail(part))


def _split_tail(words: Words) -> tuple[Words, str]:
    return (words[:-1], words[-1]) if words[-1:] and words[-1] in _TAILS else (words, "")


def _has_several_stacks(parsed: list[_Parsed]) -> bool:
    return len({item.stack for item in parsed if item.layers}) > 1


def _forms(parsed: list[_Parsed]) -> dict[int, Form]:
    seen: dict[Words, set[str]] = defaultdict(set)
    for item in parsed:
        if item.layers:
            seen[item.stack].add(" ".join(item.part))
    return {
        place: Form(item.stack, item.layers, _canonical(item.part, bool(item.layers), seen[item.stack]), item.tail)
        for place, item in enumerate(parsed)
    }


def _canonical(words: Words, in_layer: bool, seen: Collection[str]) -> str:
    text = " ".join(words)
    if not in_layer:
        return _GLOBAL.get(text, ".".join(words))
    if text in _BARE:
        return _unless(text, _BARE[text], seen)
    for size in range(len(words), 0, -1):
        front = " ".join(words[:size])
        if front in _PARTS:
            return ".".join((_unless(front, _PARTS[front], seen), *words[size:]))
    return ".".join(words)


def _unless(text: str, meant: str, seen: Collection[str]) -> str:
    rules = UNLESS.get(text, ())
    return next((other for markers, other in rules if any(marker in seen for marker in markers)), meant)


def _resolved(forms: dict[int, Form], others: dict[int, Form]) -> dict[int, Form]:
    """A part that may be fused is read as the other side has it."""
    own, parts = {form.part for form in forms.values()}, {form.part for form in others.values()}
    if GATE in own:
        return forms
    chosen: dict[str, str] = {}
    for part, (markers, fused, plain) in GATED.items():
        if part not in parts:
            chosen[part] = fused if parts.intersection(markers) else plain
    return {place: replace(form, part=chosen.get(form.part, form.part)) for place, form in forms.items()}


def _inverted(table: dict[str, tuple[str, ...]]) -> dict[str, str]:
    return {phrase: canonical for canonical, phrases in table.items() for phrase in phrases}


def _parts() -> dict[str, str]:
    """Every container alone, and with each of its leaves."""
    found = {front: container for container, fronts in CONTAINERS.items() for front in fronts}
    for container, fronts in CONTAINERS.items():
        for leaf, phrases in LEAVES[container].items():
            found |= {f"{front} {phrase}": f"{container}.{leaf}" for front, phrase in product(fronts, phrases)}
    return found


_GLOBAL = _inverted(GLOBAL)
_BARE = _inverted(BARE)
_PARTS = _parts()


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
