"""Find pairs by name that values contradict: an unpaired tensor holds the values of one of the two."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from firstdiff.pairing.fit import NOISE, fits, misfit
from firstdiff.pairing.side import Side, grouped
from firstdiff.pairing.strategy import Findings, Proposal, Situation

_BEATEN = 0.4
_FAR_BETTER = 10.0


def unless_beaten(situation: Situation, found: Findings, *, of_other_size: bool = False) -> Findings:
    """Only guess at pairs that values speak against.

    Two named tensors that hold each other's values stay as they are named: that is a finding.

    of_other_size: doubt only pairs of unequal size, where the name itself is as sure as can be
    """
    proposals = list(found.proposals)
    doubtful = [one for one in proposals if _may_be_beaten(situation, one, of_other_size=of_other_size)]
    if not doubtful:
        return found
    free = (
        _unnamed(situation.reference, (at for one in proposals for at in one.reference)),
        _unnamed(situation.candidate, (at for one in proposals for at in one.candidate)),
    )
    beaten = [one for one in doubtful if _is_held_elsewhere(situation, one, free) and not _is_left_out(situation, one)]
    return replace(found, proposals=[replace(one, confidence=_BEATEN) if one in beaten else one for one in proposals])


def _may_be_beaten(situation: Situation, one: Proposal, *, of_other_size: bool) -> bool:
    if len(one.reference) > 1 or len(one.candidate) > 1 or situation.reference.keys[one.reference[0]].role != "output":
        return False
    place, other = one.reference[0], one.candidate[0]
    if situation.reference.sizes[place] != situation.candidate.sizes[other]:
        return True
    return not of_other_size and misfit(situation.prints[0], place, situation.prints[1], other) > _FAR_BETTER * NOISE


def _is_held_elsewhere(situation: Situation, one: Proposal, free: tuple[_BySize, _BySize]) -> bool:
    """True if a free tensor is far nearer to one of the two than they are to each other."""
    place, other = one.reference[0], one.candidate[0]
    mine, yours = situation.prints
    sizes = situation.reference.sizes[place], situation.candidate.sizes[other]
    by_values = [*fits(mine, free[0].get(sizes[1], []), yours, [other], within=NOISE)]
    by_values += fits(mine, [place], yours, free[1].get(sizes[0], []), within=NOISE)
    return bool(by_values)


def _is_left_out(situation: Situation, one: Proposal) -> bool:
    """True if the candidate's tensor is what the reference's of that name was given: the operation was left out."""
    place, other = one.reference[0], one.candidate[0]
    reference, size = situation.reference, situation.candidate.sizes[other]
    name, call, step = reference.keys[place].name, reference.keys[place].call, reference.keys[place].step
    inputs = [
        at
        for at, key in enumerate(reference.keys)
        if key.role == "input" and (key.name, key.call, key.step) == (name, call, step) and reference.sizes[at] == size
    ]
    exact = situation.candidate.keys[other].name == name
    return exact and bool([*fits(situation.prints[0], inputs, situation.prints[1], [other], within=NOISE)])


_BySize = dict[int | None, list[int]]


def _unnamed(side: Side, named: Iterable[int]) -> _BySize:
    """Free outputs that no proposal has, by their size."""
    known = set(named)
    places = [at for at in side.free if at not in known and side.keys[at].role == "output"]
    return grouped(places, (side.sizes[place] for place in places))
