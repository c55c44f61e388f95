"""Judge rows by replaying their operations: on the reference's inputs to confirm them, then on the candidate's own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import isfinite, prod
from typing import TYPE_CHECKING, final

import numpy as np

from firstdiff import dtypes
from firstdiff.errors import ReadError
from firstdiff.judge.alone import parts_alone
from firstdiff.locate.conditioning import ill_conditioned
from firstdiff.locate.graph import Call, RowGraph
from firstdiff.locate.operands import Operands, Values, coarsest
from firstdiff.locate.operation import (
    BY_ITSELF,
    Limit,
    is_of_each_element,
    is_recurrent,
    judged_output,
    judgement,
    rounds_once,
    unknown,
)
from firstdiff.schema import Isolated
from firstdiff.trace.views import view_of

if TYPE_CHECKING:  # the operators are many, and most comparisons need none of them
    from firstdiff.ops import NotReplayable, Plan, Replayed


_RECORD_BOTH = "record it in the candidate, too"
_LOOK_INSIDE = "capture with level='op' to record what happens inside it"
# a candidate's kernels round elsewhere than the reference's: this much more than the reference leaves over is healthy
_HEADROOM = 4.0
_LEAST_SHARE = 4.0  # of the limit of all operations: less than this fourth is rounding in any of them
# nanoseconds on one core, float64: files opened and records read; elements converted, computed and compared
_OVERHEAD = 150_000
_EACH_ELEMENT = 12
_EACH_COPIED = 4
_OF_PRODUCTS = 6  # of them in a nanosecond
_EACH_STEP = 50_000  # of a recurrent layer
_OF_TWO = ("matmul", "bmm", "einsum")
_MOST_INNER = 24  # of what ran inside a container: its outputs are among the last


@final
class Replays:
    """Judges rows on the candidate's own inputs; each is judged once.

    earlier: those of the same rows with other verdicts, which hold
    """

    def __init__(self, graph: RowGraph, earlier: Replays | None = None) -> None:
        self._graph = graph
        self._values = Values(graph)
        self._known: dict[int, Isolated] = {} if earlier is None else self._that_hold(earlier._known)
        self._candidate_parents = {row.candidate.record.parent for row in graph.rows if row.candidate is not None}

    @property
    def values(self) -> Values:
        return self._values

    def _that_hold(self, known: Mapping[int, Isolated]) -> dict[int, Isolated]:
        """Return the judgements that no operand denies which turned out to be written differently."""
        apart = {place for place, row in enumerate(self._graph.rows) if row.status == "rewritten"}
        if not apart:
            return dict(known)
        return {
            place: judged
            for place, judged in known.items()
            if place not in apart and apart.isdisjoint(self._values.slots(place).values())
            if apart.isdisjoint(self._graph.direct[place].rows)
        }

    def judged(self, place: int) -> Isolated:
        """Judge if the candidate's row is the result of its own inputs."""
        if place not in self._known:
            try:
                self._known[place] = self._judge(place)
            except ReadError as error:
                self._known[place] = unknown(str(error), _RECORD_BOTH)
        return self._known[place]

    def inherits_nothing(self, place: int) -> bool:
        """True if the exact results of both sides' inputs are near: what makes the row differ is its own rounding."""
        from firstdiff.ops import NotReplayable, plans, reproduce

        record = self._graph.rows[place].record
        if record is None or record.op is None or record.role == "input":
            return False
        slots = self._values.slots(place)
        params = self._values.params(record.name, record.parent)
        if params is None:
            return False
        reference = self._values.reference(place)
        given = {slot: self._values.reference(at) for slot, at in slots.items()}
        again = reproduce(record.op, record.attrs, given, params, {record.slot: reference}, name=record.name)
        cand = self._values.candidate_operands(slots)
        if isinstance(again, NotReplayable) or cand.lost is not None:
            return False
        plan = _same_reading(plans(record.op, record.attrs, cand.inputs, params, name=record.name), again)
        try:
            came = plan.run().get(record.slot) if plan is not None else None
        except ValueError:
            return False
        meant = again.outputs.get(record.slot)
        if came is None or meant is None or came.shape != meant.shape:
            return False
        return not parts_alone(meant, came, reference.dtype, once=False)

    def cost(self, place: int) -> int:
        """About how many nanoseconds judging a row takes."""
        return 0 if place in self._known else self.operation_cost(place)

    def operation_cost(self, place: int) -> int:
        """About how many nanoseconds it takes to compute a row again."""
        row = self._graph.rows[place]
        size = row.reference.source.size if row.reference and row.reference.source else 0
        places = list(self._values.slots(place).values()) if row.role != "input" else []
        sizes = [self._size(at) for at in places]
        if row.role == "input":
            return _OVERHEAD + _EACH_COPIED * size
        if (row.record is None or row.record.op is None) and not self._graph.calls.of(place).inner:
            return 0  # plain files: there is nothing to compute again
        weights = self._values.weights(row.name)
        if is_recurrent(row.op):
            tokens = max(sizes, default=0) // max((shape[-1] for at in places if (shape := self._shape(at))), default=1)
            products = 6 * tokens * (sum(map(self._size, weights)) + _EACH_STEP * len(weights))
        else:
            products = size * self._terms(row.op or "", [self._shape(at) for at in weights], places)
        return _OVERHEAD + _EACH_ELEMENT * (size + sum(sizes)) + products // _OF_PRODUCTS

    def _terms(self, op: str, weights: Sequence[tuple[int, ...]], places: Iterable[int]) -> int:
        """Return the number of products that each element of a result is the sum of."""
        if op in _OF_TWO:
            return max((shape[-1] for at in places if (shape := self._shape(at))), default=0)
        if "Embedding" in op:
            return 0
        return max((prod(shape[1:]) for shape in weights if len(shape) > 1), default=0)

    def _judge(self, place: int) -> Isolated:
        row = self._graph.rows[place]
        if not row.compared or row.record is None or row.is_evidence:
            return unknown("it was not compared", _RECORD_BOTH)
        if row.role == "input":
            return self._handed_on(place)
        passed = self._passed_through(place)
        if passed is None:
            return self._operation(place)
        if self._graph.rows[passed].compared:
            return self._identity(place, passed)
        whole = self._operation(place)  # the candidate writes the module differently, which may do the same
        return whole if whole.status != "unknown" else self._identity(place, passed)

    def _handed_on(self, place: int) -> Isolated:
        """An input that is an earlier tensor, or a view of one, must still be it in the candidate."""
        record = self._graph.rows[place].record
        fed = self._graph.direct[place].rows
        if record is not None and record.sources and len(fed) == 1:
            return self._identity(place, self._before_rewritten(fed[0]))
        outer = self._graph.calls.around(place)
        # heads that are joined again are a copy, which has no recorded origin
        copied = None if outer is None or record is None or record.sources else self._made_in(outer, place)
        if copied is None:
            return unknown("it was computed by code that was not recorded", _LOOK_INSIDE)
        return self._identity(place, copied)

    def _before_rewritten(self, place: int) -> int:
        """Return a tensor, or what handed it down if the pair of it turned out to be none."""
        while self._graph.rows[place].status == "rewritten" and self._graph.rows[place].role == "input":
            fed = self._graph.direct[place].rows
            if len(fed) != 1:
                break
            place = fed[0]
        return place

    def _passed_through(self, place: int) -> int | None:
        """Find what ran inside a container and is given back by it as it is, or as a view."""
        return self._made_in(self._graph.calls.of(place), place)

    def _made_in(self, call: Call, place: int) -> int | None:
        """Find the last result of what ran in a call before a row that is the row as it is, or as a view."""
        inner = [at for at in call.inner if at < place and self._graph.rows[at].role != "input"]
        if not inner:
            return None
        result, is_input = self._values.reference(place), self._graph.rows[place].role == "input"
        for at in sorted(inner, reverse=True)[:_MOST_INNER]:
            size = self._size(at)  # what heads share is repeated for each of them
            fits = size == result.size or (is_input and 0 < size < result.size and not result.size % size)
            if fits and view_of(self._values.reference(at), result) is not None:
                return at
        return None

    def _identity(self, place: int, origin: int) -> Isolated:
        from firstdiff.ops import fit_limit, residual

        given, came = self._values.own(place), self._values.candidate(origin)
        key = self._graph.rows[origin].key
        if given is None or came is None:
            return unknown(f"the candidate has no {key} to compare it with", _RECORD_BOTH)
        if not self._in_order(place, self._values.candidate_operands({"0": origin})):
            return unknown(f"the candidate computes {key} later", "check how the two were paired")
        seen = view_of(self._values.reference(origin), self._values.reference(place))
        if seen is None:
            return unknown(f"which part of {key} it is was not recorded", _LOOK_INSIDE)
        came = seen(came)
        dtype = coarsest((given, came)) or given.dtype
        limit = Limit(dtype, fit_limit(dtype))
        text = f"it is not {key}, which it should be"
        judged = judgement(residual(given, came, dtype=dtype.name), limit, text)
        parts = parts_alone(came, given, dtype) if judged.status == "match" and judged.residual else ()
        return replace(judged, status="mismatch", reason=f"{text}: {parts[0].text}") if parts else judged

    def _without_operator(self, place: int, slots: Mapping[str, int], again: NotReplayable) -> Isolated:
        reason = None if again.nearest is None else self._ill_conditioned(place, again.nearest)
        if reason is not None:
            return Isolated(status="unknown", reason=reason, ill_conditioned=True)
        moved = self._moved_input(place, slots)
        judged = None if moved is None else self._identity(place, moved)
        if judged is not None and (judged.status == "mismatch" or not judged.residual):
            return judged  # what only moves values leaves every bit of them
        return unknown(again.reason, again.record_next, lacks_params=again.lacks_params)

    def _moved_input(self, place: int, slots: Mapping[str, int]) -> int | None:
        """Find the input that a module only brings into another shape or order of axes, as einops' Rearrange does."""
        result = self._values.reference(place)
        whole = (at for at in slots.values() if self._size(at) == result.size > 1)
        return next((at for at in whole if view_of(self._values.reference(at), result) is not None), None)

    def _operation(self, place: int) -> Isolated:
        from firstdiff.ops import NotReplayable, plans, reproduce

        row = self._graph.rows[place]
        record = row.record
        assert record is not None, "rows that are judged have a record"
        if record.op is None:
            return unknown("its operation was not recorded", "record op and attrs")
        slots = self._values.slots(place)
        params = self._values.params(record.name, record.parent)
        if params is None:
            return unknown(f"{record.op} consists of operations that are judged one by one", _LOOK_INSIDE)
        if not row.differs and (quick := self._at_once(place, slots)) is not None:
            return quick
        ref = {slot: self._values.reference(at) for slot, at in slots.items()}
        expected = {record.slot: self._values.reference(place)}
        again = reproduce(record.op, record.attrs, ref, params, expected, name=row.key)
        if isinstance(again, NotReplayable):
            return self._without_operator(place, slots, again)
        cand = self._values.candidate_operands(slots)
        own = self._values.own(place)
        if cand.lost is not None or own is None:
            return unknown(f"the candidate has no {cand.lost or row.key} in this layout", _RECORD_BOTH)
        if not self._in_order(place, cand):
            return unknown("the candidate computes its inputs later", "check how the two were paired")
        limit = self._limit(place, own, cand, again)
        judged = Isolated(status="unknown")
        # weights may be wider than what is computed with them: those of norms under autocast, and tables of angles
        are_wider = self._values.are_wider(record.name, record.parent, own.dtype)
        for as_held in (False, True) if are_wider else (False,):
            params = self._values.params(record.name, record.parent, own.dtype, as_held=as_held) or {}
            candidate = _same_reading(plans(record.op, record.attrs, cand.inputs, params, name=row.key), again)
            found = self._against(place, own, candidate, limit)
            if found.status == "match" or not as_held:
                judged = found
        return judged

    def _at_once(self, place: int, slots: dict[str, int]) -> Isolated | None:
        """Judge a row that matches, from the candidate alone; None where the reference has to say more.

        An operation with one reading that gives the candidate's output, which is near the reference's, is trusted.
        """
        from firstdiff.ops import NotReplayable, plans

        row = self._graph.rows[place]
        own, candidate = self._values.own(place), self._values.candidate_operands(slots)
        if row.record is None or row.record.op is None or own is None or candidate.lost is not None:
            return None
        if not self._in_order(place, candidate):
            return None
        params = self._values.params(row.record.name, row.record.parent, own.dtype) or {}
        found = plans(row.record.op, row.record.attrs, candidate.inputs, params, name=row.key)
        if isinstance(found, NotReplayable) or len(found) != 1:
            return None
        judged = self._against(place, own, found[0], self._limit(place, own, candidate, None))
        return judged if judged.status == "match" else None

    def _against(self, place: int, own: np.ndarray, plan: Plan | None, limit: Limit) -> Isolated:
        """Judge the candidate's output by what a plan on its inputs gives."""
        record = self._graph.rows[place].record
        assert record is not None, "rows that are judged have a record"
        if plan is None:
            return unknown("the candidate's inputs do not fit the operation", _LOOK_INSIDE)
        return judged_output(plan, record, own, limit, once=self._rounds_once(place, own, plan))

    def _ill_conditioned(self, place: int, again: Replayed) -> str | None:
        record, own = self._graph.rows[place].record, self._values.own(place)
        if record is None or own is None or record.slot not in again.outputs:
            return None
        return ill_conditioned(again, record.slot, self._values.reference(place), own)

    def _rounds_once(self, place: int, own: np.ndarray, plan: Plan) -> bool:
        """Return whether only the result is rounded, and the reference's weights are no coarser than the other's."""
        reference = self._values.reference(place)
        # weights in float16 are no more what a run in bfloat16 has rounded than the other way round
        finer = reference.dtype == own.dtype or reference.dtype.itemsize > own.dtype.itemsize
        whole = not self._graph.calls.of(place).inner or (is_of_each_element(plan.function) and self._is_leaf(place))
        return finer and rounds_once(plan.function) and whole and not self._shortened(place)

    def _is_leaf(self, place: int) -> bool:
        """Return whether nothing was recorded inside the candidate's module."""
        candidate = self._graph.rows[place].candidate
        return candidate is not None and candidate.record.name not in self._candidate_parents

    def _shortened(self, place: int) -> bool:
        """Return whether values were stored in less precision than they had, so that inputs are not quite known.

        What a converter casts back at the end was computed from such values.
        """
        candidate = self._graph.rows[place].candidate
        own = self._values.own(place)
        if candidate is None or own is None:
            return False
        was = candidate.record.attrs.get("dtype_was")
        if candidate.record.op is None and own.dtype.itemsize < self._values.reference(place).dtype.itemsize:
            return True  # nothing says whether a tap was computed in the type it is stored in
        if not isinstance(was, str) or not dtypes.known(was):
            return False
        given, had = dtypes.eps_of(own.dtype), dtypes.eps_of(dtypes.from_name(was))
        return had < given or (had > given and candidate.record.op == "Cast")

    def _limit(self, place: int, own: np.ndarray, cand: Operands, again: Replayed | None) -> Limit:
        """Return the largest residual allowed, based on the reference's own residual if both sides have one dtype.

        again: the reference computed again; None to be as strict as that could make it
        """
        from firstdiff.ops import fit_limit

        row = self._graph.rows[place]
        reference = self._values.reference(place)  # whose weights are no finer than itself
        stored = [own, reference]
        if row.op is None or "softmax" not in row.op.lower():  # which is often computed in more than its input has
            stored += [array for array in cand.inputs.values() if array.size]
        was = row.candidate.record.attrs.get("dtype_was") if row.candidate else None
        dtype = coarsest(stored) or own.dtype
        if isinstance(was, str) and dtypes.known(was):
            dtype = max(dtype, dtypes.from_name(was), key=dtypes.eps_of)
        whole = fit_limit(dtype)
        if not reference.dtype == own.dtype == dtype:
            return Limit(dtype, whole)
        if again is None:
            return Limit(dtype, whole / _LEAST_SHARE)
        if again.residual is None or not isfinite(again.residual) or again.plan.operator == BY_ITSELF:
            return Limit(dtype, whole)
        return Limit(dtype, max(_HEADROOM * again.residual, whole / _LEAST_SHARE))

    def _in_order(self, place: int, cand: Operands) -> bool:
        """True if the candidate's inputs precede its output; if not, they were paired wrongly."""
        candidate = self._graph.rows[place].candidate
        seq = candidate.record.seq if candidate else None
        return seq is None or cand.latest is None or cand.latest <= seq

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


def isolate(graph: RowGraph, replays: Replays | None = None) -> tuple[Isolated | None, ...]:
    """Judge each row on the candidate's own inputs; None for weights and for what only one side has."""
    replays = replays or Replays(graph)
    return tuple(
        replays.judged(place) if row.compared and not row.is_evidence else None for place, row in enumerate(graph.rows)
    )
