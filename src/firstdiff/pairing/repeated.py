"""Repeat confirmed pairs of one layer or step in every layer and step, since they run the same code.

An error changes the values that would have paired the tensors of its layer. Earlier layers still show which tensors
the port computes, and a first step that agrees shows what a later one computes.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from dataclasses import replace
from difflib import SequenceMatcher
from functools import cached_property
from typing import NamedTuple, final

from firstdiff.pairing.agreement import Agreement, Settled
from firstdiff.pairing.dataflow import Dataflow
from firstdiff.pairing.strategy import Proposal, Side, Situation
from firstdiff.trace import Key

_NUMBER = re.compile(r"\d+")
_INDEX = re.compile(r"(?<=\.)\d+(?=\.|$)")
_CONFIDENCE = 0.8
_FEW = 2  # pairs that say which stack is which, where only one layer agrees
_EXECUTED = frozenset({"input", "output"})
_WHY = "the same place in a layer or step whose values agree"

_Run = tuple[str, int, int]  # a module, step and rank


class _Layer(NamedTuple):
    """A layer: what its names begin with, up to its number, and the number."""

    front: str
    number: int


@final
class RepeatedCode:
    """Pairs that repeat from layer to layer."""

    def __init__(self, situation: Situation, agree: Agreement) -> None:
        self._situation, self._agree = situation, agree
        self._sides = situation.reference, situation.candidate
        self._calls = _Calls(situation.reference), _Calls(situation.candidate)

    def proposals(self) -> list[Proposal]:
        """Pair free tensors as those of another layer or step are paired."""
        if not self._fronts and not self._steps:
            return []
        free = frozenset(self._sides[1].free)
        found = []
        for place in self._sides[0].free:
            other = self._voted(place, free) if self._sides[0].keys[place].role in _EXECUTED else None
            if other is not None:
                found.append(self.proposal(place, other))
        return [*found, *self._of_whole_layers()]

    def _of_whole_layers(self) -> Iterator[Proposal]:
        """Pair what goes into two layers, unless some layer gives the same although it was given other values."""
        free = frozenset(self._sides[0].free), frozenset(self._sides[1].free)
        reference, candidate = (_inputs_of_layers(side) for side in self._sides)
        for (front, other_front), numbers in self._fronts.items():
            pairs = {
                layer: (reference[layer], candidate[other])
                for mine, yours in numbers.items()
                for layer, other in [(_Layer(front, mine), _Layer(other_front, yours))]
                if layer in reference and other in candidate
            }
            if all(self._may_be_given(layer, *pair) for layer, pair in pairs.items()):
                free_pairs = (
                    (place, other) for place, other in pairs.values() if place in free[0] and other in free[1]
                )
                yield from (self.proposal(place, other) for place, other in free_pairs)

    def _may_be_given(self, layer: _Layer, place: int, other: int) -> bool:
        same_size = self._sides[0].sizes[place] == self._sides[1].sizes[other]
        return same_size and (layer not in self._healthy or self._agree(place, other))

    def proposal(self, place: int, other: int) -> Proposal:
        return Proposal((place,), (other,), _CONFIDENCE, why=_WHY)

    def revisions(self) -> dict[int, int]:
        """Return the place of tensors that are paired with another tensor than in every layer that agrees.

        A similar name is no more than a guess: layers that agree show what the port calls so. A tensor that holds the
        values of another one, as where keys and values are swapped or a sum is left out, has the place of its like in
        the other layers, unless something that is made of the other one agrees.
        """
        if not self._fronts and not self._steps:
            return {}
        partner = {other: place for place, other in self._situation.anchors}
        movable = {other: place for other, place in partner.items() if self._may_move(place, other)}
        if not movable:
            return {}
        wanted: dict[int, int] = {}
        outputs = [place for place, key in enumerate(self._sides[0].keys) if key.role == "output"]
        for place in outputs:
            other = self._voted(place, movable.keys())
            if other is not None and not self._agree(place, other) and other not in self._partners(movable[other]):
                wanted[other] = place
        taken = {place: other for other, place in partner.items()}
        while True:
            kept = {
                other: place
                for other, place in wanted.items()
                if place not in taken or taken[place] in wanted  # whose partner gets another place, too
            }
            right = [place for place, other in self._proven.items() if other not in kept]
            settled = Dataflow(self._sides[0]).upstream(right) if kept else set()
            kept = {other: place for other, place in kept.items() if place not in settled}
            if kept == wanted:
                return kept
            wanted = kept

    def _may_move(self, place: int, other: int) -> bool:
        """True for a pair by values whose names differ, and for one by a similar name whose values do."""
        forms = self._situation.forms
        if place in self._proven:
            return forms.reference[place].part != forms.candidate[other].part
        return self._sides[0].keys[place].name != self._sides[1].keys[other].name

    def _voted(self, place: int, among: Collection[int]) -> int | None:
        """Return the tensor that most layers and steps speak for."""
        votes = Counter(other for other in self._partners(place) if other in among)
        if not votes:
            return None
        other, count = votes.most_common(1)[0]
        return other if 2 * count > votes.total() else None

    @cached_property
    def lone(self) -> frozenset[int]:
        """Free tensors of the reference whose like in a layer that agrees to its end has no partner either."""
        anchored = {place for place, _ in self._situation.anchors}
        return frozenset(
            place
            for place in self._sides[0].free
            if self._sides[0].keys[place].role in _EXECUTED
            for layer, like in self._likes(place)
            if layer in self._healthy and like not in anchored
        )

    def _partners(self, place: int) -> Iterator[int]:
        """Return the partners that the same place of other layers speaks for."""
        size = self._sides[0].sizes[place]
        for layer in layers_of(self._sides[0].keys[place].name):
            for _, like in self._likes_in(place, layer):
                other = self._proven.get(like)
                if other is None:
                    continue
                found = [at for at in self._moved_partners(other, layer) if self._sides[1].sizes[at] == size]
                yield from found or self._copies(like, other, layer, size)
        yield from self._partners_in_steps(place)

    def _partners_in_steps(self, place: int) -> Iterator[int]:
        """Return the partners that the same place of other steps speaks for."""
        own, size = self._sides[0].keys[place].step, self._sides[0].sizes[place]
        likes = (self._calls[0].in_step(place, step) for step in self._steps if step != own)
        for like in likes:
            if like in self._proven:
                partner = self._calls[1].in_step(self._proven[like], own)
                if partner is not None and self._sides[1].sizes[partner] == size:
                    yield partner

    def _copies(self, like: int, other: int, layer: _Layer, size: int | None) -> Iterator[int]:
        """Return the same by other tensors that hold the values, for code that leaves out or renames a function."""
        for candidate in layers_of(self._sides[1].keys[other].name):
            if (layer.front, candidate.front) in self._fronts:
                for copy in self._by_layer.get((candidate, size), ()):
                    if copy != other and self._agree(like, copy):
                        yield from self._moved_partners(copy, layer)

    @cached_property
    def _by_layer(self) -> dict[tuple[_Layer, int | None], list[int]]:
        found: dict[tuple[_Layer, int | None], list[int]] = defaultdict(list)
        for place, key in enumerate(self._sides[1].keys):
            if key.role in _EXECUTED:
                for layer in layers_of(key.name):
                    found[layer, self._sides[1].sizes[place]].append(place)
        return found

    def _moved_partners(self, other: int, layer: _Layer) -> Iterator[int]:
        """Return what stands at a place of the candidate, in the layer that is this one of the reference."""
        for candidate in layers_of(self._sides[1].keys[other].name):
            number = self._fronts.get((layer.front, candidate.front), {}).get(layer.number)
            partner = None if number is None else self._calls[1].like(other, candidate, number)
            if partner is not None:
                yield partner

    def _likes(self, place: int) -> Iterator[tuple[_Layer, int]]:
        for layer in layers_of(self._sides[0].keys[place].name):
            yield from self._likes_in(place, layer)

    def _likes_in(self, place: int, layer: _Layer) -> Iterator[tuple[_Layer, int]]:
        """Return the tensors of the reference that stand at this place of the layers beside it."""
        for number in self._numbers.get(layer.front, ()):
            if number != layer.number:
                like = self._calls[0].like(place, layer, number)
                if like is not None:
                    yield _Layer(layer.front, number), like

    @cached_property
    def _proven(self) -> dict[int, int]:
        """Pairs whose values agree."""
        return {
            place: other
            for place, other in self._situation.anchors
            if self._sides[0].keys[place].role in _EXECUTED and self._agree(place, other)
        }

    @cached_property
    def _steps(self) -> tuple[int, ...]:
        """Steps of the reference in which something agrees; none where there is but one."""
        if len({key.step for key in self._sides[0].keys}) == 1:
            return ()
        return tuple(sorted({self._sides[0].keys[place].step for place in self._proven}))

    @cached_property
    def _numbers(self) -> dict[str, tuple[int, ...]]:
        found: dict[str, set[int]] = defaultdict(set)
        for place in self._proven:
            for layer in layers_of(self._sides[0].keys[place].name):
                found[layer.front].add(layer.number)
        return {front: tuple(sorted(numbers)) for front, numbers in found.items()}

    @cached_property
    def _healthy(self) -> frozenset[_Layer]:
        """Layers of the reference whose last values agree, or lead to some that do."""
        settled = Settled(self._situation, self._agree)
        if settled.is_known:
            ended = {place: place in settled.reference for place in range(len(self._sides[0].trace))}
        else:
            ended = {place: place in self._proven for place, _ in self._situation.anchors}
        last: dict[_Layer, int] = {}
        for place in sorted(ended):
            if self._sides[0].keys[place].role == "output":
                for layer in layers_of(self._sides[0].keys[place].name):
                    last[layer] = place
        return frozenset(layer for layer, place in last.items() if ended[place])

    @cached_property
    def _fronts(self) -> dict[tuple[str, str], dict[int, int]]:
        """Return which layer is which, for every two stacks whose numbers go together."""
        seen: dict[tuple[str, str], set[tuple[int, int]]] = defaultdict(set)
        for place, other in self._situation.anchors:
            for reference in layers_of(self._sides[0].keys[place].name):
                for candidate in layers_of(self._sides[1].keys[other].name):
                    seen[reference.front, candidate.front].add((reference.number, candidate.number))
        found = {}
        for fronts, pairs in seen.items():
            known = dict(pairs)
            if len(known) == len(pairs) == len(set(known.values())):
                extended = self._numbered_alike(fronts, known)
                if len(extended) > 1 and (len(known) > 1 or self._speaks_most_for(fronts)):
                    found[fronts] = extended
        return found

    def _numbered_alike(self, fronts: tuple[str, str], known: dict[int, int]) -> dict[int, int]:
        """All layers of two stacks that have as many, counted on from those that are known."""
        moved = {other - number for number, other in known.items()}
        reference, candidate = (
            numbers.get(front, set()) for numbers, front in zip(self._all_numbers, fronts, strict=True)
        )
        if len(moved) == 1 and {number + min(moved) for number in reference} == candidate:
            return {number: number + min(moved) for number in reference}
        return known

    def _speaks_most_for(self, fronts: tuple[str, str]) -> bool:
        """True if no other stack of the reference has more to do with this one of the candidate."""
        counts = {one: count for (one, other), count in self._support.items() if other == fronts[1]}
        best = max(counts, key=lambda front: (counts[front], -len(front)), default=None)
        return best == fronts[0] and counts[best] >= _FEW

    @cached_property
    def _support(self) -> Counter[tuple[str, str]]:
        return Counter(
            (reference.front, candidate.front)
            for place, other in self._proven.items()
            for reference in layers_of(self._sides[0].keys[place].name)
            for candidate in layers_of(self._sides[1].keys[other].name)
        )

    @cached_property
    def _all_numbers(self) -> tuple[dict[str, set[int]], dict[str, set[int]]]:
        found: tuple[dict[str, set[int]], dict[str, set[int]]] = defaultdict(set), defaultdict(set)
        for numbers, side in zip(found, self._sides, strict=True):
            for key in side.keys:
                if key.role in _EXECUTED:
                    for layer in layers_of(key.name):
                        numbers[layer.front].add(layer.number)
        return found


@final
class _Calls:
    """The tensors of one side by their place in a layer; functions are counted as the code of the layer calls them."""

    def __init__(self, side: Side) -> None:
        self._side = side
        self._places: dict[Key, int] = {key: place for place, key in enumerate(side.keys)}
        self._code: dict[_Run, list[tuple[str, int]]] = defaultdict(list)
        for place, tensor in enumerate(side.trace):
            key, record = side.keys[place], tensor.record
            if record.is_function and record.parent is not None and key.role == "output" and key.slot == "0":
                self._code[record.parent, key.step, key.rank].append((key.name[len(record.parent) :], key.call))
        self._aligned: dict[tuple[_Run, _Run], dict[tuple[str, int], tuple[str, int]]] = {}

    def like(self, place: int, layer: _Layer, number: int) -> int | None:
        """Return the tensor that stands at this place of another layer."""
        key, parent = self._side.keys[place], self._side.tensor(place).record.parent
        if not self._side.tensor(place).record.is_function or parent is None or not _is_in(parent, layer):
            moved = (replace(key, name=name) for name in _moved(key.name, layer, number))
            return next((self._places[at] for at in moved if at in self._places), None)
        own, run = (key.name[len(parent) :], key.call), (parent, key.step, key.rank)
        for other in _moved(parent, layer, number):
            found = self._alignment(run, (other, key.step, key.rank)).get(own)
            if found is not None:
                return self._places.get(replace(key, name=other + found[0], call=found[1]))
        return None

    def in_step(self, place: int, step: int) -> int | None:
        """Return the tensor that stands at this place of another step."""
        key, record = self._side.keys[place], self._side.tensor(place).record
        moved = replace(key, step=step)
        if record.is_function and record.parent is not None:
            runs = (record.parent, key.step, key.rank), (record.parent, step, key.rank)
            found = self._alignment(*runs).get((key.name[len(record.parent) :], key.call))
            if found is None:
                return None
            moved = replace(moved, name=record.parent + found[0], call=found[1])
        return self._places.get(moved)

    def _alignment(self, run: _Run, other: _Run) -> dict[tuple[str, int], tuple[str, int]]:
        """Return which function of one module is which of another that runs the same code, or nearly."""
        known = self._aligned.get((run, other))
        if known is None:
            mine, yours = self._code[run], self._code[other]
            matcher = SequenceMatcher(None, [op for op, _ in mine], [op for op, _ in yours], autojunk=False)
            known = {
                mine[block.a + at]: yours[block.b + at]
                for block in matcher.get_matching_blocks()
                for at in range(block.size)
            }
            self._aligned[run, other] = known
        return known


def _inputs_of_layers(side: Side) -> dict[_Layer, int]:
    """Return the first input of each whole layer."""
    found: dict[_Layer, int] = {}
    for place, key in enumerate(side.keys):
        if key.role == "input" and key.slot == "0" and not side.tensor(place).record.is_function:
            last = next((layer for layer in layers_of(key.name) if key.name[len(layer.front) :].isdigit()), None)
            if last is not None:
                found.setdefault(last, place)
    return found


def layers_of(name: str) -> Iterator[_Layer]:
    """Yield every layer that a name may be in; `layers.0.fc1` and `layers.0.fc2` are no layers of one stack."""
    found = list(_INDEX.finditer(name)) or list(_NUMBER.finditer(name))
    for number in found:
        yield _Layer(name[: number.start()], int(number[0]))


def _is_in(name: str, layer: _Layer) -> bool:
    return layer in layers_of(name)


def _moved(name: str, layer: _Layer, number: int) -> tuple[str, ...]:
    """Return a name as that of another layer, whose number may have leading zeros."""
    digits = _NUMBER.match(name, len(layer.front))
    assert digits is not None, "the layer is from the name"
    rest = name[digits.end() :]
    return tuple(dict.fromkeys((f"{layer.front}{number:0{len(digits[0])}d}{rest}", f"{layer.front}{number}{rest}")))
