"""Run the pairing strategies in turn, each on the tensors that earlier ones left, and guess at partners of the rest."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, final

from firstdiff import plugins
from firstdiff.pairing.by_name import circumstances
from firstdiff.pairing.by_value import REPEATED_STRATEGY
from firstdiff.pairing.by_weights import STRATEGY as WEIGHTS_STRATEGY
from firstdiff.pairing.fingerprints import Fingerprints
from firstdiff.pairing.generated_names import GRAPH_STRATEGY
from firstdiff.pairing.layer_numbers import find_layers
from firstdiff.pairing.name_forms import Forms
from firstdiff.pairing.names import LayerNumbers, Words, unwrapped, words_of
from firstdiff.pairing.runs import STRATEGY as RUN_STRATEGY
from firstdiff.pairing.strategy import (
    Findings,
    Guess,
    Match,
    PairingOptions,
    PairingResult,
    Proposal,
    Side,
    Situation,
    Strategy,
    Unpaired,
)
from firstdiff.schema import Pairing
from firstdiff.trace import Trace

_LEAST_CERTAIN = 0.3
_LEAST_ALIKE = 0.3
_BY_NAME = 0.4  # a similar name alone never reaches what a pair needs
_OTHER_SIZE = 0.7
_RAREST_WORDS = 3
_MOST_WITH_A_WORD = 8


class _Note(NamedTuple):
    confidence: float
    partners: tuple[int, ...]
    why: str
    others: tuple[int, ...] = ()


@final
class Guesses:
    """Proposals that were not certain enough, or came too late."""

    def __init__(self) -> None:
        self._ours: dict[int, list[_Note]] = defaultdict(list)
        self._theirs: dict[int, list[_Note]] = defaultdict(list)

    def add(self, proposal: Proposal) -> None:
        if proposal.confidence < _LEAST_CERTAIN:
            return
        for place in proposal.reference:
            note = _Note(proposal.confidence, proposal.candidate, proposal.why, proposal.alternatives)
            self._ours[place].append(note)
        for place in proposal.candidate:
            self._theirs[place].append(_Note(proposal.confidence, proposal.reference, proposal.why))

    def of(self, reference: Side, candidate: Side) -> tuple[tuple[Unpaired, ...], tuple[Unpaired, ...]]:
        """The free tensors of both sides, each with its likeliest partner among the free ones of the other."""
        return _guessed(reference, candidate, self._ours), _guessed(candidate, reference, self._theirs)


def _guessed(side: Side, others: Side, notes: Mapping[int, list[_Note]]) -> tuple[Unpaired, ...]:
    free = frozenset(others.free)
    names = _Names(others)
    found = []
    for place in side.free:
        open_notes = [note for note in notes.get(place, ()) if free.issuperset(note.partners)]
        if by_name := names.nearest(side, place):
            open_notes.append(by_name)
        note = max(open_notes, default=None, key=lambda note: note.confidence)
        found.append(Unpaired(place, _guess(note, others)))
    return tuple(found)


def _guess(note: _Note | None, others: Side) -> Guess | None:
    if note is None:
        return None
    keys = ", ".join(str(others.tensor(place).key) for place in note.partners)
    alternatives = tuple(str(others.tensor(place).key) for place in note.others)
    return Guess(keys, note.why, round(note.confidence, 2), alternatives)


@final
class _Names:
    """The free names of a side, to be found by the words in them."""

    def __init__(self, side: Side) -> None:
        self._side = side
        self._words: dict[int, frozenset[str]] = {}
        self._with_word: dict[str, list[int]] = defaultdict(list)
        for place in side.free:
            self._words[place] = frozenset(_words(side, place))
            for word in self._words[place]:
                self._with_word[word].append(place)

    def nearest(self, side: Side, place: int) -> _Note | None:
        """The free tensor whose name has most words in common with this one's; names that differ all over have none."""
        words = frozenset(_words(side, place))
        candidates = self._candidates(words)
        if not candidates:
            return None
        alike, partner = max((self._alike(side, place, words, other), other) for other in candidates)
        if alike < _LEAST_ALIKE:
            return None
        key, other_key = side.keys[place], self._side.keys[partner]
        agree = circumstances(key) == circumstances(other_key)
        why = "a similar name" if agree else "a similar name, but another role, slot, call or step"
        return _Note(alike * _BY_NAME, (partner,), why)

    def _candidates(self, words: frozenset[str]) -> set[int]:
        """Those that share one of the rarest words; words that nearly every name has tell nothing."""
        known = sorted((word for word in words if word in self._with_word), key=self._rarity)
        return {place for word in known[:_RAREST_WORDS] for place in self._with_word[word][:_MOST_WITH_A_WORD]}

    def _rarity(self, word: str) -> tuple[int, str]:
        return len(self._with_word[word]), word

    def _alike(self, side: Side, place: int, words: frozenset[str], other: int) -> float:
        candidate = self._words[other]
        share = len(words & candidate) / len(words | candidate)
        return share if side.sizes[place] == self._side.sizes[other] else share * _OTHER_SIZE


def _words(side: Side, place: int) -> Words:
    return unwrapped(words_of(side.keys[place].name), keep=1)


def pair_up(reference: Trace, candidate: Trace, options: PairingOptions | None = None) -> PairingResult:
    """Find which tensor of one trace is which of the other.

    >>> import numpy as np
    >>> reference = Trace.from_arrays({"0_query": np.zeros(3), "0_key": np.ones(3)})
    >>> candidate = Trace.from_arrays({"00.query": np.zeros(3)})
    >>> result = pair_up(reference, candidate)
    >>> result.pairs[0].pairing.method, len(result.missing)
    ('layer_stage', 1)

    reference, candidate: the two traces
    options: what the user has to say; a default one if left out
    """
    options = options or PairingOptions()
    ref = Side.of(reference)
    cand = Side.of(candidate).counted_as(ref)
    prints = Fingerprints(reference), Fingerprints(candidate)
    layers, warnings = LayerNumbers(options.layer_offset or 0), list[str]()
    if options.layer_offset is None:
        layers, warnings = find_layers(ref, cand, prints)
    warnings += _steps_moved(ref, cand)
    board = _Board(ref, cand, layers, Forms(ref, cand, layers), prints, options, warnings=warnings)
    for strategy in strategies(options):
        if board.reference.free and (board.candidate.free or strategy.revises):
            board.play(strategy)
    return board.result()


def _steps_moved(reference: Side, candidate: Side) -> list[str]:
    first = min((key.step for key in reference.keys), default=0)
    own = min((tensor.key.step for tensor in candidate.trace), default=0)
    if candidate.keys and candidate.keys[0].step != candidate.tensor(0).key.step:
        return [f"the candidate counts steps from {own}, the reference from {first}; they were compared one by one"]
    return []


def strategies(options: PairingOptions) -> tuple[Strategy, ...]:
    """The ways to try, in their order."""
    chosen: Iterable[Strategy] | None = options.strategies
    if chosen is None:
        chosen = (RUN_STRATEGY, GRAPH_STRATEGY, WEIGHTS_STRATEGY, REPEATED_STRATEGY, *plugins.loaded("pairing"))
    return tuple(sorted(chosen, key=lambda strategy: strategy.order))


@final
@dataclass
class _Board:
    reference: Side
    candidate: Side
    layers: LayerNumbers
    forms: Forms
    prints: tuple[Fingerprints, Fingerprints]
    options: PairingOptions
    matches: list[Match] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    guesses: Guesses = field(default_factory=Guesses)

    def play(self, strategy: Strategy) -> None:
        anchors = tuple(
            (match.reference[0], match.candidate[0])
            for match in self.matches
            if len(match.reference) == len(match.candidate) == 1
        )
        situation = Situation(
            self.reference, self.candidate, anchors, self.forms, self.prints, self.options, self.layers
        )
        findings = strategy.propose(situation)
        self.warnings += findings.warnings
        self._release(findings.released)
        reference, candidate = self._accept(strategy.name, findings)
        self.reference = self.reference.without(reference | findings.apart[0])
        self.candidate = self.candidate.without(candidate | findings.apart[1])

    def _release(self, pairs: Collection[tuple[int, int]]) -> None:
        """Give up pairs of earlier strategies, but none that the user states."""
        stated = {(one.reference[0], one.candidate[0]) for one in self.matches if one.pairing.method == "map"}
        pairs = set(pairs) - stated
        self.matches = [match for match in self.matches if (match.reference[0], match.candidate[0]) not in pairs]
        self.reference = self.reference.with_free({place for place, _ in pairs})
        self.candidate = self.candidate.with_free({other for _, other in pairs})

    def _accept(self, method: str, findings: Findings) -> tuple[set[int], set[int]]:
        """Take proposals from the surest on, as long as their tensors are free; the rest are guesses."""
        reference, candidate = set(self.reference.free), set(self.candidate.free)
        used: tuple[set[int], set[int]] = set(), set()
        for proposal in sorted(findings.proposals, key=lambda one: -one.confidence):
            free = reference.issuperset(proposal.reference) and candidate.issuperset(proposal.candidate)
            if free and proposal.confidence >= self.options.min_confidence:
                self.matches.append(self._match(method, proposal))
                reference.difference_update(proposal.reference)
                candidate.difference_update(proposal.candidate)
                used[0].update(proposal.reference)
                used[1].update(proposal.candidate)
            else:
                self.guesses.add(proposal)
        return used

    def _match(self, method: str, proposal: Proposal) -> Match:
        alternatives = tuple(str(self.candidate.tensor(place).key) for place in proposal.alternatives)
        pairing = Pairing(method, proposal.confidence, alternatives)
        return Match(proposal.reference, proposal.candidate, pairing, proposal.recipe)

    def result(self) -> PairingResult:
        """Return the pairs in the order of the reference, and the unpaired tensors."""
        reference = self.reference.all_but({place for match in self.matches for place in match.reference})
        candidate = self.candidate.all_but({place for match in self.matches for place in match.candidate})
        missing, extra = self.guesses.of(reference, candidate)
        pairs = tuple(sorted(self.matches, key=lambda match: match.reference))
        return PairingResult(reference.trace, candidate.trace, pairs, missing, extra, tuple(self.warnings), self.prints)
