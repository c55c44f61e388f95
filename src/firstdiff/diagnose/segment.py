"""Replay part of the model: from a row back to what it was computed from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from firstdiff.diagnose.rows import Scene
from firstdiff.errors import ReadError, UsageError
from firstdiff.ops import NotReplayable, Plan, plans, reproduce
from firstdiff.trace import Record

Move = Callable[[np.ndarray], np.ndarray]

# sorting more than this takes long
_MOST_ELEMENTS = 1 << 21
# values that come twice leave open which of them went where
_MOST_TWINS = 0.001


def find_move(source: np.ndarray, result: np.ndarray) -> Move | None:
    """A function that takes the elements of the result out of the source; None where they are not all in it."""
    if source.size == result.size and np.array_equal(source.reshape(result.shape), result):
        return lambda array: array.reshape(result.shape)
    if max(source.size, result.size) > _MOST_ELEMENTS or not source.size or not result.size:
        return None
    index = _split_and_turned(source, result)
    index = _by_value(source, result) if index is None else index
    if index is None:
        return None
    return lambda array: np.asarray(array).reshape(-1)[index]


def _split_and_turned(source: np.ndarray, result: np.ndarray) -> np.ndarray | None:
    """Heads split off an axis and moved to the front, or back."""
    if source.size != result.size:
        return None
    numbers = np.arange(source.size)
    whole = tuple(size for size in result.shape)
    for order in _ORDERS.get(result.ndim, ()):
        shape = tuple(whole[order.index(axis)] for axis in range(len(whole)))
        moved = source.reshape(shape).transpose(order)
        if np.array_equal(moved, result):
            return numbers.reshape(shape).transpose(order)
    for order in _ORDERS.get(source.ndim, ()):
        if np.array_equal(source.transpose(order).reshape(result.shape), result):
            return numbers.reshape(source.shape).transpose(order).reshape(result.shape)
    return None


# result axis -> source axis
_ORDERS: dict[int, tuple[tuple[int, ...], ...]] = {
    2: ((1, 0),),
    3: ((0, 2, 1), (1, 0, 2), (2, 0, 1), (1, 2, 0)),
    4: ((0, 2, 1, 3), (0, 2, 3, 1), (0, 1, 3, 2), (0, 3, 1, 2)),
}


def _by_value(source: np.ndarray, result: np.ndarray) -> np.ndarray | None:
    if source.dtype != result.dtype or source.dtype.kind not in "fiu":
        return None
    flat, wanted = source.reshape(-1), result.reshape(-1)
    order = np.argsort(flat, kind="stable")
    ordered = flat[order]
    twins = np.count_nonzero(ordered[1:] == ordered[:-1])
    if twins > _MOST_TWINS * flat.size:
        return None
    at = np.minimum(np.searchsorted(ordered, wanted), flat.size - 1)
    return order[at].reshape(result.shape) if np.array_equal(ordered[at], wanted) else None


_MOST_STEPS = 16
_Outputs = dict[str, np.ndarray]


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """A row of the reference as an operation that its own output confirmed.

    settled: how its record was read
    slots: what goes into it, by rows
    """

    place: int
    record: Record
    settled: Plan
    slots: Mapping[str, int]


@dataclass(frozen=True, slots=True, eq=False)
class Moved:
    """A row of the reference that is another one cut or rearranged."""

    source: int
    move: Move


@dataclass(frozen=True, slots=True, eq=False)
class Given:
    """A row that the candidate did not record and nothing leads to: the reference's values stand in for it."""

    values: np.ndarray


@final
class Segment:
    """The operations that lead to a row, back to rows that the candidate has."""

    def __init__(self, scene: Scene, place: int) -> None:
        self._scene = scene
        self._place = place
        self._nodes: dict[int, Step | Moved | Given | None] = {}
        self._in_part: set[int] = set()  # rows that one side has more of, and nothing leads to
        self.own_inputs = True
        self.complete = self._explore(place, _MOST_STEPS) >= 0

    def steps(self) -> Iterator[Step]:
        """The operations, that of the row itself first."""
        for node in self._nodes.values():
            if isinstance(node, Step):
                yield node

    def plan(self, step: Step, overrides: Mapping[int, _Outputs] | None = None) -> Plan:
        """An operation on the candidate's own inputs; ValueError where they do not fit it."""
        record, values = step.record, self._scene.values
        inputs = {slot: self._value(at, overrides or {}) for slot, at in step.slots.items()}
        own = values.own(step.place) if self._scene.rows[step.place].compared else None
        params = values.params(record.name, record.parent, None if own is None else own.dtype) or {}
        found = plans(record.op or "", record.attrs, inputs, params, name=record.name)
        wanted = step.settled
        for plan in () if isinstance(found, NotReplayable) else found:
            if plan.function is wanted.function and plan.settings == wanted.settings:
                return replace(plan, rounding=wanted.rounding)
        raise ValueError("the candidate's inputs do not fit the operation")

    def result(self, overrides: Mapping[int, _Outputs]) -> np.ndarray:
        """The row, with the outputs of some operations replaced."""
        return self._computed(self._place, overrides)

    def _explore(self, place: int, budget: int) -> int:
        """Reads the row and what it needs; the budget left, or less than 0 where that is not possible."""
        if place in self._nodes:
            return budget if self._nodes[place] is not None else -1
        node = self._read(place) if budget else None
        self._nodes[place] = node
        if node is None:
            return -1
        budget -= 1
        for at in node.slots.values() if isinstance(node, Step) else (node.source,):
            if not self._is_known(at):
                left = self._explore(at, budget)
                budget = self._stand_in(at, budget) if left < 0 else left
        return budget

    def _stand_in(self, place: int, budget: int) -> int:
        if self._has(place):
            self._in_part.add(place)
            return budget
        self._nodes[place] = Given(self._scene.values.reference(place))
        self.own_inputs = False
        return budget

    def _is_known(self, place: int) -> bool:
        """True if the candidate has all of a row, so that no operation before it is needed."""
        row = self._scene.rows[place]
        whole = row.alignment is None or row.alignment.coverage >= 1.0
        return row.is_evidence or place in self._in_part or (whole and self._has(place))

    def _has(self, place: int) -> bool:
        return self._scene.rows[place].compared and self._scene.values.candidate(place) is not None

    def _read(self, place: int) -> Step | Moved | None:
        try:
            return self._step(place) or self._moved(place)
        except ReadError:
            return None

    def _step(self, place: int) -> Step | None:
        record, values = self._scene.rows[place].record, self._scene.values
        if record is None or record.op is None or record.role == "input":
            return None
        slots = values.slots(place)
        params = values.params(record.name, record.parent)
        if params is None:
            return None
        reference = {slot: values.reference(at) for slot, at in slots.items()}
        again = reproduce(
            record.op, record.attrs, reference, params, {record.slot: values.reference(place)}, name=record.name
        )
        return None if isinstance(again, NotReplayable) else Step(place, record, again.plan, slots)

    def _moved(self, place: int) -> Moved | None:
        """A view handed on, or a container that gives back what ran inside."""
        graph, values = self._scene.graph, self._scene.values
        result = values.reference(place)
        inner = [at for at in graph.calls.of(place).inner if at < place and graph.rows[at].role != "input"]
        is_input = graph.rows[place].role == "input"
        for at in reversed(graph.direct[place].rows if is_input else inner[-4:]):
            if (move := find_move(values.reference(at), result)) is not None:
                return Moved(at, move)
        return None

    def _value(self, place: int, overrides: Mapping[int, _Outputs]) -> np.ndarray:
        if place in overrides or not self._is_known(place):
            return self._computed(place, overrides)
        found = self._scene.values.candidate(place)
        assert found is not None, "a row that is known has values"
        return found

    def _computed(self, place: int, overrides: Mapping[int, _Outputs]) -> np.ndarray:
        node = self._nodes.get(place)
        if isinstance(node, Moved):
            return node.move(self._value(node.source, overrides))
        if isinstance(node, Given):
            return node.values
        if node is None:
            raise ValueError("it cannot be computed again")
        outputs = overrides.get(place) or self.plan(node, overrides).run()
        if node.record.slot not in outputs:
            raise ValueError(f"output {node.record.slot} cannot be computed again")
        return outputs[node.record.slot]


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """One operation that the row of a case is computed by.

    key: the row of the reference whose operation it is; the case's own, or one before it that the candidate lacks
    op: the kind as recorded
    plan: the operation as the reference's own output confirmed it, on the candidate's inputs
    own_inputs: whether these are the candidate's; else the reference's, which match them
    finish: from the operation's output to the case's row, in `case.candidate`'s layout and part
    """

    key: str
    op: str
    plan: Plan
    own_inputs: bool
    finish: Callable[[dict[str, np.ndarray]], np.ndarray | None]

    @property
    def function(self) -> Any:
        """The operator: one of `firstdiff.ops`."""
        return self.plan.function

    def run(self, plan: Plan | None = None) -> np.ndarray | None:
        """Return the row that the candidate would have with this operation; None if it cannot be computed."""
        try:
            return self.finish((plan or self.plan).run())
        except (ValueError, IndexError, UsageError):
            return None

    def with_plan(self, plan: Plan) -> Operation:
        """The same with the change made for good."""
        return replace(self, plan=plan)


_Part = tuple[slice, ...]


def operations_of(scene: Scene, place: int, part: _Part) -> tuple[Operation, ...]:
    """The operation of the row itself, then those before it that the candidate has no rows of.

    part: what is looked at of the row
    """
    row = scene.rows[place]
    if row.record is None or row.is_evidence:
        return ()
    try:
        segment = Segment(scene, place)
        if not segment.complete:
            return ()
        return tuple(_operation(scene, segment, step, part) for step in segment.steps())
    except (ReadError, ValueError):
        return ()


def _operation(scene: Scene, segment: Segment, step: Step, part: _Part) -> Operation:
    def finish(outputs: dict[str, np.ndarray]) -> np.ndarray | None:
        found = segment.result({step.place: outputs})
        return found[part] if found.ndim == len(part) else None

    key = scene.rows[step.place].key
    return Operation(key, step.record.op or "", segment.plan(step), segment.own_inputs, finish)
