"""The interface of a pairing strategy, and the situation it works on.

The table is filled from the entry points of the group `firstdiff.pairing`; each names a `Strategy`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from firstdiff.pairing.side import Side

if TYPE_CHECKING:
    from firstdiff.pairing.fingerprint import Fingerprints
    from firstdiff.pairing.forms import Forms
    from firstdiff.pairing.mapfile import PairMap

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
    """

    reference: Side
    candidate: Side
    anchors: tuple[tuple[int, int], ...]
    forms: Forms
    prints: tuple[Fingerprints, Fingerprints]
    options: PairingOptions

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
