"""Names that are counted: functions in a module's code, and values of ONNX graphs.

A number means something only within the same code, or the same graph.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple, final

from firstdiff.pairing.fingerprints import EQUAL, FEWEST_DISTINCT, fits, misfit
from firstdiff.pairing.strategy import Findings, Proposal, Side, Situation, Strategy
from firstdiff.trace import Tensor
from firstdiff.trace.record import is_function_op

_Call = tuple[str | None, int, int]
# arithmetic and moving values about: one of them in each module need not be the same one
_COMMON = frozenset(
    "add sub mul div pow neg sqrt rsqrt mean sum matmul cat stack chunk split getitem reshape view transpose permute "
    "squeeze unsqueeze expand contiguous flatten to float type clone where triu tril".split()
)


class Code(NamedTuple):
    """The context of a function call: its op, if it tells its purpose, and all that its module calls."""

    op: str | None
    called: tuple[str | None, ...]


def is_telling(op: str | None) -> bool:
    """True for a function that is called for one purpose, such as softmax; any code may add for any purpose."""
    return op is not None and is_function_op(op) and op not in _COMMON


def may_be_one_place(one: Code | None, other: Code | None) -> bool:
    """False for two functions that nothing but their place in different code speaks for."""
    if one is None or other is None or one.called == other.called:
        return True
    return one.op is not None and one.op == other.op


@final
class FunctionNames:
    """Tells which functions may be paired by name: where both modules call the same ones, or the values are alike."""

    def __init__(self, situation: Situation) -> None:
        self._situation = situation
        self._called = _called(situation.reference), _called(situation.candidate)
        self._classes = _classes(situation.reference), _classes(situation.candidate)

    def tell(self, place: int, other: int) -> bool:
        """False for two functions that only have the same number in different code."""
        reference, candidate = self._situation.reference, self._situation.candidate
        records = reference.tensor(place).record, candidate.tensor(other).record
        if not (records[0].is_function and records[1].is_function):
            return True
        if self._called[0].get(_call(reference, place)) == self._called[1].get(_call(candidate, other)):
            classes = self._classes[0].get(records[0].parent), self._classes[1].get(records[1].parent)
            return classes[0] == classes[1] or not self._is_plain(place) or self._hold_the_same(place, other)
        if reference.sizes[place] != candidate.sizes[other]:
            return False
        if self._is_only_one(records[0].op, _call(reference, place), _call(candidate, other)):
            return True
        return self._hold_the_same(place, other)

    def _hold_the_same(self, place: int, other: int) -> bool:
        prints = self._situation.prints
        return misfit(prints[0], place, prints[1], other) <= EQUAL

    def _is_plain(self, place: int) -> bool:
        """True for masks and other tensors of few different values, which each code makes in its own way."""
        source = self._situation.reference.tensor(place).source
        _, telling = self._situation.prints[0].points([place], "in_order")
        return source is not None and source.size >= FEWEST_DISTINCT and not telling

    def code_of(self, place: int, *, is_reference: bool) -> Code | None:
        """Return what tells a function's place in a run; None for what is no function."""
        side = self._situation.reference if is_reference else self._situation.candidate
        record = side.tensor(place).record
        if not record.is_function:
            return None
        telling = record.op if is_telling(record.op) and side.keys[place].role == "output" else None
        return Code(telling, self._called[0 if is_reference else 1].get(_call(side, place), ()))

    def _is_only_one(self, op: str | None, call: _Call, other: _Call) -> bool:
        """True for an operation that both modules do once, unless any code may have it for any purpose."""
        if not is_telling(op):
            return False
        return self._called[0].get(call, ()).count(op) == self._called[1].get(other, ()).count(op) == 1


def _called(side: Side) -> dict[_Call, tuple[str | None, ...]]:
    """The functions that each module calls in a step, in their order."""
    found: dict[_Call, list[str | None]] = defaultdict(list)
    for place, tensor in enumerate(side.trace):
        if tensor.record.is_function and tensor.record.key.role == "output":
            found[_call(side, place)].append(tensor.record.op)
    return {call: tuple(ops) for call, ops in found.items()}


def _classes(side: Side) -> dict[str | None, str | None]:
    """The class of each module."""
    records = (tensor.record for tensor in side.trace)
    return {record.name: record.op for record in records if record.role == "output" and not record.is_function}


def _call(side: Side, place: int) -> _Call:
    return side.tensor(place).record.parent, side.keys[place].step, side.keys[place].rank


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
        reference, candidate = (_nodes(side) for side in self._sides)
        often = [Counter(node[:2] for node in nodes) for nodes in (reference, candidate)]
        for node, place in reference.items():
            other = candidate.get(node)
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
        reference, candidate = self._situation.prints
        return misfit(reference, place, candidate, other) <= EQUAL

    def _has_equal(self, place: int) -> bool:
        """True if the other graph has the values of a tensor, under whatever name, but not in another branch.

        Layers with random weights give nearly the same, such as the shares of an attention that attends to all alike.
        """
        key, module = self._sides[0].keys[place], self._sides[0].tensor(place).record.attrs.get("module")
        others = self._by_size.get((key.role, self._sides[0].sizes[place]), [])
        noted = {other: self._sides[1].tensor(other).record.attrs.get("module") for other in others}
        others = [other for other in others if not _are_apart(module, noted[other])]
        reference, candidate = self._situation.prints
        return bool(others) and bool(fits(reference, [place], candidate, others, within=EQUAL))

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


def _are_apart(module: object, other: object) -> bool:
    """True for two modules of which neither is inside the other."""
    if not (isinstance(module, str) and isinstance(other, str)):
        return False
    return not (f"{module}.".startswith(f"{other}.") or f"{other}.".startswith(f"{module}."))


def _is_value(item: Tensor) -> bool:
    """True for what a node of an ONNX graph gives."""
    return "opset" in item.record.attrs and item.key.role == "output" and item.key.slot == "0"


def _propose(situation: Situation) -> Findings:
    return Findings(list(GraphNames(situation).proposals()))


GRAPH_STRATEGY = Strategy("layer_stage", 8, _propose)
