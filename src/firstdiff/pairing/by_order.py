"""Pair tensors by execution order: sequence alignment between known pairs."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Hashable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise, product
from typing import NamedTuple

import numpy as np

from firstdiff.pairing.agreement import (
    EXACT,
    Agreement,
    Settled,
    agreement_of_runs,
    equal_in_order,
    held_by_pairs,
    repeated_taps,
)
from firstdiff.pairing.computed import computed_pairs
from firstdiff.pairing.dataflow import operand_proposals
from firstdiff.pairing.fingerprints import EQUAL, FEWEST_DISTINCT, NOISE, RELATED, fits, misfit
from firstdiff.pairing.generated_names import Code, FunctionNames, may_be_one_place
from firstdiff.pairing.leftovers import leftover_proposals
from firstdiff.pairing.names import op_kind, words_of
from firstdiff.pairing.repeated import RepeatedCode
from firstdiff.pairing.sequence import Two, certain_pairs, increasing, unique_in_both
from firstdiff.pairing.strategy import Findings, Proposal, Side, Situation, Strategy, grouped

_MOST_CELLS = 1 << 21
_UNRELATED = 0.7
_BETWEEN_PAIRS, _NO_PAIRS_AROUND = 0.45, 0.25
_SAME_OP, _SAME_VALUES, _LIKE_VALUES, _LIKE_WORDS, _LONE_SIZE = 0.15, 0.25, 0.15, 0.05, 0.05
_DENIED = -0.3  # what follows agrees, and yet the two do not
_TELLING_SIZES = 3
_EXECUTED = frozenset({"input", "output", "grad"})


class _Signature(NamedTuple):
    """The properties of a tensor beside its values: `bounds` must agree, the rest may."""

    bounds: tuple[Hashable, ...]
    size: int
    shape: tuple[int, ...]
    op: str | None
    code: Code | None

    @classmethod
    def of(cls, side: Side, place: int, code: Code | None) -> _Signature:
        key, tensor = side.keys[place], side.tensor(place)
        source = tensor.values()
        bounds = (key.role, key.step, key.rank, source.size)
        shape = tuple(n for n in source.shape if n != 1)
        return cls(bounds, source.size, shape, op_kind(tensor.record.op), code)


@dataclass(frozen=True)
class _Stretch:
    """Free tensors between two known pairs, in execution order.

    after: the pair that follows, if any
    second_names: of each side, tensors whose values have a partner under another name
    settled: tensors of the reference that lead to values both sides share
    """

    situation: Situation
    functions: FunctionNames
    reference: tuple[int, ...]
    candidate: tuple[int, ...]
    anchored: bool
    after: Two | None
    second_names: tuple[frozenset[int], frozenset[int]]
    settled: Collection[int] = ()

    @cached_property
    def signatures(self) -> tuple[list[_Signature], list[_Signature]]:
        reference, candidate, code_of = self.situation.reference, self.situation.candidate, self.functions.code_of
        return (
            [_Signature.of(reference, place, code_of(place, is_reference=True)) for place in self.reference],
            [_Signature.of(candidate, place, code_of(place, is_reference=False)) for place in self.candidate],
        )

    @cached_property
    def signature_of(self) -> tuple[dict[int, _Signature], dict[int, _Signature]]:
        reference, candidate = self.signatures
        return dict(zip(self.reference, reference, strict=True)), dict(zip(self.candidate, candidate, strict=True))

    @cached_property
    def sizes(self) -> tuple[Counter[int], Counter[int]]:
        reference, candidate = self.signatures
        return Counter(one.size for one in reference), Counter(one.size for one in candidate)

    @cached_property
    def is_same_run(self) -> bool:
        """True if both runs have the same sequence of roles and sizes, with enough different sizes."""
        reference, candidate = self.signatures
        same = [one.bounds for one in reference] == [one.bounds for one in candidate]
        return same and len(self.sizes[0]) >= _TELLING_SIZES

    @cached_property
    def misfits(self) -> dict[Two, float]:
        """Of the tensors of equal size whose values have something to do with each other."""
        reference, candidate = self.situation.reference, self.situation.candidate
        sizes = grouped(self.candidate, (candidate.sizes[place] for place in self.candidate))
        found: dict[Two, float] = {}
        for size, places in grouped(self.reference, (reference.sizes[place] for place in self.reference)).items():
            if size is not None and size in sizes:
                ref, cand = self.situation.prints
                for fit in fits(ref, places, cand, sizes[size], within=_UNRELATED):
                    found[fit.reference, fit.candidate] = fit.misfit
                if size < FEWEST_DISTINCT:
                    for two in product(places, sizes[size]):
                        if equal_in_order(reference, two[0], candidate, two[1]):
                            found[two] = 0.0
        return found

    @cached_property
    def is_healthy_after(self) -> bool:
        if self.after is None:
            return False
        reference, candidate = self.situation.prints
        place, other = self.after
        sizes = self.situation.reference.sizes[place], self.situation.candidate.sizes[other]
        return sizes[0] == sizes[1] and misfit(reference, place, candidate, other) <= EQUAL


def _propose(situation: Situation) -> Findings:
    computed = computed_pairs(situation)
    proposals = list(computed.proposals)
    situation = _after(situation.without_pairs(computed.released), proposals)
    repeated = RepeatedCode(situation, Agreement(situation, NOISE))
    revised = [repeated.proposal(place, other) for other, place in repeated.revisions().items()]
    released = computed.released
    if revised:
        moved = {one.reference[0] for one in revised}, {one.candidate[0] for one in revised}
        given_up = {(place, other) for place, other in situation.anchors if place in moved[0] or other in moved[1]}
        released |= given_up
        proposals += revised
        situation = _after(situation.without_pairs(given_up), revised)
        repeated = RepeatedCode(situation, Agreement(situation, NOISE))
    if not situation.candidate.free:
        return Findings(proposals, released=released)
    in_every_layer = repeated.proposals()
    proposals += in_every_layer
    situation = _after(situation, in_every_layer)
    lone = repeated.lone
    situation = replace(situation, reference=situation.reference.without(lone))
    for stretch in _stretches(situation):
        for part in _short_enough(stretch):
            pairs = certain_pairs(_scores(part))
            proposals += [_proposal(stretch, part.reference[row], part.candidate[column]) for row, column in pairs]
    found = _sure(situation, proposals)
    proposals += operand_proposals(_after(situation, found))
    found = _sure(situation, proposals)
    proposals += leftover_proposals(_after(situation, found))
    proposals += operand_proposals(_after(situation, _sure(situation, proposals)))
    return Findings(proposals, released=released)


def _sure(situation: Situation, proposals: list[Proposal]) -> list[Proposal]:
    """Return what will be accepted, the surest first where two want the same tensor."""
    taken: tuple[set[int], set[int]] = set(), set()
    found = []
    for one in sorted(proposals, key=lambda one: -one.confidence):
        place, other = one.reference[0], one.candidate[0]
        if one.confidence >= situation.options.min_confidence and place not in taken[0] and other not in taken[1]:
            taken[0].add(place)
            taken[1].add(other)
            found.append(one)
    return found


def _after(situation: Situation, sure: list[Proposal]) -> Situation:
    """The board once these proposals are pairs."""
    taken = [(one.reference[0], one.candidate[0]) for one in sure]
    return replace(
        situation,
        reference=situation.reference.without({place for place, _ in taken}),
        candidate=situation.candidate.without({other for _, other in taken}),
        anchors=(*situation.anchors, *taken),
    )


def _stretches(situation: Situation) -> Iterator[_Stretch]:
    functions = FunctionNames(situation)
    reference, candidate = situation.reference, situation.candidate
    anchors = [(place, other) for place, other in situation.anchors if reference.keys[place].role in _EXECUTED]
    known = increasing(anchors)
    ends = (len(reference.trace), len(candidate.trace))
    ref = [place for place in reference.free if _is_executed(reference, place)]
    cand = [place for place in candidate.free if _is_executed(candidate, place)]
    second_names = held_by_pairs(situation), repeated_taps(situation)
    settled = Settled(situation, agreement_of_runs(situation, EXACT)).reference
    for before, after in pairwise([(-1, -1), *known, ends]):
        mine, others = _between(ref, before[0], after[0]), _between(cand, before[1], after[1])
        if mine and others:
            yield _Stretch(
                situation, functions, mine, others, bool(known), None if after == ends else after, second_names, settled
            )


def _between(places: list[int], after: int, before: int) -> tuple[int, ...]:
    return tuple(places[bisect_left(places, after) : bisect_left(places, before)])


def _is_executed(side: Side, place: int) -> bool:
    return side.keys[place].role in _EXECUTED and side.tensor(place).source is not None


def _short_enough(stretch: _Stretch) -> Iterator[_Stretch]:
    """The stretch, cut at tensors unlike all others where it is too long; what is still too long is left out."""
    if len(stretch.reference) * len(stretch.candidate) <= _MOST_CELLS:
        yield stretch
        return
    cuts = unique_in_both(*stretch.signatures)
    ends = (len(stretch.reference), len(stretch.candidate))
    for before, after in pairwise([(0, 0), *cuts, ends]):
        reference, candidate = stretch.reference[before[0] : after[0] + 1], stretch.candidate[before[1] : after[1] + 1]
        if reference and candidate and len(reference) * len(candidate) <= _MOST_CELLS:
            yield replace(stretch, reference=reference, candidate=candidate)


def _scores(stretch: _Stretch) -> np.ndarray:
    """Return the alignment score of each two tensors from shape, operator and values; -inf if they cannot be a pair."""
    scores = np.full((len(stretch.reference), len(stretch.candidate)), -np.inf)
    reference, candidate = stretch.signatures
    columns_of = grouped(range(len(candidate)), candidate)
    for mine, rows in grouped(range(len(reference)), reference).items():
        for other, columns in columns_of.items():
            if mine.bounds == other.bounds:
                scores[np.ix_(rows, columns)] = _worth(mine, other)
    row_of = {place: row for row, place in enumerate(stretch.reference)}
    column_of = {place: column for column, place in enumerate(stretch.candidate)}
    for place in stretch.second_names[0].intersection(row_of):
        for partner, column in column_of.items():
            if partner in stretch.second_names[1] or stretch.misfits.get((place, partner), 1.0) > EQUAL:
                scores[row_of[place], column] = -np.inf
    for (place, other_place), found in stretch.misfits.items():
        if place in row_of and other_place in column_of:
            scores[row_of[place], column_of[other_place]] += 2.0 if found <= RELATED else 1.0
    return scores


def _worth(mine: _Signature, other: _Signature) -> float:
    if None not in (mine.op, other.op) and mine.op != other.op:
        return -np.inf
    if not may_be_one_place(mine.code, other.code):
        return -np.inf
    return 1.0 + (mine.op is not None and mine.op == other.op) + 0.5 * (mine.shape == other.shape)


def _proposal(stretch: _Stretch, place: int, other: int) -> Proposal:
    confidence, why = _BETWEEN_PAIRS, "the same place between known pairs"
    if not stretch.anchored:
        confidence, why = _NO_PAIRS_AROUND, "the same place in the run"
        if stretch.is_same_run:
            confidence, why = _BETWEEN_PAIRS, "the same place in runs of the same shapes"
    for worth, said in _evidence(stretch, place, other):
        confidence += worth
        why += said
    return Proposal((place,), (other,), round(confidence, 2), why=why)


def _evidence(stretch: _Stretch, place: int, other: int) -> Iterator[tuple[float, str]]:
    """Yield the evidence for and against a pair beside its order."""
    mine, yours = stretch.signature_of[0][place], stretch.signature_of[1][other]
    if mine.op is not None and mine.op == yours.op:
        yield _SAME_OP, f", {mine.op} on both sides"
    found = stretch.misfits.get((place, other))
    if found is not None and found > RELATED and place in stretch.settled:
        yield _DENIED, ", but other values although what is made of them agrees"
    elif found is not None:
        yield (_SAME_VALUES if found <= RELATED else _LIKE_VALUES), ", similar values"
    elif stretch.is_healthy_after:
        yield _DENIED, ", but other values while those that follow agree"
    if _likeness(stretch, place, other) >= 0.5:
        yield _LIKE_WORDS, ", similar names"
    if all(count[mine.size] == 1 for count in stretch.sizes):
        yield _LONE_SIZE, ", the only ones of their size there"


def _likeness(stretch: _Stretch, place: int, other: int) -> float:
    """The share of words that the two names have in common."""
    mine = set(words_of(stretch.situation.reference.keys[place].name))
    yours = set(words_of(stretch.situation.candidate.keys[other].name))
    return len(mine & yours) / max(len(mine | yours), 1)


STRATEGY = Strategy("order", 50, _propose, revises=True)
