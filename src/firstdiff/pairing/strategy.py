"""The interface of a pairing strategy, the situation it works on, and the result of pairing.

The table is filled from the entry points of the group `firstdiff.pairing`; each names a `Strategy`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from firstdiff.pairing.names import AS_COUNTED, LayerNumbers
from firstdiff.schema import Pairing
from firstdiff.trace import Key, Tensor, Trace
from firstdiff.trace.order import ORDER_RULES, STAGES, layer_and_stage, rule_for

if TYPE_CHECKING:
    from firstdiff.pairing.fingerprints import Fingerprints
    from firstdiff.pairing.map_file import PairMap
    from firstdiff.pairing.name_forms import Forms

T = TypeVar("T")

_SEVERAL = 2  # steps; one alone may be any
_RANK = r"(?:[a-z]{2}[_-]?)?rank[_-]?(\d+)"
_RANK_IN_FRONT = re.compile(rf"(?:^|(?<=/)){_RANK}[/._\-]", re.IGNORECASE)
_RANK_AT_THE_END = re.compile(rf"[._\-/@]{_RANK}$", re.IGNORECASE)


@dataclass(frozen=True)
class Side:
    """A trace, and of each of its tensors the key and the number of elements; `free` ones have no partner yet.

    A rank that only the name tells (`rank0/mel`, `mel_rank0`) is in `keys` as the manifest would have it. A tensor that
    cannot be read has no number of elements.
    """

    trace: Trace
    keys: tuple[Key, ...]
    sizes: tuple[int | None, ...]
    free: tuple[int, ...]

    @classmethod
    def of(cls, trace: Trace) -> Side:
        sizes = tuple(None if tensor.source is None else tensor.source.size for tensor in trace)
        return cls(trace, tuple(ranked_key(tensor) for tensor in trace), sizes, tuple(range(len(trace))))

    def counted_as(self, other: Side) -> Side:
        """With steps counted from where the other side begins; as it is where the runs have not as many steps."""
        mine, yours = ({key.step for key in side.keys} for side in (self, other))
        if len(mine) < _SEVERAL or len(mine) != len(yours) or min(mine) == min(yours):
            return self
        moved = min(yours) - min(mine)
        return replace(self, keys=tuple(replace(key, step=key.step + moved) for key in self.keys))

    def without(self, used: Collection[int]) -> Side:
        return replace(self, free=tuple(place for place in self.free if place not in used))

    def with_free(self, released: Collection[int]) -> Side:
        """With some tensors free again."""
        return replace(self, free=tuple(sorted({*self.free, *released})))

    def all_but(self, used: Collection[int]) -> Side:
        """With everything free again except what is used."""
        return replace(self, free=tuple(place for place in range(len(self.keys)) if place not in used))

    def tensor(self, place: int) -> Tensor:
        return self.trace.tensors[place]

    def size(self, places: Iterable[int]) -> int | None:
        """Elements in all; None where one cannot be read."""
        sizes = [self.sizes[place] for place in places]
        return None if None in sizes else sum(size for size in sizes if size)

    @cached_property
    def numbered(self) -> bool:
        """True if numbers at the start of names count the tensors of the run rather than layers."""
        if self.trace.order in ORDER_RULES:
            return self.trace.order == "numbered"
        in_front = [key.name for key in self.keys if key.name[:1].isdigit()]
        stages = any(told.stage in STAGES for told in map(layer_and_stage, in_front) if told)
        return not stages and rule_for(in_front) == "numbered"

    @cached_property
    def world(self) -> int:
        """The number of ranks of the run, as far as the trace tells."""
        stated = (tensor.record.world for tensor in self.trace)
        return max([1, *stated, *(key.rank + 1 for key in self.keys)])


def ranked_key(tensor: Tensor) -> Key:
    """The key of a tensor, with a rank in its name moved to where it belongs."""
    key = tensor.key
    if key.rank:
        return key
    for pattern in (_RANK_IN_FRONT, _RANK_AT_THE_END):
        if found := pattern.search(key.name):
            rest = key.name[: found.start()] + key.name[found.end() :]
            if rest:
                return replace(key, name=rest, rank=int(found[1]))
    return key


def grouped(places: Iterable[int], identity: Iterable[T]) -> dict[T, list[int]]:
    """Places by what identifies them."""
    groups: dict[T, list[int]] = defaultdict(list)
    for place, this in zip(places, identity, strict=True):
        groups[this].append(place)
    return dict(groups)


@dataclass(frozen=True, slots=True)
class Match:
    """Tensors that belong together, as places in `Trace.tensors`.

    reference, candidate: one each as a rule; several where a side holds shards (in the order of their ranks) or the
        parts of a fused tensor (in the order in which they are fused)
    recipe: the layout a map file states for them
    doubt: why the values speak against the pair, in one sentence
    """

    reference: tuple[int, ...]
    candidate: tuple[int, ...]
    pairing: Pairing
    recipe: str | None = None
    doubt: str | None = None


@dataclass(frozen=True, slots=True)
class Guess:
    """The likeliest partner of a tensor that has none: its key, the evidence, how far it goes (0 to 1), and others."""

    key: str
    why: str
    confidence: float
    alternatives: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Unpaired:
    """A tensor, as its place in `Trace.tensors`, that only one side has."""

    index: int
    guess: Guess | None = None


@dataclass(frozen=True)
class PairingResult:
    """Every tensor of both traces, once: in a match, or in `missing` (reference only) or `extra` (candidate only).

    Pairs stand in the order of the reference. `fingerprints` are the values read so far, of both sides.
    """

    reference: Trace
    candidate: Trace
    pairs: tuple[Match, ...]
    missing: tuple[Unpaired, ...]
    extra: tuple[Unpaired, ...]
    warnings: tuple[str, ...] = ()
    fingerprints: tuple[Fingerprints, Fingerprints] | None = field(default=None, repr=False, compare=False)


ACCEPTED = 0.6


@dataclass(frozen=True, slots=True)
class PairingOptions:
    """The user's options for pairing.

    layer_offset: added to the candidate's layers: with 3, its layer 0 is the reference's layer 3; None to find it
    map: pairs stated by the user, which go before all others
    min_confidence: a pair that is less certain is only listed as a guess
    strategies: the ways to try, instead of all that are installed
    """

    layer_offset: int | None = None
    map: PairMap | None = None
    min_confidence: float = ACCEPTED
    strategies: tuple[Strategy, ...] | None = None


@dataclass(frozen=True, slots=True)
class Proposal:
    """Tensors that seem to belong together, as places in their traces.

    confidence: from 0 to 1; below the accepted one the proposal is only a guess
    alternatives: candidate tensors that fit as well, or nearly
    why: the evidence, in a few words, for whoever reads the guess
    recipe: the layout the user states
    """

    reference: tuple[int, ...]
    candidate: tuple[int, ...]
    confidence: float
    alternatives: tuple[int, ...] = ()
    why: str = ""
    recipe: str | None = None


@dataclass(frozen=True, slots=True)
class Situation:
    """The board before a strategy's turn.

    reference, candidate: both sides, with what is still free
    anchors: the pairs found so far, as places, where they are one to one
    prints: of the reference and of the candidate; a strategy that needs no values reads none
    forms: every name in its common form
    options: what the user has to say
    layers: which layer of the reference one of the candidate is
    """

    reference: Side
    candidate: Side
    anchors: tuple[tuple[int, int], ...]
    forms: Forms
    prints: tuple[Fingerprints, Fingerprints]
    options: PairingOptions
    layers: LayerNumbers = AS_COUNTED

    def without_pairs(self, released: Collection[tuple[int, int]]) -> Situation:
        """The board with some pairs given up."""
        if not released:
            return self
        return replace(
            self,
            reference=self.reference.with_free({place for place, _ in released}),
            candidate=self.candidate.with_free({other for _, other in released}),
            anchors=tuple(pair for pair in self.anchors if pair not in released),
        )


@dataclass(frozen=True, slots=True)
class Findings:
    """The result of a strategy.

    apart: tensors that must stay unpaired, by side
    released: pairs of earlier strategies that turned out to be wrong, as places
    """

    proposals: Iterable[Proposal] = ()
    warnings: tuple[str, ...] = ()
    apart: tuple[frozenset[int], frozenset[int]] = (frozenset(), frozenset())
    released: frozenset[tuple[int, int]] = frozenset()


@dataclass(frozen=True, slots=True)
class Strategy:
    """One way of pairing, and one entry of the hook `firstdiff.pairing`.

    name: the method that pairs are labelled with
    order: strategies run from low to high, each on what the earlier ones left over
    propose: the pairs it sees among the free tensors; it never has to check that they are one to one
    revises: it may give up earlier pairs, so that it runs even if the candidate has no free tensor left
    """

    name: str
    order: int
    propose: Callable[[Situation], Findings]
    revises: bool = False
