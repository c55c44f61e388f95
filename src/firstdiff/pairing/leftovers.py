"""Pair the tensors that names and values leave, by their order between known pairs, even if their values differ.

An error changes the values that would have paired its tensor; leaving it unpaired would hide the error.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import final

import numpy as np

from firstdiff.pairing.agreement import Settled, agreement_of_runs
from firstdiff.pairing.dataflow import Dataflow
from firstdiff.pairing.fingerprints import RELATED, Fingerprints, first_copies, misfit
from firstdiff.pairing.generated_names import FunctionNames, is_telling, may_be_one_place
from firstdiff.pairing.names import may_be_one, op_kind, words_of
from firstdiff.pairing.sequence import Two, best_pairs, increasing
from firstdiff.pairing.strategy import Proposal, Side, Situation

_MOST_CELLS = 1 << 16
_SAME_SHAPE, _SAME_LENGTHS, _SAME_SIZE = 2.0, 1.5, 0.5
_SAME_OP, _SAME_FAMILY = 1.5, 0.75
_LIKE_VALUES, _LIKE_SPREAD, _LIKE_WORDS = 2.0, 1.5, 1.5
_INSIDE = -2.5  # a function of a module that is left over itself
_RESULT = 0.6  # the last of several functions of one size: what their code was for
_LEAST = 1.0
_CLEAR = 0.5
_PLACED, _MOST_CONFIDENT = 0.6, 0.85
_CERTAIN_SCORE = 6.0
_TELLING_SIZES = 3
_QUANTILES = np.linspace(0.02, 0.98, 13)
_STEM = 3
_LAYER_NUMBER = re.compile(r"\.\d+(?=\.|$)")


def leftover_proposals(situation: Situation) -> list[Proposal]:
    """Pair what is left, stretch by stretch, wherever the values after the stretch do not agree already."""
    board = _Board(situation)
    found = [proposal for stretch in board.stretches() for proposal in board.proposals(stretch)]
    return [*found, *board.on_other_branches(found)]


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Free outputs between two known pairs; `before` and `after` are None at the ends of the run."""

    reference: tuple[int, ...]
    candidate: tuple[int, ...]
    before: Two | None
    after: Two | None


@final
class _Board:
    def __init__(self, situation: Situation) -> None:
        self._situation = situation
        self._reference, self._candidate = situation.reference, situation.candidate
        self._functions = FunctionNames(situation)
        self._agree = agreement_of_runs(situation)
        self._settled = Settled(situation, self._agree)
        self._spreads: dict[tuple[bool, int], np.ndarray | None] = {}

    def stretches(self) -> Iterator[_Stretch]:
        reference = [place for place in self._new_values if place not in self._settled.reference]
        candidate = [place for place in self._leftover(self._candidate) if place not in self._settled.candidate]
        known = self._known
        ends = (len(self._reference.trace), len(self._candidate.trace))
        for before, after in pairwise([(-1, -1), *known, ends]):
            mine, others = _between(reference, before[0], after[0]), _between(candidate, before[1], after[1])
            if mine and others:
                yield _Stretch(mine, others, before if before[0] >= 0 else None, after if after != ends else None)

    def proposals(self, stretch: _Stretch) -> list[Proposal]:
        if len(stretch.reference) * len(stretch.candidate) > _MOST_CELLS:
            return []
        if not self._settled.is_known and stretch.after is not None and self._agree(*stretch.after):
            # both sides go on alike: what lies between was only written differently, unless the module that goes wrong
            # first has more than one branch
            reference = tuple(
                at for at in stretch.reference if self._reference.tensor(at).record.parent == self._first_wrong
            )
            if self._first_wrong is None or not reference:
                return []
            stretch = replace(stretch, reference=reference)
        scores = self._scores(stretch)
        found = [
            (stretch.reference[row], stretch.candidate[column], float(scores[row, column]))
            for row, column in best_pairs(scores)
        ]
        if stretch.before is None and stretch.after is None and not self._is_one_run(stretch, found):
            return []
        return [self._proposal(*pair) for pair in found]

    def on_other_branches(self, found: list[Proposal]) -> list[Proposal]:
        """Pair taps of branches that the candidate computes before or after other ones than the reference does."""
        flow = Dataflow(self._reference)
        if not flow.is_recorded or Dataflow(self._candidate).is_recorded:
            return []
        reference, candidate = (
            {at for one in found for at in one.reference},
            {at for one in found for at in one.candidate},
        )
        rows = [at for at in self._new_values if at not in self._settled.reference and at not in reference]
        columns = [
            at for at in self._leftover(self._candidate) if at not in self._settled.candidate and at not in candidate
        ]
        if not rows or not columns or len(rows) * len(columns) > _MOST_CELLS:
            return []
        keys = self._reference.keys
        outputs = ((place, other) for place, other in self._situation.anchors if keys[place].role == "output")
        anchors = sorted([*outputs, *((one.reference[0], one.candidate[0]) for one in found)])
        above = {place: flow.upstream([place]) for place in {*rows, *(place for place, _ in anchors)}}
        scores = self._scores(_Stretch(tuple(rows), tuple(columns), None, None))
        for row, place in enumerate(rows):
            # the nearest one: what gave a module's other outputs may have been computed later
            before = next((other for at, other in reversed(anchors) if at in above[place]), -1)
            after = min((other for at, other in anchors if place in above[at]), default=None)
            for column, other in enumerate(columns):
                at_end = after is None and self._reference.sizes[place] == self._candidate.sizes[other]
                if not before < other or not (at_end or (after is not None and other < after)):
                    scores[row, column] = -np.inf
        return [
            self._proposal(place, columns[column], float(scores[row, column]))
            for row, place in enumerate(rows)
            for column in [int(scores[row].argmax())]
            if np.isfinite(scores[row, column]) and _is_clearly_best(scores[:, column], row)
        ]

    def _is_one_run(self, stretch: _Stretch, found: list[tuple[int, int, float]]) -> bool:
        """Without any known pair, a side must have found its partners throughout, in sizes that tell something."""
        whole = min(len(stretch.reference), len(stretch.candidate))
        sizes = {self._reference.sizes[place] for place, _, _ in found}
        named = any(self._speaks_for(place, other) for place, other, _ in found)
        return len(found) == whole and len(sizes) >= _TELLING_SIZES and named

    def _speaks_for(self, place: int, other: int) -> bool:
        """True if more than shape and place makes two tensors one: their operators or their names."""
        kind = op_kind(self._reference.tensor(place).record.op)
        same = kind is not None and kind == op_kind(self._candidate.tensor(other).record.op)
        return same or _likeness(self._reference.keys[place].name, self._candidate.keys[other].name) > 0

    def _proposal(self, place: int, other: int, score: float) -> Proposal:
        sure = min(score / _CERTAIN_SCORE, 1.0)
        confidence = round(_PLACED + sure * (_MOST_CONFIDENT - _PLACED), 2)
        return Proposal((place,), (other,), confidence, why="the same place between known pairs")

    @cached_property
    def _known(self) -> list[Two]:
        """Outputs that are pairs, in the order of both runs."""
        reference, candidate = self._reference.keys, self._candidate.keys
        return increasing(
            (place, other)
            for place, other in self._situation.anchors
            if reference[place].role == candidate[other].role == "output"
        )

    @cached_property
    def _holding_layers(self) -> set[str]:
        """Modules made of numbered layers: their own functions are steps of the model, not the inside of one."""
        found = set()
        for key in self._reference.keys:
            for number in _LAYER_NUMBER.finditer(key.name):
                stack = key.name[: number.start()]
                found |= {stack, stack.rpartition(".")[0]}
        return found

    @cached_property
    def _first_wrong(self) -> str | None:
        """The module whose code has the first pair that differs; None where no pair does, or nobody knows."""
        for place, other in self._known:
            if not self._agree(place, other):
                return self._reference.tensor(place).record.parent
        return None

    @cached_property
    def _new_values(self) -> list[int]:
        """Free outputs of the reference whose values were not paired under another name."""
        side, prints = self._reference, self._situation.prints[0]
        known = {place for place, _ in self._situation.anchors if side.keys[place].role == "output"}
        free = self._leftover(side)
        first = first_copies(side, prints, known | set(free))
        paired = {first[place] for place in known if place in first}
        kept: dict[int, int] = {}
        for place in free:
            value = first.get(place, place)
            if value not in paired and (value not in kept or self._is_inner(kept[value], place)):
                kept[value] = place
        return sorted(kept.values())

    def _is_inner(self, place: int, other: int) -> bool:
        """True for a function whose value is that of a module, whose name tells more, unless its own is telling."""
        records = self._reference.tensor(place).record, self._reference.tensor(other).record
        return records[0].is_function and not is_telling(records[0].op) and not records[1].is_function

    def _leftover(self, side: Side) -> list[int]:
        return [
            place
            for place in side.free
            if side.keys[place].role == "output" and (side.sizes[place] or 0) > 0 and not _is_index(side, place)
        ]

    def _scores(self, stretch: _Stretch) -> np.ndarray:
        scores = np.full((len(stretch.reference), len(stretch.candidate)), -np.inf)
        records = [self._reference.tensor(place).record for place in stretch.reference]
        names = {record.name for record in records if record.parent is not None} - self._holding_layers
        results = {self._chain(place): place for place in stretch.reference}
        lone = self._lone_likes(stretch)
        for row, place in enumerate(stretch.reference):
            record = self._reference.tensor(place).record
            inner = _INSIDE if record.is_function and record.parent in names else 0.0
            result = _RESULT if record.is_function and results[self._chain(place)] == place else 0.0
            for column, other in enumerate(stretch.candidate):
                if (place, other) not in lone and not self._may_be_one_place(place, other):
                    continue
                if self._are_numbered_alike and self._are_of_other_layers(place, other):
                    continue
                worth = self._worth(place, other) + result + (0.0 if inner and self._is_like(place, other) else inner)
                if worth >= _LEAST:
                    scores[row, column] = worth
        return scores

    def _lone_likes(self, stretch: _Stretch) -> set[Two]:
        """Tensors whose values are near each other's, and near no other's."""
        near = [
            (place, other) for place in stretch.reference for other in stretch.candidate if self._is_like(place, other)
        ]
        counts = Counter(place for place, _ in near), Counter(other for _, other in near)
        return {(place, other) for place, other in near if counts[0][place] == counts[1][other] == 1}

    @cached_property
    def _are_numbered_alike(self) -> bool:
        """True if no pair that agrees is of two layers, as where a port names what goes into the next one."""
        pairs = [pair for pair in self._situation.anchors if self._agree(*pair)]
        return not any(self._are_of_other_layers(*pair) for pair in pairs)

    def _are_of_other_layers(self, place: int, other: int) -> bool:
        layers = self._situation.forms.reference[place].layers, self._situation.forms.candidate[other].layers
        return bool(layers[0] and layers[1]) and layers[0][0] != layers[1][0]

    def _chain(self, place: int) -> tuple[object, ...]:
        return self._reference.tensor(place).record.parent, self._reference.sizes[place]

    def _worth(self, place: int, other: int) -> float:
        mine, yours = self._reference.keys[place], self._candidate.keys[other]
        if (mine.step, mine.rank) != (yours.step, yours.rank):
            return -np.inf
        shape = _shape_worth(_lengths(self._reference, place), _lengths(self._candidate, other))
        if shape is None:
            return -np.inf
        kinds = op_kind(self._reference.tensor(place).record.op), op_kind(self._candidate.tensor(other).record.op)
        if not may_be_one(*kinds):
            return -np.inf
        op = 0.0 if None in kinds else _SAME_OP if kinds[0] == kinds[1] else _SAME_FAMILY
        return shape + op + self._values_worth(place, other) + _LIKE_WORDS * _likeness(mine.name, yours.name)

    def _may_be_one_place(self, place: int, other: int) -> bool:
        code_of = self._functions.code_of
        return may_be_one_place(code_of(place, is_reference=True), code_of(other, is_reference=False))

    @np.errstate(all="ignore")
    def _values_worth(self, place: int, other: int) -> float:
        value = _LIKE_VALUES if self._is_like(place, other) else 0.0
        mine, yours = self._spread(True, place), self._spread(False, other)
        if mine is None or yours is None:
            return value
        scale = max(float(np.ptp(mine)), float(np.ptp(yours)), 1e-30)
        return value + _LIKE_SPREAD * max(0.0, 1.0 - 4.0 * float(np.abs(mine - yours).mean()) / scale)

    def _is_like(self, place: int, other: int) -> bool:
        reference, candidate = self._situation.prints
        same_size = self._reference.sizes[place] == self._candidate.sizes[other]
        return same_size and misfit(reference, place, candidate, other) <= RELATED

    def _spread(self, is_reference: bool, place: int) -> np.ndarray | None:
        """Quantiles of some values: two tensors of one kind are spread alike although they differ."""
        key = (is_reference, place)
        if key not in self._spreads:
            prints: Fingerprints = self._situation.prints[0 if is_reference else 1]
            rows, _ = prints.points([place], "in_order")
            self._spreads[key] = np.quantile(rows[0], _QUANTILES) if len(rows) else None
        return self._spreads[key]


def _is_clearly_best(scores: np.ndarray, row: int) -> bool:
    """True if no other tensor would do nearly as well; a pair by luck would place an error where there is none."""
    others = np.delete(scores, row)
    return bool((others < scores[row] - _CLEAR).all())


def _between(places: list[int], after: int, before: int) -> tuple[int, ...]:
    return tuple(places[bisect_left(places, after + 1) : bisect_left(places, before)])


def _is_index(side: Side, place: int) -> bool:
    """True for ids, positions and masks: whole numbers are never paired by place alone."""
    source = side.tensor(place).source
    return source is None or source.dtype.kind in "iub"


def _lengths(side: Side, place: int) -> tuple[int, ...]:
    source = side.tensor(place).source
    return tuple(n for n in source.shape if n != 1) if source is not None else ()


def _shape_worth(reference: tuple[int, ...], candidate: tuple[int, ...]) -> float | None:
    if reference == candidate:
        return _SAME_SHAPE
    if sorted(reference) == sorted(candidate):
        return _SAME_LENGTHS
    return _SAME_SIZE if np.prod(reference, dtype=np.int64) == np.prod(candidate, dtype=np.int64) else None


def _likeness(one: str, other: str) -> float:
    """The share of words that two names have in common; a word and its beginning are one."""
    mine, yours = _telling_words(one), _telling_words(other)
    shared = sum(any(_alike(word, known) for known in yours) for word in mine)
    return shared / max(len(mine), len(yours), 1)


def _telling_words(name: str) -> set[str]:
    return {word for word in words_of(name) if not word.isdigit()}


def _alike(one: str, other: str) -> bool:
    return one == other or (min(len(one), len(other)) >= _STEM and (one.startswith(other) or other.startswith(one)))
