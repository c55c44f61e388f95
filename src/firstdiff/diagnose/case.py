"""One row that differs, and all that a hypothesis may want to know of it. Everything is read when first asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np

from firstdiff import dtypes
from firstdiff.diagnose.fit import Fit, Floor, noise_steps
from firstdiff.diagnose.nearby import Nearby
from firstdiff.diagnose.operation import Operation
from firstdiff.diagnose.reading import operations_of
from firstdiff.diagnose.sample import first_nonfinite, part_in_words, part_to_look_at
from firstdiff.diagnose.scene import Scene, as_recorded
from firstdiff.dtypes import doubles
from firstdiff.judge.tolerance import default_factor
from firstdiff.ops import Plan
from firstdiff.ops.residuals import fit_limit

# a candidate whose own inputs are known is held to this part of what a single operation may leave over at most
_OWN_INPUTS_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class Both:
    """One tensor on both sides, as recorded but in the reference's layout; a side that lacks it is None."""

    key: str
    reference: np.ndarray | None
    candidate: np.ndarray | None
    differs: bool


@final
class Case:
    """One row that differs.

    comparable: both sides have one shape, so that `reference`, `expected` and `candidate` can be asked for
    part, part_text: what is looked at of a large tensor, as slices and in words
    nearby: the rows around it
    shared: what several hypotheses want and only the first computes
    """

    def __init__(self, scene: Scene, place: int, operations: tuple[Operation, ...] | None = None) -> None:
        self._scene = scene
        self._place = place
        self._given = operations
        self.shared: dict[str, Any] = {}
        self.row = scene.rows[place]
        self.key = self.row.key
        self.name = self.row.name
        self.role = self.row.role
        sources = self.row.sources
        self.comparable = sources is not None and sources[0].shape == sources[1].shape
        shape = sources[1].shape if sources else ()
        self.part = part_to_look_at(shape, self._worst())
        self.part_text = part_in_words(shape, self.part)
        self.nearby = Nearby(scene, place, self.part)

    def _worst(self) -> tuple[int, ...]:
        """The index of what is furthest off: the first NaN or Inf that only the candidate has, if there is any."""
        metrics, sources = self.row.metrics, self.row.sources
        if metrics is None:
            return ()
        strange = metrics.nan_candidate + metrics.inf_candidate > metrics.nan_reference + metrics.inf_reference
        if strange and sources is not None and self.comparable:
            return first_nonfinite(sources[1].view(), sources[0].view()) or ()
        return tuple(metrics.argmax or ())

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
        elif self.row.systematic is not None and self.row.systematic.failed:
            # each element may be within rounding, yet all of them together are not
            steps = min(steps, noise_steps(self.expected, self.candidate, self.dtype))
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
            name: Both(row.key, as_recorded(row.reference), as_recorded(row.candidate), row.differs)
            for name, row in rows.items()
        }

    def hidden(self) -> Iterator[Case]:
        """Rows that lead to this one and were let pass, and yet are not what they should be, the earliest first."""
        if not self.own_inputs or self.fit(self.reference).reaches_floor:
            return
        for at in sorted(self.nearby.let_pass()):
            case = Case(self._scene, at)
            if case.comparable and not case.unexplained.reaches_floor:
                yield case

    def floor_of(self, values: np.ndarray) -> Floor:
        """What counts as the same as other values of the candidate."""
        return Floor(values, self.dtype, default_factor(*(source.dtype for source in self.row.sources or ())))

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
        return Both(row.key, reference, values.candidate(place) if row.compared else None, row.differs)
