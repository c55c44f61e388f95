"""Judge rows on the candidate's own inputs: computed from the reference's first, to be trusted, then from its own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isfinite
from typing import TYPE_CHECKING, final

import numpy as np

from firstdiff import dtypes
from firstdiff.errors import ReadError
from firstdiff.locate.graph import RowGraph
from firstdiff.locate.operands import Operands, Values, coarsest
from firstdiff.schema import Isolated

if TYPE_CHECKING:  # the operators are many, and most comparisons need none of them
    from firstdiff.ops import NotReplayable, Plan, Replayed


_RECORD_BOTH = "record it in the candidate, too"
_LOOK_INSIDE = "capture with level='op' to record what happens inside it"
# a candidate's kernels round elsewhere than the reference's: this much more than the reference leaves over is healthy
_HEADROOM = 4.0
# nanoseconds on one core, float64: files opened and records read; elements converted, computed and compared
_OVERHEAD = 300_000
_EACH_ELEMENT = 30


@dataclass(frozen=True, slots=True)
class _Limit:
    dtype: np.dtype
    value: float


@final
class Replays:
    """Judges rows on the candidate's own inputs; each is judged once."""

    def __init__(self, graph: RowGraph) -> None:
        self._graph = graph
        self._values = Values(graph)
        self._known: dict[int, Isolated] = {}

    @property
    def values(self) -> Values:
        return self._values

    def judged(self, place: int) -> Isolated:
        """Whether the candidate's row is what its own inputs give."""
        if place not in self._known:
            try:
                self._known[place] = self._judge(place)
            except ReadError as error:
                self._known[place] = _unknown(str(error), _RECORD_BOTH)
        return self._known[place]

    def cost(self, place: int) -> int:
        """About how many nanoseconds it takes."""
        row = self._graph.rows[place]
        size = row.reference.source.size if row.reference and row.reference.source else 0
        places = self._values.slots(place).values() if row.role != "input" else ()
        sizes = [self._size(at) for at in places]
        name = row.name
        weights = [self._size(at) for at in self._values.weights(name)] if row.role != "input" else []
        width = max((shape[-1] for at in places if (shape := self._shape(at))), default=1)
        mixes = bool(weights and max(weights) > 2 * width) or row.op in ("matmul", "bmm", "einsum")
        products = size * width if mixes else 0
        return _OVERHEAD + _EACH_ELEMENT * (size + sum(sizes)) + products // 2

    def _judge(self, place: int) -> Isolated:
        row = self._graph.rows[place]
        if not row.compared or row.record is None or row.is_evidence:
            return _unknown("it was not compared", _RECORD_BOTH)
        if row.role == "input":
            return self._handed_on(place)
        passed = self._passed_through(place)
        if passed is not None:
            return self._identity(place, passed)
        return self._operation(place)

    def _handed_on(self, place: int) -> Isolated:
        """An input that is an earlier tensor must still be it in the candidate."""
        record = self._graph.rows[place].record
        fed = self._graph.direct[place].rows
        if record is None or not record.sources or record.attrs.get("view") or len(fed) != 1:
            return _unknown("the code that made it was not recorded", _LOOK_INSIDE)
        return self._identity(place, fed[0])

    def _passed_through(self, place: int) -> int | None:
        """The last thing that ran inside a container, if the container gives just that back."""
        inner = [at for at in self._graph.calls.of(place).inner if self._graph.rows[at].role != "input"]
        last = max((at for at in inner if at < place), default=None)
        if last is None:
            return None
        ours, theirs = self._values.reference(last), self._values.reference(place)
        return last if ours.shape == theirs.shape and np.array_equal(ours, theirs) else None

    def _identity(self, place: int, origin: int) -> Isolated:
        from firstdiff.ops import fit_limit, residual

        given, came = self._values.own(place), self._values.candidate(origin)
        key = self._graph.rows[origin].key
        if given is None or came is None:
            return _unknown(f"the candidate has no {key} to compare it with", _RECORD_BOTH)
        if not self._in_order(place, self._values.candidate_operands({"0": origin})):
            return _unknown(f"the candidate computes {key} later", "check how the two were paired")
        dtype = coarsest((given, came)) or given.dtype
        limit = _Limit(dtype, fit_limit(dtype))
        return _judgement(residual(given, came, dtype=dtype.name), limit, f"it is not {key}, which it should be")

    def _operation(self, place: int) -> Isolated:
        from firstdiff.ops import NotReplayable, plans, reproduce

        row = self._graph.rows[place]
        record = row.record
        assert record is not None, "rows that are judged have a record"
        if record.op is None:
            return _unknown("which operation it is was not recorded", "record op and attrs")
        slots = self._values.slots(place)
        params = self._values.params(record.name, record.parent)
        if params is None:
            return _unknown(f"{record.op} is made of parts that are judged on their own", _LOOK_INSIDE)
        ours = {slot: self._values.reference(at) for slot, at in slots.items()}
        expected = {record.slot: self._values.reference(place)}
        again = reproduce(record.op, record.attrs, ours, params, expected, name=row.key)
        if isinstance(again, NotReplayable):
            return _unknown(again.reason, again.record_next, lacks_params=again.lacks_params)
        theirs = self._values.candidate_operands(slots)
        own = self._values.own(place)
        if theirs.lost is not None or own is None:
            return _unknown(f"the candidate has no {theirs.lost or row.key} in this layout", _RECORD_BOTH)
        if not self._in_order(place, theirs):
            return _unknown("the candidate computes its inputs later", "check how the two were paired")
        params = self._values.params(record.name, record.parent, own.dtype) or {}
        candidate = _same_reading(plans(record.op, record.attrs, theirs.inputs, params, name=row.key), again)
        return self._against(place, own, theirs, candidate, again)

    def _against(
        self, place: int, own: np.ndarray, theirs: Operands, candidate: Plan | None, again: Replayed
    ) -> Isolated:
        from firstdiff.ops import residual

        record = self._graph.rows[place].record
        assert record is not None, "rows that are judged have a record"
        if candidate is None:
            return _unknown("the candidate's inputs do not fit the operation", _LOOK_INSIDE)
        try:
            computed = candidate.run().get(record.slot)
        except ValueError as error:
            return _unknown(f"the candidate's inputs do not fit the operation: {error}", _LOOK_INSIDE)
        if computed is None:
            return _unknown(f"output {record.slot} is not one that is computed again", _LOOK_INSIDE)
        limit = self._limit(place, own, theirs, again)
        text = f"computed again from the candidate's own inputs, {candidate.operator} gives something else"
        return _judgement(residual(own, computed, dtype=limit.dtype.name), limit, text)

    def _limit(self, place: int, own: np.ndarray, theirs: Operands, again: Replayed) -> _Limit:
        """What is left over of the reference is the measure, if both sides are of one type."""
        from firstdiff.ops import fit_limit

        row = self._graph.rows[place]
        reference = self._values.reference(place)  # whose weights are no finer than itself
        stored = [own, reference, *(array for array in theirs.inputs.values() if array.size)]
        was = row.candidate.record.attrs.get("dtype_was") if row.candidate else None
        dtype = coarsest(stored) or own.dtype
        if isinstance(was, str) and dtypes.known(was):
            dtype = max(dtype, dtypes.from_name(was), key=dtypes.eps_of)
        whole = fit_limit(dtype)
        if again.residual is None or not isfinite(again.residual) or not reference.dtype == own.dtype == dtype:
            return _Limit(dtype, whole)
        return _Limit(dtype, max(_HEADROOM * again.residual, whole / 4))

    def _in_order(self, place: int, theirs: Operands) -> bool:
        """Whether the candidate had its inputs before its output; if not, they were paired with something else."""
        candidate = self._graph.rows[place].candidate
        seq = candidate.record.seq if candidate else None
        return seq is None or theirs.latest is None or theirs.latest <= seq

    def _shape(self, place: int) -> tuple[int, ...]:
        tensor = self._graph.rows[place].reference
        return tensor.source.shape if tensor and tensor.source else ()

    def _size(self, place: int) -> int:
        return int(np.prod(self._shape(place), dtype=np.int64))


def _same_reading(found: tuple[Plan, ...] | NotReplayable, reference: Replayed) -> Plan | None:
    """The operation read as the reference's was, on other arrays."""
    from firstdiff.ops import NotReplayable

    if isinstance(found, NotReplayable):
        return None
    wanted = reference.plan
    alike = (plan for plan in found if plan.function is wanted.function and plan.settings == wanted.settings)
    plan = next(alike, None)
    return None if plan is None else replace(plan, rounding=wanted.rounding)


def _judgement(found: float, limit: _Limit, text: str) -> Isolated:
    if found <= limit.value:
        return Isolated(status="match", residual=found, limit=limit.value)
    reason = f"{text} ({found:.3g} steps of {limit.dtype.name} off, {limit.value:.3g} is rounding)"
    return Isolated(status="mismatch", residual=found, limit=limit.value, reason=reason)


def _unknown(reason: str, record_next: str, *, lacks_params: bool = False) -> Isolated:
    return Isolated(status="unknown", reason=reason, record_next=record_next, lacks_params=lacks_params)


def isolate(graph: RowGraph, replays: Replays | None = None) -> tuple[Isolated | None, ...]:
    """Judge each row on the candidate's own inputs; None for weights and for what only one side has."""
    replays = replays or Replays(graph)
    return tuple(
        replays.judged(place) if row.compared and not row.is_evidence else None for place, row in enumerate(graph.rows)
    )
