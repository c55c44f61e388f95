"""The reference's operations from the last rows that the candidate also has to one of its rows, ready to run again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from firstdiff.diagnose.moving import Move, find_move
from firstdiff.diagnose.scene import Scene
from firstdiff.errors import ReadError
from firstdiff.ops import NotReplayable, Plan, plans, reproduce
from firstdiff.trace import Record

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
            raise ValueError(f"output {node.record.slot} is not one that is computed again")
        return outputs[node.record.slot]
