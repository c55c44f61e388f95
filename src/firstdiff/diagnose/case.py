"""One row that differs, and all that a hypothesis may want to know of it. Everything is read when first asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np

from firstdiff import dtypes
from firstdiff.diagnose.fit import Fit, Floor
from firstdiff.diagnose.operation import Operation
from firstdiff.diagnose.reading import operations_of
from firstdiff.diagnose.sample import part_in_words, part_to_look_at
from firstdiff.diagnose.scene import Scene, as_recorded
from firstdiff.dtypes import doubles
from firstdiff.judge.tolerance import default_factor
from firstdiff.locate import Row
from firstdiff.ops import Plan
from firstdiff.ops.residuals import fit_limit
from firstdiff.schema import Pair

# a candidate whose own inputs are known is held to this part of what a single operation may leave over at most
_OWN_INPUTS_SHARE = 0.5
# how far back equal values are looked for
_MOST_EARLIER = 512
# how many rows that match are looked at for an error that was let pass
_MOST_LET_PASS = 24
# from the scale of scores to their softmax, inputs counted
_FEW_STEPS = 8


@dataclass(frozen=True, slots=True)
class Both:
    """One tensor on both sides, as recorded but in the reference's layout; a side that lacks it is None."""

    key: str
    reference: np.ndarray | None
    candidate: np.ndarray | None
    differs: bool


@dataclass(frozen=True, slots=True)
class Beside:
    """The reference's part of another input, or output, of the same call, float64, cut like the case is."""

    key: str
    slot: str
    reference: np.ndarray


@dataclass(frozen=True, slots=True)
class Earlier:
    """The candidate's part of a row that comes before the case, float64, cut like the case is."""

    key: str
    name: str
    op: str | None
    candidate: np.ndarray
    reference: np.ndarray


@final
class Case:
    """One row that differs.

    comparable: both sides have one shape, so that `reference`, `expected` and `candidate` can be asked for
    """

    def __init__(self, scene: Scene, place: int, operations: tuple[Operation, ...] | None = None) -> None:
        self._scene = scene
        self._place = place
        self._given = operations
        self.shared: dict[str, Any] = {}  # what several hypotheses want and only the first computes
        self.row = scene.rows[place]
        self.pair: Pair = self.row.pair
        self.key = self.pair.key
        self.name = self.pair.name
        self.role = self.pair.role
        sources = self.row.sources
        self.comparable = sources is not None and sources[0].shape == sources[1].shape
        shape = sources[1].shape if sources else ()
        metrics = self.pair.metrics
        self.part = part_to_look_at(shape, (metrics.argmax or ()) if metrics else ())
        self.part_text = part_in_words(shape, self.part)

    @property
    def slot(self) -> str:
        """Which of the inputs or outputs of its call it is."""
        return self.row.record.slot if self.row.record else ""

    @property
    def op(self) -> str | None:
        """The kind of operation, as the reference recorded it."""
        return self.row.record.op if self.row.record else None

    @cached_property
    def attrs(self) -> Mapping[str, Any]:
        """The reference's recorded attributes."""
        return self._scene.attrs(self._place, "reference")

    @cached_property
    def candidate_attrs(self) -> Mapping[str, Any]:
        """The candidate's recorded attributes; none in a port that does not record them. Evidence, never proof."""
        return self._scene.attrs(self._place, "candidate")

    @cached_property
    def dtype(self) -> np.dtype:
        """The coarser of both sides' types."""
        assert self.row.sources, "only what is comparable has values in one layout"
        return max((source.dtype for source in self.row.sources), key=dtypes.eps_of)

    @property
    def candidate_dtype(self) -> np.dtype:
        assert self.row.sources, "only what is comparable has values in one layout"
        return self.row.sources[1].dtype

    @cached_property
    def reference(self) -> np.ndarray:
        """The reference's values, float64, in one layout with `candidate`; a part of a large tensor."""
        return self._values(0)

    @cached_property
    def candidate(self) -> np.ndarray:
        """The candidate's values, float64; a part of a large tensor (`part_text` says which)."""
        return self._values(1)

    @cached_property
    def candidate_as_recorded(self) -> np.ndarray | None:
        """The candidate's tensor whole, in its own layout and type."""
        return as_recorded(self.row.candidate)

    @property
    def candidate_whole(self) -> np.ndarray | None:
        """The candidate's tensor whole, in the layout of `candidate`; None for inputs that nothing computes."""
        return self.row.sources[1].view() if self.comparable and self.row.sources else None

    @cached_property
    def reference_as_recorded(self) -> np.ndarray | None:
        """The reference's tensor whole, in its own layout and type."""
        return as_recorded(self.row.reference)

    @cached_property
    def expected(self) -> np.ndarray:
        """What the candidate should have: the reference's operation on the candidate's own inputs, where it can be
        computed again, so that what was wrong before does not blur the picture; else the reference's values.
        """
        return self._expected[0]

    @property
    def own_inputs(self) -> bool:
        """Whether `expected` was computed from the candidate's own inputs."""
        return self._expected[1]

    @cached_property
    def _expected(self) -> tuple[np.ndarray, bool]:
        for operation in self.operations:
            again = operation.run()
            if operation.own_inputs and again is not None and again.shape == self.candidate.shape:
                return again, True
        return self.reference, False

    @cached_property
    def floor(self) -> Floor:
        """What counts as the same here."""
        steps = default_factor(*(source.dtype for source in self.row.sources or ()))
        if self.own_inputs:
            steps = min(steps, _OWN_INPUTS_SHARE * fit_limit(self.dtype))
        return Floor(self.candidate, self.dtype, steps)

    def fit(self, predicted: np.ndarray) -> Fit:
        """How well a prediction of the candidate's values fits them; `fit.worst` up to 1 is down to the floor."""
        return self.floor.fit(predicted)

    def fit_of(self, operation: Operation, plan: Plan) -> Fit | None:
        """How well the candidate fits an operation with something changed; None where it cannot be computed."""
        predicted = operation.run(plan)
        return None if predicted is None else self.fit(predicted)

    @cached_property
    def unexplained(self) -> Fit:
        """What is to be explained: `expected` against the candidate."""
        return self.fit(self.expected)

    def falls_to(self, fit: Fit) -> str:
        """The second half of a sentence of evidence: what a change does to the greatest difference."""
        return f"the greatest difference falls from {self.unexplained.max_abs:.2g} to {fit.max_abs:.2g}"

    @cached_property
    def operations(self) -> tuple[Operation, ...]:
        """The reference's operations that lead to this row and can be computed again, nearest first."""
        return operations_of(self._scene, self._place, self.part) if self._given is None else self._given

    @cached_property
    def inputs(self) -> Mapping[str, Both]:
        """What went into the operation, by slot."""
        slots = self._scene.values.slots(self._place) if self.role != "input" else {}
        return {slot: self._both(at) for slot, at in slots.items()}

    @cached_property
    def sources(self) -> tuple[Both, ...]:
        """Every compared tensor the row was computed from, as far as the records tell."""
        return tuple(self._both(at) for at in self._scene.graph.compared[self._place].rows)

    @property
    def sources_guessed(self) -> bool:
        """The records do not tell what the row was computed from: `sources` are what came before it."""
        return self._scene.graph.compared[self._place].guessed

    @cached_property
    def params(self) -> Mapping[str, Both]:
        """The weights of the operation by the names it has for them."""
        rows = self._scene.param_rows(self._place)
        return {
            name: Both(row.pair.key, as_recorded(row.reference), as_recorded(row.candidate), row.differs)
            for name, row in rows.items()
        }

    def earlier(self) -> Iterator[Earlier]:
        """Rows of the same shape that come before this one, the last first."""
        shape = self.row.sources[1].shape if self.row.sources else None
        for at in range(self._place - 1, max(-1, self._place - 1 - _MOST_EARLIER), -1):
            row = self._scene.rows[at]
            if row.is_evidence or row.sources is None or not row.sources[0].shape == row.sources[1].shape == shape:
                continue
            ours, theirs = (doubles(source.view()[self.part]) for source in row.sources)
            yield Earlier(row.pair.key, row.pair.name, row.record.op if row.record else None, theirs, ours)

    def hidden(self) -> Iterator[Case]:
        """Rows that lead to this one and were let pass, and yet are not what they should be, the earliest first."""
        if not self.own_inputs or self.fit(self.reference).reaches_floor:
            return
        for at in sorted(self._let_pass()):
            case = Case(self._scene, at)
            if case.comparable and not case.unexplained.reaches_floor:
                yield case

    def _let_pass(self) -> set[int]:
        found, left = set[int](), [self._place]
        while left and len(found) < _MOST_LET_PASS:
            for at in self._scene.graph.compared[left.pop(0)].rows:
                row = self._scene.rows[at]
                if at not in found and not row.differs and not row.is_evidence:
                    found.add(at)
                    left.append(at)
        return found

    def leads_to(self, op: str) -> bool:
        """Whether the code that computes the row goes on with an operation of this kind, a few steps later."""
        outer = self._scene.graph.calls.around(self._place)
        after = [at for at in outer.inner if at > self._place][:_FEW_STEPS] if outer else []
        return any(self._scene.rows[at].pair.op == op for at in after)

    @cached_property
    def left_out(self) -> bool:
        """Whether the candidate ran nothing of what the reference runs inside this module."""
        record = self.row.record
        if record is None or self.row.is_evidence or self.role == "input":
            return False
        inside = [row for row in self._scene.rows if self._is_inside(row)]
        return bool(inside) and not any(row.candidate for row in inside)

    def _is_inside(self, row: Row) -> bool:
        return not row.is_evidence and row.reference is not None and row.pair.name.startswith(f"{self.name}.")

    @cached_property
    def around(self) -> str:
        """The class of the module whose code computes the row, as far as it was recorded."""
        outer = self._scene.graph.calls.around(self._place)
        at = next(iter([*outer.outputs, *outer.inputs]), None) if outer else None
        return "" if at is None else self._scene.rows[at].pair.op or ""

    def run_again(self) -> Iterator[tuple[str, np.ndarray]]:
        """What the candidate gave to the parts of this module in calls that the reference does not have."""
        inside = f"{self.name}."
        shape = self.candidate.shape
        known = {row.pair.name for row in self._scene.rows if row.reference is not None}
        for row in self._scene.rows:
            record = row.candidate.record if row.candidate else None
            if row.pair.status != "extra" or record is None or not record.name.startswith(inside):
                continue
            if record.name not in known:
                continue
            values = as_recorded(row.candidate) if record.role == "input" else None
            if values is not None and values.ndim == len(self.part) and values[self.part].shape == shape:
                yield row.pair.key, doubles(values[self.part])

    def floor_of(self, values: np.ndarray) -> Floor:
        """What counts as the same as other values of the candidate."""
        return Floor(values, self.dtype, default_factor(*(source.dtype for source in self.row.sources or ())))

    def beside(self) -> Iterator[Beside]:
        """The other inputs of the same call, or the other outputs, that have the shape of this one."""
        if self.row.record is None or self.row.is_evidence:
            return
        call = self._scene.graph.calls.of(self._place)
        for at in call.inputs if self.role == "input" else call.outputs:
            row = self._scene.rows[at]
            there = row.reference is not None and row.reference.source is not None and row.record is not None
            if at == self._place or not there or row.record is None:
                continue
            values = self._scene.values.reference(at)
            if values.ndim == len(self.part):
                yield Beside(row.pair.key, row.record.slot, doubles(values[self.part]))

    def after(self, predicted: np.ndarray | None, operation: Operation | None) -> Case:
        """The same case with one cause taken away, to look for a second."""
        rest = Case(self._scene, self._place, (operation,) if operation else ())
        if predicted is not None:
            rest.__dict__["_expected"] = (predicted, self.own_inputs)
        return rest

    def _values(self, side: int) -> np.ndarray:
        assert self.row.sources, "only what is comparable has values in one layout"
        return doubles(self.row.sources[side].view()[self.part])

    def _both(self, place: int) -> Both:
        row, values = self._scene.rows[place], self._scene.values
        reference = None if row.reference is None or row.reference.source is None else values.reference(place)
        return Both(row.pair.key, reference, values.candidate(place) if row.compared else None, row.differs)
