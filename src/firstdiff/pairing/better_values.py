"""Find pairs by name that values contradict: an unpaired tensor holds the values of one of the two."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import final

import numpy as np

from firstdiff.errors import ReadError
from firstdiff.pairing.fingerprints import NOISE, Fingerprints, fits, fits_of_profiles, misfit
from firstdiff.pairing.names import op_kind
from firstdiff.pairing.strategy import Findings, Proposal, Side, Situation, grouped

_BEATEN = 0.4
_FAR_BETTER = 10.0
_EXECUTED = frozenset({"input", "output"})
_LARGEST = 1 << 22  # elements of a fused tensor that is read to look for its parts


def unless_beaten(situation: Situation, found: Findings, *, of_other_size: bool = False) -> Findings:
    """Only guess at pairs that values speak against.

    Two named tensors that hold each other's values stay as they are named: that is a finding.

    of_other_size: doubt only pairs of unequal size, where the name itself is as sure as can be
    """
    proposals = _unwrapped(situation, list(found.proposals))
    found = replace(found, proposals=proposals)
    doubtful = [one for one in proposals if _may_be_beaten(situation, one, of_other_size=of_other_size)]
    if not doubtful:
        return found
    free = {
        role: (
            _unnamed(situation.reference, (at for one in proposals for at in one.reference), role),
            _unnamed(situation.candidate, (at for one in proposals for at in one.candidate), role),
        )
        for role in ("output", "param")
    }

    def is_beaten(one: Proposal) -> bool:
        role = "param" if situation.reference.keys[one.reference[0]].role == "param" else "output"
        return _is_held_elsewhere(situation, one, free[role]) and not _is_left_out(situation, one)

    beaten = [one for one in doubtful if is_beaten(one)]
    return replace(found, proposals=[replace(one, confidence=_BEATEN) if one in beaten else one for one in proposals])


def _unwrapped(situation: Situation, proposals: list[Proposal]) -> list[Proposal]:
    """Pair an operation with the one of its kind inside a module that gives its result: `head` may have a norm, too."""
    inner = _Wrappers(situation.reference, situation.prints[0]), _Wrappers(situation.candidate, situation.prints[1])
    taken = {at for one in proposals for at in one.reference}, {at for one in proposals for at in one.candidate}
    found = []
    for one in proposals:
        if len(one.reference) > 1 or len(one.candidate) > 1:
            found.append(one)
            continue
        kinds = inner[0].kind(one.reference[0]), inner[1].kind(one.candidate[0])
        place = inner[0].inside(one.reference[0], kinds[1], taken[0])
        other = inner[1].inside(one.candidate[0], kinds[0], taken[1])
        reference, candidate = (
            one.reference if place is None else (place,),
            one.candidate if other is None else (other,),
        )
        found.append(replace(one, reference=reference, candidate=candidate))
    return found


@final
class _Wrappers:
    """Finds the operation whose result a module gives, by the module's tensors."""

    def __init__(self, side: Side, prints: Fingerprints) -> None:
        self._side, self._prints = side, prints
        self._place_of = {key: at for at, key in enumerate(side.keys)}

    def kind(self, place: int) -> str | None:
        """The kind of operation that a tensor belongs to."""
        output = self._place_of.get(replace(self._side.keys[place], role="output", slot="0"))
        return None if output is None else op_kind(self._side.tensor(output).record.op)

    def inside(self, place: int, kind: str | None, taken: Collection[int]) -> int | None:
        """Return the same tensor of the operation inside; None for what is no wrapper of one of that kind."""
        key = self._side.keys[place]
        output = self._place_of.get(replace(key, role="output", slot="0"))
        if kind is None or output is None or self.kind(place) is not None or key.role not in ("input", "output"):
            return None
        front, size = f"{key.name}.", self._side.sizes[output]
        for other in range(output - 1, -1, -1):
            inner = self._side.keys[other]
            if not inner.name.startswith(front) or inner.role not in ("input", "output"):
                break
            if inner.role == "output" and self.kind(other) == kind and self._side.sizes[other] == size:
                same = misfit(self._prints, output, self._prints, other) == 0
                found = self._place_of.get(replace(inner, role=key.role, slot=key.slot))
                return found if same and found not in taken else None
        return None


def _may_be_beaten(situation: Situation, one: Proposal, *, of_other_size: bool) -> bool:
    """True for an output or weight whose values differ, and for an input of another size: what begins elsewhere."""
    if len(one.reference) > 1 or len(one.candidate) > 1:
        return False
    place, other = one.reference[0], one.candidate[0]
    role = situation.reference.keys[place].role
    if situation.reference.sizes[place] != situation.candidate.sizes[other]:
        return role in _EXECUTED
    if role not in ("output", "param") or of_other_size:
        return False
    return misfit(situation.prints[0], place, situation.prints[1], other) > _FAR_BETTER * NOISE


def _is_held_elsewhere(situation: Situation, one: Proposal, free: tuple[_BySize, _BySize]) -> bool:
    """True if a free tensor is far nearer to one of the two than they are to each other."""
    place, other = one.reference[0], one.candidate[0]
    prints = situation.prints
    sizes = situation.reference.sizes[place], situation.candidate.sizes[other]
    searches = ((free[0].get(sizes[1], []), [other]), ([place], free[1].get(sizes[0], [])))
    return any(fits(prints[0], places, prints[1], others, within=NOISE) for places, others in searches) or any(
        fits_of_profiles(prints[0], places, prints[1], others)
        for places, others in searches  # in any layout
    )


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


def unless_parts_are_others(situation: Situation, proposals: list[Proposal]) -> list[Proposal]:
    """Only guess at fused pairs one part of which is another tensor, such as queries that are turned already.

    Layers run the same code: what is no part in one of them is none in any.
    """
    forms = situation.forms.reference, situation.forms.candidate
    beaten: set[tuple[object, ...]] = set()
    names = []
    for one in proposals:
        sides = one.reference, one.candidate
        name = tuple(replace(forms[at][place], layers=()) for at in (0, 1) for place in sides[at])
        names.append(name)
        if name not in beaten and 1 in map(len, sides) and _has_another_part(situation, sides):
            beaten.add(name)
    return [
        replace(one, confidence=_BEATEN) if name in beaten else one for one, name in zip(proposals, names, strict=True)
    ]


def _has_another_part(situation: Situation, sides: tuple[tuple[int, ...], tuple[int, ...]]) -> bool:
    """True if a part is near a tensor whose values are not those of the whole."""
    fused = 0 if len(sides[0]) == 1 else 1
    (whole,), parts = sides[fused], sides[1 - fused]
    side, other = (situation.reference, situation.candidate)[fused], (situation.candidate, situation.reference)[fused]
    key, values = side.keys[whole], _few_values(side, whole)
    if key.role != "output" or values is None:
        return False
    for part in parts:
        same_run = [
            at
            for at in side.free
            if at != whole
            and side.sizes[at] == other.sizes[part]
            and (side.keys[at].step, side.keys[at].rank) == (key.step, key.rank)
            and side.keys[at].role in _EXECUTED
        ]
        prints = situation.prints[fused], situation.prints[1 - fused]
        near = fits(prints[0], same_run, prints[1], [part]) or fits_of_profiles(prints[0], same_run, prints[1], [part])
        best = min(near, key=lambda fit: fit.misfit, default=None)
        if best is not None:
            points, _ = prints[0].points([best.reference], "in_order")
            if not np.isin(points, values).all():
                return True
    return False


def _few_values(side: Side, place: int) -> np.ndarray | None:
    """Return the values of a tensor that is small enough to be read for a test."""
    source = side.tensor(place).source
    if source is None or source.size > _LARGEST or source.dtype.kind == "c":
        return None
    try:
        return np.asarray(source.window(0, source.size)).astype(np.float64)
    except ReadError:
        return None


_BySize = dict[int | None, list[int]]


def _unnamed(side: Side, named: Iterable[int], role: str) -> _BySize:
    """Free tensors of a role that no proposal has, by their size."""
    known = set(named)
    places = [at for at in side.free if at not in known and side.keys[at].role == role]
    return grouped(places, (side.sizes[place] for place in places))
