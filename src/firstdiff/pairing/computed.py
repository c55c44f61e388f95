"""Pair taps by the operations between them: a value is the tensor of the reference whose operations lead to the next.

An error changes a value, but what the port makes of it is right again as a rule: `decoder(x)` of the reference on a tap
gives the port's next tap only if the tap stands where the reference has `x`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, permutations
from typing import final

import numpy as np

from firstdiff.errors import ReadError
from firstdiff.pairing.agreement import EXACT, Agreement, Settled, agreement_of_runs
from firstdiff.pairing.dataflow import Dataflow
from firstdiff.pairing.fingerprints import are_telling, first_copies
from firstdiff.pairing.operations import Operations
from firstdiff.pairing.sequence import increasing
from firstdiff.pairing.strategy import Findings, Proposal, Side, Situation

_CONFIDENCE = 0.85
_WHY = "what the reference computes from it is the candidate's next tensor"
_MOST_WRONG = 8  # taps that differ, from the first on
_MOST_BEFORE = 24  # taps before them that may have been used wrongly
_MOST_PLACES = 64  # of the reference that a tap may stand for
_MOST_NEXT = 6  # taps that one may lead to
_MOST_AXES, _MOST_ORDERS = 5, 4
_FEWEST_NAMES, _MOST_NAMES = 3, 0.9  # of the taps before the first that is wrong, that are named as the reference's
_LARGEST = 1 << 20
_NEAR = 1e-3  # of the largest value


def computed_pairs(situation: Situation) -> Findings:
    """Pair the first taps that differ, where the reference's operations on one give another.

    A tap that holds the values of one tensor and is used as another is the other: an operation was left out.
    """
    flows = Dataflow(situation.reference), Dataflow(situation.candidate)
    if not flows[0].is_recorded or flows[1].is_recorded:
        return Findings()
    board = _Board(situation, agreement_of_runs(situation, EXACT))
    found: dict[int, Proposal] = {}
    released: set[tuple[int, int]] = set()
    for tap in board.used_as_another:
        step = board.step_from(tap, is_right=True)
        if step is not None and board.is_possible(*step.end) and board.follows_alone(step.start[0], tap):
            released.add((board.partner_of[tap], tap))
            found[tap] = Proposal((step.start[0],), (tap,), _CONFIDENCE, why=_WHY)
    for tap in board.wrong_taps:
        step = board.step_from(tap)
        for place, other in () if step is None else (step.start, step.end):
            if board.is_free(place, other) or board.is_misnamed(place, other):
                released.update(board.pairs_of(place, other))
                found.setdefault(other, Proposal((place,), (other,), _CONFIDENCE, why=_WHY))
    last = board.last_of_both
    if last is not None and last[1] not in found:
        released.add((board.partner_of[last[1]], last[1]))
        found[last[1]] = Proposal((last[0],), (last[1],), _CONFIDENCE, why="the last values of both runs")
    return Findings(list(found.values()), released=frozenset(released))


@dataclass(frozen=True, slots=True)
class _Step:
    """Two tensors of the reference, one computed from the other, and the taps that stand for them."""

    start: tuple[int, int]
    end: tuple[int, int]


@final
class _Board:
    def __init__(self, situation: Situation, agree: Agreement) -> None:
        self._reference, self._candidate = situation.reference, situation.candidate
        self._prints = situation.prints
        self._free = frozenset(self._reference.free), frozenset(self._candidate.free)
        self._agreeing = [pair for pair in situation.anchors if self._is_executed(pair[0]) and agree(*pair)]
        self._settled = Settled(situation, agree).reference
        self._operations = Operations(self._reference, self._first)
        self._known = increasing(self._agreeing)
        self._forms = situation.forms
        self.partner_of = {other: place for place, other in self._agreeing}
        self._agree = agree
        self._paired = {other: place for place, other in situation.anchors}
        self._partner = dict(situation.anchors)

    def is_free(self, place: int, other: int) -> bool:
        return place in self._free[0] and other in self._free[1]

    def is_possible(self, place: int, other: int) -> bool:
        """True for two free tensors, and for two that are a pair already, such as by name."""
        paired = self._paired.get(other)
        return self.is_free(place, other) or (paired is not None and self._are_copies(place, paired))

    def is_misnamed(self, place: int, other: int) -> bool:
        """True for tensors paired by name whose values nothing agrees with: what is made of them tells more.

        What holds the values of another named tensor stays where its name says: that is a finding.
        """
        pairs = self.pairs_of(place, other)
        named = self._paired.get(other)
        if named is None or self._are_copies(place, named) or any(self._agree(*pair) for pair in pairs):
            return False
        if self._has_names_of_reference and self._reference.keys[named].name == self._candidate.keys[other].name:
            return False
        return place < self._next_call(named) and not self._agree(place, other)

    @cached_property
    def _has_names_of_reference(self) -> bool:
        """True for a port whose taps have the reference's own names, which hold its values but for an error."""
        before = self._taps.index(self.wrong_taps[0]) if self.wrong_taps else len(self._taps)
        agreeing = [tap for tap in self._taps[:before] if tap in self.partner_of]
        same = [tap for tap in agreeing if self._reference.keys[self.partner_of[tap]] == self._candidate.keys[tap]]
        return len(same) >= _FEWEST_NAMES and len(same) > _MOST_NAMES * len(agreeing)

    def _next_call(self, named: int) -> int:
        """Return where the reference calls the same module again: what it gave before is not made there."""
        key, keys = self._reference.keys[named], self._reference.keys
        later = (at for at in range(named + 1, len(keys)) if keys[at].name == key.name and keys[at].call > key.call)
        return next(later, len(keys))

    def pairs_of(self, place: int, other: int) -> set[tuple[int, int]]:
        """Return the pairs that two tensors are part of."""
        pairs = {(place, self._partner[place])} if place in self._partner else set()
        return pairs | ({(self._paired[other], other)} if other in self._paired else set())

    @cached_property
    def wrong_taps(self) -> list[int]:
        """Taps that agree with nothing, from the first on."""
        return [tap for tap in self._taps if tap not in self.partner_of][:_MOST_WRONG]

    @cached_property
    def used_as_another(self) -> list[int]:
        """Taps before the first that is wrong, paired by their values alone, which may stand for others.

        The nearest come first.
        """
        if not self.wrong_taps:
            return []
        first = self._taps.index(self.wrong_taps[0])
        before = self._taps[max(first - _MOST_BEFORE, 0) : first]
        return [tap for tap in reversed(before) if not self._is_named(tap)]

    @cached_property
    def last_of_both(self) -> tuple[int, int] | None:
        """Return the last values of both runs, if the candidate's are what the reference makes its own of."""
        tap = self._taps[-1] if self._taps else None
        if tap is None or tap not in self.partner_of or self._is_named(tap):
            return None
        place, last = self.partner_of[tap], self._named(max(self._first))
        if self._are_copies(place, last) or self._reference.sizes[place] != self._reference.sizes[last]:
            return None
        is_lone = all(self._first[at] != self._first[last] for at, _ in self._agreeing)
        return (last, tap) if last in self._free[0] and is_lone and self.follows_alone(last, tap) else None

    def follows_alone(self, place: int, tap: int) -> bool:
        """True if a tensor is computed from a tap's partner alone; the result of a sum tells that it is missing."""
        return place in self._operations.of_it_alone(self.partner_of[tap])

    def _is_named(self, tap: int) -> bool:
        return self._forms.reference[self.partner_of[tap]].part == self._forms.candidate[tap].part

    @cached_property
    def _taps(self) -> list[int]:
        side = self._candidate
        return [
            at
            for at, key in enumerate(side.keys)
            if key.role == "output" and 0 < (side.sizes[at] or 0) <= _LARGEST and _is_float(side, at)
        ]

    def step_from(self, tap: int, *, is_right: bool = False) -> _Step | None:
        """Find the tensor of the reference that a tap stands for, and the tap that is computed from it.

        is_right: the tap holds the values of another tensor, and what it should have been shows only in wrong taps: a
            norm takes away a scale that a residual keeps
        """
        given = _read(self._candidate, tap)
        if given is None:
            return None
        following = self._following(tap, given)
        if not following:
            return None
        recorded = self._right if is_right else frozenset[int]()
        best: tuple[float, _Step | None] = (_NEAR, None)
        # the last that fits: what a ReLU leaves alone stands behind it, and a norm does not tell a sum from its double
        for place in reversed(self._places(tap, recorded=is_right)):
            for values in _arrangements(given, self._shape(place)):
                for made, result in self._operations.follow(place, values, recorded):
                    away, other = min(((_distance(known, result), at) for at, known in following))
                    if away < best[0]:
                        best = away, _Step((self._named(place), tap), (self._named(made), other))
                    if away <= EXACT:
                        return best[1]
        return best[1]  # in a long sum even a wrong term makes little difference: the nearest

    def _are_copies(self, place: int, other: int) -> bool:
        """True for two tensors of the reference that hold the same values, in whatever layout."""
        if self._first.get(place, place) == self._first.get(other, other):
            return True
        if self._reference.sizes[place] != self._reference.sizes[other]:
            return False
        one, values = _read(self._reference, place), _read(self._reference, other)
        return one is not None and values is not None and _distance(np.sort(one, axis=None), values) == 0

    def _following(self, tap: int, given: np.ndarray) -> list[tuple[int, np.ndarray]]:
        """Return the next taps that tell something, with their values in order; a copy of the tap tells nothing."""
        own, found = np.sort(given, axis=None), []
        start = self._taps.index(tap) + 1
        following = self._taps[start : start + _MOST_NEXT]
        for at in [*following, *(at for at in self.wrong_taps if at > tap and at not in following)]:
            values = _read(self._candidate, at)
            if values is None or not are_telling(values.reshape(1, -1).astype(np.float64))[0]:
                continue
            ordered = np.sort(values, axis=None)
            if _distance(ordered, own) > _NEAR:
                found.append((at, ordered))
        return found

    def _places(self, tap: int, *, recorded: bool) -> list[int]:
        """Return the tensors of the reference that a tap may stand for, the earliest first.

        recorded: those, too, that lead to values which both sides share
        """
        after = max((place for place, other in self._known if other < tap), default=-1)
        before = min((place for place, other in self._known if other > tap), default=len(self._reference.keys))
        size = self._candidate.sizes[tap]
        fitting = (at for at in self._values if after < at < before and self._reference.sizes[at] == size)
        return list(islice((at for at in fitting if recorded or at not in self._settled), _MOST_PLACES))

    @cached_property
    def _right(self) -> frozenset[int]:
        """Tensors of the reference whose values the candidate has, too."""
        values = {self._first.get(place, place) for place, _ in self._agreeing}
        return frozenset(at for at, first in self._first.items() if first in values)

    @cached_property
    def _values(self) -> list[int]:
        """Outputs of the reference, each value once."""
        return sorted({first for at, first in self._first.items() if self._is_value(at)})

    @cached_property
    def _first(self) -> dict[int, int]:
        side = self._reference
        outputs = [at for at, key in enumerate(side.keys) if key.role == "output" and _is_float(side, at)]
        return first_copies(side, self._prints[0], outputs)

    def _named(self, place: int) -> int:
        """Return a free tensor with the values of one, a module's rather than a function's."""
        value, side = self._first.get(place, place), self._reference
        same = [at for at, first in self._first.items() if first == value and at in self._free[0]]
        plain = [at for at in same if side.keys[at].slot == "0"]  # what a module gives beside is older than it seems
        return min(plain or same or [place], key=lambda at: (side.tensor(at).record.is_function, at))

    def _is_value(self, place: int) -> bool:
        return self._reference.keys[place].role == "output" and _is_float(self._reference, place)

    def _is_executed(self, place: int) -> bool:
        return self._reference.keys[place].role in ("input", "output") and _is_float(self._reference, place)

    def _shape(self, place: int) -> tuple[int, ...]:
        return self._reference.tensor(place).values().shape


def _is_float(side: Side, place: int) -> bool:
    source = side.tensor(place).source
    return source is not None and source.dtype.kind not in "iubc"


def _read(side: Side, place: int) -> np.ndarray | None:
    try:
        values = np.asarray(side.tensor(place).values().view())
    except ReadError:
        return None
    return values if np.isfinite(values.astype(np.float64, copy=False)).all() else None


def _arrangements(values: np.ndarray, shape: tuple[int, ...]) -> Iterator[np.ndarray]:
    """Yield a tap in the shape of a tensor: its axes in every order that gives the lengths, or joined and split."""
    given = values.reshape(tuple(length for length in values.shape if length != 1) or (1,))
    wanted = tuple(length for length in shape if length != 1) or (1,)
    if given.ndim <= _MOST_AXES and sorted(given.shape) == sorted(wanted):
        orders = (axes for axes in permutations(range(given.ndim)) if given.transpose(axes).shape == wanted)
        for axes in islice(orders, _MOST_ORDERS):
            yield given.transpose(axes).reshape(shape)
    elif given.shape[-1] == wanted[-1] or given.ndim != len(wanted):
        yield values.reshape(shape)


def _distance(ordered: np.ndarray, result: np.ndarray) -> float:
    """Return how far a tap, whose values are in order, is from computed values in any layout, by its size."""
    if ordered.size != result.size:
        return np.inf
    made = np.sort(result, axis=None)
    return float(np.abs(ordered - made).max()) / max(float(np.abs(ordered).max()), 1e-30)
