"""Pair tensors by an identity in their names: a key, a layer and stage, a normalised name."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, replace

from firstdiff.pairing.functions import FunctionNames
from firstdiff.pairing.graphs import GraphNames
from firstdiff.pairing.side import grouped
from firstdiff.pairing.strategy import Findings, Proposal, Situation
from firstdiff.trace import Key

_UNCLEAR = 0.4
_MOST_ALTERNATIVES = 8


@dataclass(frozen=True, slots=True)
class Rule:
    """The confidence of pairs by equal identities.

    confidence: of a pair whose identity is unique on both sides
    other_size: the same, where the two tensors differ in their number of elements
    in_order: of the pairs when both sides have it equally often and order decides; None: order does not decide
    why: what the identity is, for guesses
    """

    confidence: float
    other_size: float
    why: str
    in_order: float | None = None


def pair_by_identity(
    situation: Situation, reference: Mapping[int, Hashable], candidate: Mapping[int, Hashable], rule: Rule
) -> Findings:
    """Pair free tensors of equal identity; ranks are told apart, or put together where the runs had different ones."""
    ours = grouped(reference, reference.values())
    theirs = grouped(candidate, candidate.values())
    proposals = [
        proposal
        for identity, places in ours.items()
        if identity in theirs
        for proposal in _pair_group(situation, places, theirs[identity], rule)
    ]
    functions, graphs = FunctionNames(situation), GraphNames(situation)
    proposals = [
        one
        if all(names.tell(one.reference[0], one.candidate[0]) for names in (functions, graphs))
        else replace(one, confidence=_UNCLEAR)
        for one in proposals
    ]
    repeated = sum(1 for proposal in proposals if rule.in_order and proposal.confidence == rule.in_order)
    if not repeated:
        return Findings(proposals)
    told = "1 pair has" if repeated == 1 else f"{repeated} pairs have"
    return Findings(proposals, (f"{told} {rule.why} that occurs more than once; they were paired in order",))


def circumstances(key: Key) -> tuple[Hashable, ...]:
    """Return the fields of a key that must agree beside the name; the rank need not."""
    return key.role, key.slot, key.call, key.step


def _pair_group(situation: Situation, ours: list[int], theirs: list[int], rule: Rule) -> Iterator[Proposal]:
    reference, candidate = situation.reference, situation.candidate
    our_ranks = grouped(ours, (reference.keys[place].rank for place in ours))
    their_ranks = grouped(theirs, (candidate.keys[place].rank for place in theirs))
    lone = all(len(places) == 1 for ranks in (our_ranks, their_ranks) for places in ranks.values())
    if reference.world != candidate.world and lone:
        yield Proposal(
            tuple(our_ranks[rank][0] for rank in sorted(our_ranks)),
            tuple(their_ranks[rank][0] for rank in sorted(their_ranks)),
            rule.confidence,
            why=rule.why,
        )
        return
    for rank in sorted(our_ranks.keys() & their_ranks.keys()):
        yield from _pair_rank(situation, our_ranks[rank], their_ranks[rank], rule)


def _pair_rank(situation: Situation, ours: list[int], theirs: list[int], rule: Rule) -> Iterator[Proposal]:
    if len(ours) == len(theirs) == 1:
        sizes = situation.reference.size(ours), situation.candidate.size(theirs)
        fits = None in sizes or sizes[0] == sizes[1]
        yield Proposal((ours[0],), (theirs[0],), rule.confidence if fits else rule.other_size, why=rule.why)
        return
    in_order = rule.in_order is not None and len(ours) == len(theirs)
    confidence = rule.in_order if in_order and rule.in_order is not None else _UNCLEAR
    why = f"{rule.why}, shared by {max(len(ours), len(theirs))} tensors of one side"
    for turn, place in enumerate(ours):
        partner = theirs[min(turn, len(theirs) - 1)]
        others = tuple(other for other in theirs[: _MOST_ALTERNATIVES + 1] if other != partner)
        yield Proposal((place,), (partner,), confidence, others[:_MOST_ALTERNATIVES], why)
