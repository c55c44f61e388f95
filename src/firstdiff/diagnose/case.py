"""A row under diagnosis: its values, inputs, weights and a sample of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, TypeVar, final

import numpy as np

from firstdiff import dtypes
from firstdiff.diagnose.hypothesis import Fit, Floor, noise_steps
from firstdiff.diagnose.rows import Nearby, Scene, as_recorded
from firstdiff.diagnose.segment import Operation, operations_of
from firstdiff.dtypes import doubles
from firstdiff.judge.special_values import filler_places
from firstdiff.judge.tolerance import default_factor
from firstdiff.locate.operation import is_of_each_element, rounds_once
from firstdiff.ops import Plan
from firstdiff.ops.residuals import fit_limit
from firstdiff.trace import Tensor

_Derived = TypeVar("_Derived")

MOST_ELEMENTS = 1 << 16
# the fewest tokens that tell masks, positions and shifts apart
_KEPT_OF_AN_AXIS = 64


def part_to_look_at(shape: tuple[int, ...], worst: Sequence[int] = (), most: int = MOST_ELEMENTS) -> tuple[slice, ...]:
    """Choose slices that leave at most about `most` elements; the last axis stays whole, the first are cut first.

    worst: the index of an element that must be in the part; the part is the leading one if it is, or if none is given
    """
    kept = list(shape)
    for least in (_KEPT_OF_AN_AXIS, 1):
        for axis in range(len(kept) - 1):
            if prod(kept) > most:
                others = prod(kept) // kept[axis]
                kept[axis] = min(kept[axis], max(least, most // max(1, others), 1))
    if prod(kept) > most and kept:
        kept[-1] = max(1, most // max(1, prod(kept[:-1])))
    at = tuple(worst) if len(worst) == len(shape) else (0,) * len(shape)
    starts = [
        min(index // size * size, whole - size) for index, size, whole in zip(at, kept, shape, strict=True) if size
    ]
    starts = starts if len(starts) == len(kept) else [0] * len(kept)
    return tuple(slice(start, start + size) for start, size in zip(starts, kept, strict=True))


def first_nonfinite(candidate: np.ndarray, reference: np.ndarray) -> tuple[int, ...] | None:
    """Find the first NaN or Inf of one side where the other has a number, slice by slice."""
    for at in range(len(candidate)) if candidate.ndim > 1 else ():
        inner = first_nonfinite(candidate[at], reference[at])
        if inner is not None:
            return (at, *inner)
    if candidate.ndim != 1:
        return None
    strange = ~np.isfinite(candidate) & np.isfinite(reference)
    return (int(strange.argmax()),) if strange.any() else None


def part_in_words(shape: tuple[int, ...], part: tuple[slice, ...]) -> str | None:
    """Describe a part of a tensor; None where it is the whole."""
    cut = [
        f"{'the first ' if taken.start == 0 else f'{taken.start} to '}{taken.stop} of {size} along axis {axis}"
        for axis, (size, taken) in enumerate(zip(shape, part, strict=True))
        if taken.stop - taken.start < size
    ]
    return " and ".join(cut) or None


# with its own inputs known, a candidate must come within this part of an operation's limit
_OWN_INPUTS_SHARE = 0.5
_FEW_BEFORE = 4


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
    """

    def __init__(
        self,
        scene: Scene,
        place: int,
        operations: tuple[Operation, ...] | None = None,
        predicted: tuple[np.ndarray, bool] | None = None,
    ) -> None:
        """Prepare a row.

        operations: those that may have made the row, if that is known already
        predicted: what is expected of the row, and if that was computed from the candidate's own inputs, if known
        """
        self._scene = scene
        self._place = place
        self._given = operations
        self._predicted = predicted
        self._derived: dict[Callable[[Case], Any], Any] = {}
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
        """Index of the largest difference, or of the first NaN or Inf that only the candidate has."""
        metrics, sources = self.row.metrics, self.row.sources
        if metrics is None:
            return ()
        strange = metrics.nan_candidate + metrics.inf_candidate > metrics.nan_reference + metrics.inf_reference
        if strange and sources is not None and self.comparable:
            return first_nonfinite(sources[1].view(), sources[0].view()) or ()
        return tuple(metrics.argmax or ())

    @property
    def slot(self) -> str:
        """Slot among the inputs or outputs of its call."""
        return self.row.record.slot if self.row.record else ""

    @property
    def op(self) -> str | None:
        """The kind of operation, as the reference recorded it."""
        return self.row.record.op if self.row.record else None

    @property
    def around_op(self) -> str | None:
        """The kind of module whose code this row is part of, as the reference recorded it."""
        outer = self._scene.graph.calls.around(self._place)
        return self._scene.rows[outer.outputs[0]].op if outer is not None and outer.outputs else None

    @property
    def inputs_match(self) -> bool:
        """True if all that was recorded of what goes into the call was compared and matches."""
        inputs = self._scene.graph.calls.of(self._place).inputs
        return bool(inputs) and all(self._scene.rows[at].status == "match" for at in inputs)

    @cached_property
    def attrs(self) -> Mapping[str, Any]:
        """The reference's recorded attributes."""
        return self._scene.attrs(self._place, "reference")

    @cached_property
    def candidate_attrs(self) -> Mapping[str, Any]:
        """The candidate's recorded attributes, if any; evidence, never proof."""
        return self._scene.attrs(self._place, "candidate")

    @cached_property
    def dtype(self) -> np.dtype:
        """The coarser dtype of both sides."""
        assert self.row.sources, "only what is comparable has values in one layout"
        return max((source.dtype for source in self.row.sources), key=dtypes.eps_of)

    @property
    def reference_dtype(self) -> np.dtype:
        assert self.row.sources, "only what is comparable has values in one layout"
        return self.row.sources[0].dtype

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
        return self._with_fillers_of_reference(self._values(1))

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

    def derived(self, make: Callable[[Case], _Derived]) -> _Derived:
        """Return what `make` computes of this case; hypotheses share it, and only the first computes it."""
        if make not in self._derived:
            self._derived[make] = make(self)
        made: _Derived = self._derived[make]
        return made

    @cached_property
    def expected(self) -> np.ndarray:
        """The correct values: the reference's operation on the candidate's own inputs where it can be computed again,
        so that earlier errors do not count; else the reference's values.
        """
        return self._expected[0]

    @property
    def own_inputs(self) -> bool:
        """True if `expected` was computed from the candidate's own inputs."""
        return self._expected[1]

    @cached_property
    def _expected(self) -> tuple[np.ndarray, bool]:
        if self._predicted is not None:
            return self._predicted
        for operation in self.operations:
            again = operation.run()
            if operation.own_inputs and again is not None and again.shape == self.candidate.shape:
                return self._with_fillers_of_reference(again), True
        return self.reference, False

    def _with_fillers_of_reference(self, values: np.ndarray) -> np.ndarray:
        """Return values with the reference's number wherever a mask hides both: -inf is no overflow of -1e9."""
        judged, tolerance = self.row.systematic, self.row.tolerance
        if judged is None or not judged.hidden or (tolerance is not None and tolerance.rule != "default"):
            return values
        places = filler_places(self.reference, values)
        return values if places is None else np.where(places.hidden, self.reference, values)

    @cached_property
    def floor(self) -> Floor:
        """The noise floor that a prediction of the candidate's values must reach."""
        steps = default_factor(*(source.dtype for source in self.row.sources or ()))
        if self.own_inputs and not any("held_in" in operation.plan.settings for operation in self.operations):
            steps = min(steps, _OWN_INPUTS_SHARE * fit_limit(self.dtype))
        if self.row.systematic is not None and self.row.systematic.failed:
            # every element may be within rounding while all together are not
            steps = min(steps, noise_steps(self.expected, self.candidate, self.dtype, self.own_inputs))
            floor = Floor(self.candidate, self.dtype, steps)
            return self._stricter(steps) if floor.fit(self.expected).reaches_floor else floor
        return Floor(self.candidate, self.dtype, steps)

    def _stricter(self, steps: float) -> Floor:
        """Return a floor that sees what no element shows alone, where one operation on own inputs leads here."""
        functions = [operation.function for operation in self.operations if operation.own_inputs]
        once = self.own_inputs and len(functions) == len(self.operations) == 1 and rounds_once(functions[0])
        each = once and is_of_each_element(functions[0])
        return Floor(self.candidate, self.dtype, steps, rounded_once=once, each_element=each)

    def fit(self, predicted: np.ndarray) -> Fit:
        """Fit a prediction to the candidate's values; it reaches the floor if `fit.worst` is at most 1."""
        return self.floor.fit(predicted)

    def fit_of(self, operation: Operation, plan: Plan) -> Fit | None:
        """Fit the result of a changed operation to the candidate's values; None if it cannot be computed."""
        predicted = operation.run(plan)
        return None if predicted is None else self.fit(predicted)

    @cached_property
    def unexplained(self) -> Fit:
        """Fit of `expected`, before any explanation."""
        return self.fit(self.expected)

    def falls_to(self, fit: Fit) -> str:
        """Say to what the greatest difference falls: the second half of a sentence of evidence."""
        if self.floor.rounded_once and fit.reaches_floor:
            worst = self.unexplained.worst
            return f"the difference falls from {worst:.2g} times what one rounding leaves to within one rounding"
        return f"the greatest difference falls from {self.unexplained.max_abs:.2g} to {fit.max_abs:.2g}"

    @cached_property
    def operations(self) -> tuple[Operation, ...]:
        """The reference's operations that lead to this row and can be computed again, nearest first."""
        return operations_of(self._scene, self._place, self.part) if self._given is None else self._given

    @cached_property
    def inputs(self) -> Mapping[str, Both]:
        """The inputs of the operation by slot."""
        slots = self._scene.values.slots(self._place) if self.role != "input" else {}
        return {slot: self._both(at) for slot, at in slots.items()}

    @cached_property
    def sources(self) -> tuple[Both, ...]:
        """Compared tensors the row was computed from, as recorded."""
        return tuple(self._both(at) for at in self._scene.graph.compared[self._place].rows)

    @property
    def sources_guessed(self) -> bool:
        """True if no inputs were recorded, and `sources` are the rows before."""
        return self._scene.graph.compared[self._place].guessed

    def before(self) -> tuple[Both, ...]:
        """Return the few compared rows just before this one, the nearest first."""
        places = range(self._place - 1, max(-1, self._place - 1 - _FEW_BEFORE), -1)
        return tuple(self._both(at) for at in places if not self._scene.rows[at].is_evidence)

    @cached_property
    def params(self) -> Mapping[str, Both]:
        """The weights of the operation by the names it has for them."""
        rows = self._scene.param_rows(self._place)
        return {
            name: Both(row.key, as_recorded(row.reference), as_recorded(row.candidate), row.differs)
            for name, row in rows.items()
        }

    @cached_property
    def candidate_operands(self) -> Mapping[str, Tensor]:
        """Tensors that the candidate's own node read, by slot."""
        return self._operands(self.row.candidate, 1)

    def reference_operand(self, slot: str) -> np.ndarray | None:
        """Return the tensor that the reference's node read in a slot, as recorded."""
        return as_recorded(self.reference_operands.get(slot))

    @cached_property
    def reference_operands(self) -> Mapping[str, Tensor]:
        """Tensors that the reference's own node read, by slot."""
        return self._operands(self.row.reference, 0)

    def is_paired(self, tensor: Tensor) -> bool:
        """True for a tensor of the candidate that has a partner in the reference."""
        return tensor.record.seq in self._scene.paired

    def sources_of(self, tensor: Tensor) -> tuple[Tensor | None, ...]:
        """Return the tensors that a tensor of the candidate was computed from."""
        return tuple(self._scene.by_seq[1].get(seq) for seq in tensor.record.sources)

    def _operands(self, tensor: Tensor | None, side: int) -> dict[str, Tensor]:
        slots = tensor.record.attrs.get("inputs") if tensor is not None else None
        if tensor is None or not isinstance(slots, list) or len(slots) != len(tensor.record.sources):
            return {}
        found = (self._scene.by_seq[side].get(seq) for seq in tensor.record.sources)
        return {str(slot): item for slot, item in zip(slots, found, strict=True) if item is not None}

    def hidden(self) -> Iterator[Case]:
        """Matching rows before this one that carry an error within their tolerance, the earliest first."""
        if not self.own_inputs or self.fit(self.reference).reaches_floor:
            return
        for at in sorted(self.nearby.let_pass()):
            case = Case(self._scene, at)
            if case.comparable and not case.unexplained.reaches_floor:
                yield case

    def floor_of(self, values: np.ndarray) -> Floor:
        """Return the noise floor of other values of the candidate."""
        return Floor(values, self.dtype, default_factor(*(source.dtype for source in self.row.sources or ())))

    def after(self, predicted: np.ndarray | None, operation: Operation | None) -> Case:
        """Return the case with one cause taken away, to look for a second."""
        operations = (operation,) if operation else ()
        return Case(self._scene, self._place, operations, None if predicted is None else (predicted, self.own_inputs))

    def _values(self, side: int) -> np.ndarray:
        assert self.row.sources, "only what is comparable has values in one layout"
        return doubles(self.row.sources[side].view()[self.part])

    def _both(self, place: int) -> Both:
        row, values = self._scene.rows[place], self._scene.values
        reference = None if row.reference is None or row.reference.source is None else values.reference(place)
        return Both(row.key, reference, values.candidate(place) if row.compared else None, row.differs)
