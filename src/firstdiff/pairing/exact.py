"""Pair tensors with equal keys."""

from __future__ import annotations

from dataclasses import replace

from firstdiff.pairing.better_values import unless_beaten
from firstdiff.pairing.identity import Rule, pair_by_identity
from firstdiff.pairing.layers import shifted
from firstdiff.pairing.strategy import Findings, Situation, Strategy
from firstdiff.trace import Key

_RULE = Rule(confidence=1.0, other_size=1.0, why="the same key", in_order=0.9)


def _propose(situation: Situation) -> Findings:
    reference, candidate = situation.reference, situation.candidate
    offset, numbered = situation.options.layer_offset or 0, candidate.numbered
    ours = {place: _without_rank(reference.keys[place]) for place in reference.free}
    theirs = {place: _without_rank(candidate.keys[place]) for place in candidate.free}
    if offset:
        moved = {place: shifted(key.name, offset, numbered=numbered) for place, key in theirs.items()}
        theirs = {place: replace(theirs[place], name=name) for place, name in moved.items() if name is not None}
    return unless_beaten(situation, pair_by_identity(situation, ours, theirs, _RULE), of_other_size=True)


def _without_rank(key: Key) -> Key:
    return replace(key, rank=0) if key.rank else key


STRATEGY = Strategy("exact", 10, _propose)
