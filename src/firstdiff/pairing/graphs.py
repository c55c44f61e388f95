"""Pair values of two ONNX graphs of one model, which another exporter or opset numbers differently."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cached_property
from typing import final

from firstdiff.pairing.fit import EQUAL, fits, misfit
from firstdiff.pairing.side import Side
from firstdiff.pairing.strategy import Findings, Proposal, Situation, Strategy
from firstdiff.trace import Tensor

# `val_12`, `add_3`, `onnx::MatMul_40`, `val_12/shape`; a name with dots, such as that of a weight, says what it is
_GENERATED = re.compile(r"(?:onnx::)?[A-Za-z_]*_?\d+(?:/.*)?")
# counted by the exporter itself; `add_3` is the program's third sum, which the exporter may spell in any nodes
_COUNTED = re.compile(r"(?:_?val_|onnx::\w+_|\d).*")
_CONFIDENCE = 0.95
_WHY = "the same node of a module, by what the exporter noted"

_Node = tuple[str, str, int]


@final
class GraphNames:
    """Tells which values of two graphs may be paired by name, and which are the same node of a module."""

    def __init__(self, situation: Situation) -> None:
        self._situation = situation
        self._sides = situation.reference, situation.candidate

    def tell(self, place: int, other: int) -> bool:
        """False for two values that only have the same number in different graphs."""
        tensors = self._sides[0].tensor(place), self._sides[1].tensor(other)
        if not self.differ or _GENERATED.fullmatch(tensors[0].name) is None:
            return True
        if self._sides[0].sizes[place] != self._sides[1].sizes[other]:
            return False
        if self._agree(place, other):
            return True
        if tensors[0].record.op != tensors[1].record.op and _COUNTED.fullmatch(tensors[0].name):
            return False
        return not self._has_equal(place)

    def proposals(self) -> Iterator[Proposal]:
        """Pair values by module, operation and turn, where both graphs have the operation equally often there."""
        if not self.differ:
            return
        ours, theirs = (_nodes(side) for side in self._sides)
        often = [Counter(node[:2] for node in nodes) for nodes in (ours, theirs)]
        for node, place in ours.items():
            other = theirs.get(node)
            if other is None or often[0][node[:2]] != often[1][node[:2]]:
                continue
            same_size = self._sides[0].sizes[place] == self._sides[1].sizes[other]
            if same_size and (self._agree(place, other) or not self._has_equal(place)):
                yield Proposal((place,), (other,), _CONFIDENCE, why=_WHY)

    @cached_property
    def differ(self) -> bool:
        """True for two graphs that do not compute the same values by the same names."""
        graphs = [[(item.name, item.record.op) for item in side.trace if _is_value(item)] for side in self._sides]
        return bool(graphs[0] and graphs[1]) and graphs[0] != graphs[1]

    def _agree(self, place: int, other: int) -> bool:
        ours, theirs = self._situation.prints
        return misfit(ours, place, theirs, other) <= EQUAL

    def _has_equal(self, place: int) -> bool:
        """True if the other graph has the values of a tensor, under whatever name."""
        key = self._sides[0].keys[place]
        others = self._by_size.get((key.role, self._sides[0].sizes[place]), [])
        ours, theirs = self._situation.prints
        return bool(others) and bool(fits(ours, [place], theirs, others, within=EQUAL))

    @cached_property
    def _by_size(self) -> dict[tuple[str, int | None], list[int]]:
        found: dict[tuple[str, int | None], list[int]] = defaultdict(list)
        side = self._sides[1]
        for place in side.free:
            found[side.keys[place].role, side.sizes[place]].append(place)
        return found


def _nodes(side: Side) -> dict[_Node, int]:
    """Places of free values by the module of their node, its operation, and its turn among those of the module."""
    turns: Counter[tuple[str, str]] = Counter()
    found: dict[_Node, int] = {}
    free = set(side.free)
    for place, item in enumerate(side.trace):
        module = item.record.attrs.get("module")
        if not _is_value(item) or not isinstance(module, str) or item.record.attrs.get("output", 0) != 0:
            continue
        node = module, item.record.op or ""
        if place in free:
            found[(*node, turns[node])] = place
        turns[node] += 1
    return found


def _is_value(item: Tensor) -> bool:
    """True for what a node of an ONNX graph gives."""
    return "opset" in item.record.attrs and item.key.role == "output" and item.key.slot == "0"


def _propose(situation: Situation) -> Findings:
    return Findings(list(GraphNames(situation).proposals()))


STRATEGY = Strategy("layer_stage", 8, _propose)
