"""Guess the best partner of an unpaired tensor."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple, final

from firstdiff.pairing.identity import circumstances
from firstdiff.pairing.result import Guess, Unpaired
from firstdiff.pairing.side import Side
from firstdiff.pairing.strategy import Proposal
from firstdiff.pairing.words import Words, unwrapped, words_of

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
        theirs = self._words[other]
        share = len(words & theirs) / len(words | theirs)
        return share if side.sizes[place] == self._side.sizes[other] else share * _OTHER_SIZE


def _words(side: Side, place: int) -> Words:
    return unwrapped(words_of(side.keys[place].name), keep=1)
