"""Pairs that a map file states: by key, or by regex with groups."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import final

from firstdiff.errors import did_you_mean
from firstdiff.pairing.map_file import MapEntry, PairMap
from firstdiff.pairing.strategy import Findings, Proposal, Side, Situation, Strategy

_WHY = "stated by the map"


def _propose(situation: Situation) -> Findings:
    stated = situation.options.map
    return Findings() if stated is None else _Reading(stated, situation).findings()


@final
@dataclass
class _Reading:
    """A map held against two traces."""

    stated: PairMap
    situation: Situation
    warnings: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._keys = {"reference": _places(self.situation.reference), "candidate": _places(self.situation.candidate)}
        self._claimed: dict[tuple[str, int], MapEntry] = {}

    def findings(self) -> Findings:
        proposals: list[Proposal] = []
        apart: tuple[set[int], set[int]] = set(), set()
        for entry in self.stated.entries:
            for proposal in self._matched(entry) if entry.regex else self._named(entry):
                if proposal.reference and proposal.candidate:
                    proposals.append(proposal)
                else:
                    apart[0].update(proposal.reference)
                    apart[1].update(proposal.candidate)
        return Findings(proposals, tuple(self.warnings), (frozenset(apart[0]), frozenset(apart[1])))

    def _named(self, entry: MapEntry) -> Iterator[Proposal]:
        reference = tuple(self._place(entry, "reference", key) for key in entry.reference)
        candidate = tuple(self._place(entry, "candidate", key) for key in entry.candidate)
        yield Proposal(reference, candidate, 1.0, why=_WHY, recipe=entry.recipe)

    def _place(self, entry: MapEntry, side: str, key: str) -> int:
        place = self._keys[side].get(key)
        if place is None:
            path = self.situation.reference.trace.path if side == "reference" else self.situation.candidate.trace.path
            near = did_you_mean(key, self._keys[side])
            raise self.stated.error(entry.line, f"the {side} {path} has no tensor {key!r}{near}")
        earlier = self._claimed.setdefault((side, place), entry)
        if earlier is not entry:
            raise self.stated.error(
                entry.line, f"the {side} {key!r} is mapped twice; line {earlier.line} has it already"
            )
        return place

    def _matched(self, entry: MapEntry) -> Iterator[Proposal]:
        """Whatever the patterns match and no earlier entry has; tensors with one target come in the patterns' order."""
        targets = self._targets(entry)
        if not targets:
            raise self.stated.error(entry.line, f"the regex {entry.reference[0]!r} matches no reference tensor")
        absent = 0
        for keys, reference in targets.items():
            places = [self._keys["candidate"].get(key) for key in keys]
            candidate = tuple(place for place in places if place is not None)
            if len(candidate) < len(keys):
                absent += 1
                gone = next(key for key, place in zip(keys, places, strict=True) if place is None)
            elif not self._claims_of(candidate):
                self._claim(entry, "reference", tuple(reference))
                self._claim(entry, "candidate", candidate)
                yield Proposal(tuple(reference), candidate, 1.0, why=_WHY, recipe=entry.recipe)
        if absent == len(targets):
            raise self.stated.error(entry.line, f"no candidate tensor is called {gone!r}, nor any other name it makes")
        if absent:
            found = f"{absent} of {len(targets)} names it makes are not in the candidate, such as {gone!r}"
            self.warnings.append(f"{self.stated.label}, line {entry.line}: {found}")

    def _targets(self, entry: MapEntry) -> dict[tuple[str, ...], list[int]]:
        targets: dict[tuple[str, ...], list[int]] = {}
        for pattern in entry.reference:
            compiled = re.compile(pattern)
            reached: dict[tuple[str, ...], str] = {}
            for key, place in self._keys["reference"].items():
                found = compiled.fullmatch(key)
                if found is None or ("reference", place) in self._claimed:
                    continue
                target = tuple(found.expand(template) for template in entry.candidate)
                if target in reached:
                    both = f"{reached[target]!r} and {key!r}"
                    raise self.stated.error(entry.line, f"the candidate {target[0]!r} is mapped twice, to {both}")
                reached[target] = key
                targets.setdefault(target, []).append(place)
        return targets

    def _claims_of(self, candidate: tuple[int, ...]) -> bool:
        return any(("candidate", place) in self._claimed for place in candidate)

    def _claim(self, entry: MapEntry, side: str, places: tuple[int, ...]) -> None:
        for place in places:
            self._claimed[side, place] = entry


def _places(side: Side) -> dict[str, int]:
    """Places by key; of a key that occurs more than once, the first."""
    places: dict[str, int] = {}
    for place, tensor in enumerate(side.trace):
        places.setdefault(str(tensor.key), place)
    return places


STRATEGY = Strategy("map", 0, _propose)
