"""Pair names that mean the same in two dialects; fused tensors with their parts."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import replace

from firstdiff.pairing.better_values import unless_beaten
from firstdiff.pairing.dialects import FUSED, LAST_PART
from firstdiff.pairing.forms import Form
from firstdiff.pairing.identity import Rule, circumstances, pair_by_identity
from firstdiff.pairing.side import Side, grouped
from firstdiff.pairing.strategy import Findings, Proposal, Situation, Strategy

_SAME_FORM = Rule(confidence=0.95, other_size=0.8, why="the same name in other words")
_LAST_PART = Rule(confidence=0.85, other_size=0.5, why="a module and its last part")
_FUSED = Rule(confidence=0.9, other_size=0.7, why="fused on one side, in parts on the other")

Identity = tuple[Form, tuple[Hashable, ...]]
Places = tuple[int, ...]


def _propose_same_form(situation: Situation) -> Findings:
    ours, theirs = _identities(situation)
    return unless_beaten(situation, pair_by_identity(situation, ours, theirs, _SAME_FORM))


def _propose_last_part(situation: Situation) -> Findings:
    """A module's output, where the other side only has that of its last part."""
    sides = zip((situation.reference, situation.candidate), _identities(situation), strict=True)
    ours, theirs = (
        {place: (_last_part(form), rest) for place, (form, rest) in identities.items() if _is_output(side, place)}
        for side, identities in sides
    )
    return unless_beaten(situation, pair_by_identity(situation, ours, theirs, _LAST_PART))


def _propose_fused(situation: Situation) -> Findings:
    reference, candidate = situation.reference, situation.candidate
    ours, theirs = _identities(situation)
    found = [
        *_wholes_and_parts(reference, candidate, ours, theirs),
        *((parts, whole) for whole, parts in _wholes_and_parts(candidate, reference, theirs, ours)),
    ]
    return Findings([_proposed(situation, *sides) for sides in found])


def _wholes_and_parts(
    fused: Side, parted: Side, wholes: dict[int, Identity], parts: dict[int, Identity]
) -> Iterator[tuple[Places, Places]]:
    """Rank by rank; all ranks at once where the runs had different ones."""
    together = fused.world != parted.world

    def ranked(side: Side, identities: dict[int, Identity]) -> dict[tuple[Identity, int], list[int]]:
        ranks = (0 if together else side.keys[place].rank for place in identities)
        return grouped(identities, zip(identities.values(), ranks, strict=True))

    parts_of = ranked(parted, parts)
    for ((form, rest), rank), places in ranked(fused, wholes).items():
        found = [parts_of.get(((replace(form, part=part), rest), rank), []) for part in FUSED.get(form.part, ())]
        groups = [places, *found]
        if found and all(groups) and all(_are_shards(group, side) for group, side in _sides(groups, fused, parted)):
            yield _by_rank(places, fused), tuple(place for group in found for place in _by_rank(group, parted))


def _sides(groups: list[list[int]], fused: Side, parted: Side) -> Iterator[tuple[list[int], Side]]:
    return zip(groups, [fused, *[parted] * (len(groups) - 1)], strict=True)


def _are_shards(places: list[int], side: Side) -> bool:
    return len({side.keys[place].rank for place in places}) == len(places)


def _by_rank(places: list[int], side: Side) -> Places:
    return tuple(sorted(places, key=lambda place: side.keys[place].rank))


def _proposed(situation: Situation, ours: Places, theirs: Places) -> Proposal:
    sizes = situation.reference.size(ours), situation.candidate.size(theirs)
    fits = None in sizes or sizes[0] == sizes[1]
    return Proposal(ours, theirs, _FUSED.confidence if fits else _FUSED.other_size, why=_FUSED.why)


def _identities(situation: Situation) -> tuple[dict[int, Identity], dict[int, Identity]]:
    reference, candidate = situation.reference, situation.candidate
    ours, theirs = situation.forms.reference, situation.forms.candidate
    return (
        {place: (ours[place], circumstances(reference.keys[place])) for place in reference.free},
        {place: (theirs[place], circumstances(candidate.keys[place])) for place in candidate.free},
    )


def _is_output(side: Side, place: int) -> bool:
    """A module and its last part have neither inputs nor weights in common."""
    return side.keys[place].role == "output" and not side.keys[place].name.endswith((".weight", ".bias"))


def _last_part(form: Form) -> Form:
    return replace(form, part=LAST_PART.get(form.part, form.part))


STRATEGY = Strategy("normalised", 30, _propose_same_form)
LAST_PART_STRATEGY = Strategy("normalised", 31, _propose_last_part)
FUSED_STRATEGY = Strategy("normalised", 32, _propose_fused)
