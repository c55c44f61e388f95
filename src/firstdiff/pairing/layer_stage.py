"""`{layer}_{stage}`, however it is spelt: `3_query`, `03_query`, `3.query`, `3-Query`."""

from __future__ import annotations

import re
from collections.abc import Hashable

from firstdiff.pairing.identity import Rule, circumstances, pair_by_identity
from firstdiff.pairing.side import Side
from firstdiff.pairing.strategy import Findings, Situation, Strategy
from firstdiff.trace.order import layer_and_stage

_RULE = Rule(confidence=0.98, other_size=0.98, why="the same layer and stage")
_SEPARATORS = re.compile(r"[_.\-\s/]+")


def _propose(situation: Situation) -> Findings:
    ours = _identities(situation.reference, 0)
    theirs = _identities(situation.candidate, situation.options.layer_offset or 0)
    return pair_by_identity(situation, ours, theirs, _RULE)


def _identities(side: Side, offset: int) -> dict[int, Hashable]:
    """Layer, stage and the rest, for each free tensor whose name has them; a number that counts tensors is no layer."""
    if side.numbered:
        return {}
    found: dict[int, Hashable] = {}
    for place in side.free:
        key = side.keys[place]
        if told := layer_and_stage(key.name):
            stage = _SEPARATORS.sub("_", told.stage).strip("_").lower()
            found[place] = (told.layer + offset, stage, *circumstances(key))
    return found


STRATEGY = Strategy("layer_stage", 20, _propose)
