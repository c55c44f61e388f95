"""Repeat confirmed pairs of one layer in every layer, since layers run the same code.

An error changes the values that would have paired the tensors of its layer. Earlier layers still show which tensors
the port computes.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from difflib import SequenceMatcher
from functools import cached_property
from typing import NamedTuple, final

from firstdiff.pairing.agreement import Agreement, Settled
from firstdiff.pairing.strategy import Proposal, Side, Situation
from firstdiff.trace import Key

_NUMBER = re.compile(r"\d+")
_CONFIDENCE = 0.8
_FEW = 2  # pairs that say which stack is which, where only one layer agrees
_EXECUTED = frozenset({"input", "output"})
_WHY = "the same place in a layer whose values agree"


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
        """Pair free tensors as those of another layer are paired."""
        if not self._fronts:
            return []
        found = []
        free = frozenset(self._sides[1].free)
        for place in self._sides[0].free:
            if self._sides[0].keys[place].role not in _EXECUTED:
                continue
            votes = Counter(other for other in self._partners(place) if other in free)
            if votes:
                other, count = votes.most_common(1)[0]
                if 2 * count > votes.total():
                    found.append(Proposal((place,), (other,), _CONFIDENCE, why=_WHY))
        return found

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
        for layer in _layers(self._sides[0].keys[place].name):
            for _, like in self._likes_in(place, layer):
                other = self._proven.get(like)
                if other is None:
                    continue
                found = [at for at in self._moved_partners(other, layer) if self._sides[1].sizes[at] == size]
                yield from found or self._copies(like, other, layer, size)

    def _copies(self, like: int, other: int, layer: _Layer, size: int | None) -> Iterator[int]:
        """Return the same by other tensors that hold the values, for code that leaves out or renames a function."""
        for theirs in _layers(self._sides[1].keys[other].name):
            if (layer.front, theirs.front) in self._fronts:
                for copy in self._by_layer.get((theirs, size), ()):
                    if copy != other and self._agree(like, copy):
                        yield from self._moved_partners(copy, layer)

    @cached_property
    def _by_layer(self) -> dict[tuple[_Layer, int | None], list[int]]:
        found: dict[tuple[_Layer, int | None], list[int]] = defaultdict(list)
        for place, key in enumerate(self._sides[1].keys):
            if key.role in _EXECUTED:
                for layer in _layers(key.name):
                    found[layer, self._sides[1].sizes[place]].append(place)
        return found

    def _moved_partners(self, other: int, layer: _Layer) -> Iterator[int]:
        """Return what stands at a place of the candidate, in the layer that is this one of the reference."""
        for theirs in _layers(self._sides[1].keys[other].name):
            number = self._fronts.get((layer.front, theirs.front), {}).get(layer.number)
            partner = None if number is None else self._calls[1].like(other, theirs, number)
            if partner is not None:
                yield partner

    def _likes(self, place: int) -> Iterator[tuple[_Layer, int]]:
        for layer in _layers(self._sides[0].keys[place].name):
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
    def _numbers(self) -> dict[str, tuple[int, ...]]:
        found: dict[str, set[int]] = defaultdict(set)
        for place in self._proven:
            for layer in _layers(self._sides[0].keys[place].name):
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
                for layer in _layers(self._sides[0].keys[place].name):
                    last[layer] = place
        return frozenset(layer for layer, place in last.items() if ended[place])

    @cached_property
    def _fronts(self) -> dict[tuple[str, str], dict[int, int]]:
        """Return which layer is which, for every two stacks whose numbers go together."""
        seen: dict[tuple[str, str], set[tuple[int, int]]] = defaultdict(set)
        for place, other in self._situation.anchors:
            for ours in _layers(self._sides[0].keys[place].name):
                for theirs in _layers(self._sides[1].keys[other].name):
                    seen[ours.front, theirs.front].add((ours.number, theirs.number))
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
        ours, theirs = (numbers.get(front, set()) for numbers, front in zip(self._all_numbers, fronts, strict=True))
        if len(moved) == 1 and {number + min(moved) for number in ours} == theirs:
            return {number: number + min(moved) for number in ours}
        return known

    def _speaks_most_for(self, fronts: tuple[str, str]) -> bool:
        """True if no other stack of the reference has more to do with this one of the candidate."""
        counts = {one: count for (one, other), count in self._support.items() if other == fronts[1]}
        best = max(counts, key=lambda front: (counts[front], -len(front)), default=None)
        return best == fronts[0] and counts[best] >= _FEW

    @cached_property
    def _support(self) -> Counter[tuple[str, str]]:
        return Counter(
            (ours.front, theirs.front)
            for place, other in self._proven.items()
            for ours in _layers(self._sides[0].keys[place].name)
            for theirs in _layers(self._sides[1].keys[other].name)
        )

    @cached_property
    def _all_numbers(self) -> tuple[dict[str, set[int]], dict[str, set[int]]]:
        found: tuple[dict[str, set[int]], dict[str, set[int]]] = defaultdict(set), defaultdict(set)
        for numbers, side in zip(found, self._sides, strict=True):
            for key in side.keys:
                if key.role in _EXECUTED:
                    for layer in _layers(key.name):
                        numbers[layer.front].add(layer.number)
        return found


@final
class _Calls:
    """The tensors of one side by their place in a layer; functions are counted as the code of the layer calls them."""

    def __init__(self, side: Side) -> None:
        self._side = side
        self._places: dict[Key, int] = {key: place for place, key in enumerate(side.keys)}
        self._code: dict[tuple[str, int, int], list[tuple[str, int]]] = defaultdict(list)
        for place, tensor in enumerate(side.trace):
            key, record = side.keys[place], tensor.record
            if record.is_function and record.parent is not None and key.role == "output" and key.slot == "0":
                self._code[record.parent, key.step, key.rank].append((key.name[len(record.parent) :], key.call))
        self._aligned: dict[tuple[str, str, int, int], dict[tuple[str, int], tuple[str, int]]] = {}

    def like(self, place: int, layer: _Layer, number: int) -> int | None:
        """Return the tensor that stands at this place of another layer."""
        key, parent = self._side.keys[place], self._side.tensor(place).record.parent
        name, call = _moved(key.name, layer, number), key.call
        if self._side.tensor(place).record.is_function and parent is not None and _is_in(parent, layer):
            moved = _moved(parent, layer, number)
            found = self._alignment(parent, moved, key.step, key.rank).get((key.name[len(parent) :], call))
            if found is None:
                return None
            name, call = moved + found[0], found[1]
        return self._places.get(Key(name, key.role, key.slot, call, key.step, key.rank))

    def _alignment(self, parent: str, other: str, step: int, rank: int) -> dict[tuple[str, int], tuple[str, int]]:
        """Return which function of one module is which of another that runs the same code, or nearly."""
        known = self._aligned.get((parent, other, step, rank))
        if known is None:
            mine, yours = self._code[parent, step, rank], self._code[other, step, rank]
            matcher = SequenceMatcher(None, [op for op, _ in mine], [op for op, _ in yours], autojunk=False)
            known = {
                mine[block.a + at]: yours[block.b + at]
                for block in matcher.get_matching_blocks()
                for at in range(block.size)
            }
            self._aligned[parent, other, step, rank] = known
        return known


def _layers(name: str) -> Iterator[_Layer]:
    for found in _NUMBER.finditer(name):
        yield _Layer(name[: found.start()], int(found[0]))


def _is_in(name: str, layer: _Layer) -> bool:
    return layer in _layers(name)


def _moved(name: str, layer: _Layer, number: int) -> str:
    return f"{layer.front}{number}{name[len(layer.front) + len(str(layer.number)) :]}"
