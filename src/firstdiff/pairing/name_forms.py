"""Parse names of every dialect into one common form."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import final

from firstdiff.pairing.names import (
    AS_COUNTED,
    BARE,
    CONTAINERS,
    GATE,
    GATED,
    GLOBAL,
    LEAVES,
    UNLESS,
    LayerNumbers,
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

    How one side is read depends a little on the other. `layers` tells which layer of the reference one of the
    candidate is.
    """

    def __init__(self, reference: Side, candidate: Side, layers: LayerNumbers = AS_COUNTED) -> None:
        self._sides = reference, candidate
        self._layers = layers

    @property
    def reference(self) -> dict[int, Form]:
        return self._both[0]

    @property
    def candidate(self) -> dict[int, Form]:
        return self._both[1]

    @cached_property
    def _both(self) -> tuple[dict[int, Form], dict[int, Form]]:
        reference, candidate = _read(self._sides[0], AS_COUNTED), _read(self._sides[1], self._layers)
        if not _has_several_stacks(reference) and not _has_several_stacks(candidate):
            # the only stack of a model needs no name
            reference, candidate = ([replace(item, stack=()) for item in parsed] for parsed in (reference, candidate))
        forms = _forms(reference), _forms(candidate)
        return _resolved(forms[0], forms[1]), _resolved(forms[1], forms[0])


def _read(side: Side, numbers: LayerNumbers) -> list[_Parsed]:
    names = [key.name for key in side.keys]
    while (front := _common_front(names)) is not None:
        names = [name[len(front) :] for name in names]
    return [_parse(name, side.numbered, numbers) for name in names]


def _common_front(names: list[str]) -> str | None:
    """A first component that every name has, such as `my_model.`: a wrapper, unless it is all that tells a name."""
    found = _FIRST_COMPONENT.match(names[0]) if len(names) > 1 else None
    if found is None or _STACKS.intersection(words_of(found[0])):
        return None
    front = found[0]
    alike = all(name.startswith(front) and name[len(front) : len(front) + 1].isalpha() for name in names)
    return front if alike else None


def _parse(name: str, numbered: bool, numbers: LayerNumbers) -> _Parsed:
    if numbered:
        name = _NUMBER_IN_FRONT.sub("", name)
    index = layer_index(name, numbered=numbered)
    if index is None:
        words = unwrapped(words_of(name), keep=1)
        stack = words[:1] if len(words) > 1 and words[0] in _STACKS else ()
        return _Parsed(stack, (), *_split_tail(words[len(stack) :]))
    stack, part = unwrapped(words_of(index.stack)), words_of(index.part)
    layers = [numbers.of(index.layer, stack)]
    while len(part) > 1 and part[0] in _DEEPER and part[1].isdigit():
        layers.append(int(part[1]))
        part = part[2:]
    return _Parsed(stack, tuple(layers), *_split_tail(part))


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
