"""Rows around the one under diagnosis: siblings, other calls and earlier tensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, final

import numpy as np

from firstdiff.dtypes import doubles
from firstdiff.errors import ReadError
from firstdiff.locate import MeasuredPair
from firstdiff.locate.graph import RowGraph
from firstdiff.locate.operands import Values
from firstdiff.trace import Tensor


@final
class Scene:
    """Rows in the order of the reference, their graph and their values."""

    def __init__(self, graph: RowGraph, values: Values) -> None:
        self.graph = graph
        self.rows = graph.rows
        self.values = values
        self._held: dict[str, MeasuredPair] = {row.name: row for row in self.rows if row.is_evidence and row.reference}

    def attrs(self, place: int, side: str) -> Mapping[str, Any]:
        tensor = self.rows[place].reference if side == "reference" else self.rows[place].candidate
        return tensor.record.attrs if tensor else {}

    @cached_property
    def by_seq(self) -> tuple[Mapping[int, Tensor], Mapping[int, Tensor]]:
        """Tensors of both sides in the order of recording, also those without a partner."""
        sides = [row.reference for row in self.rows], [row.candidate for row in self.rows]
        found = [{tensor.record.seq: tensor for tensor in side if tensor is not None} for side in sides]
        one, other = ({seq: tensor for seq, tensor in side.items() if seq is not None} for side in found)
        return one, other

    @cached_property
    def paired(self) -> frozenset[int | None]:
        """Places, in the order of recording, of the candidate's tensors that have a partner."""
        return frozenset(row.candidate.record.seq for row in self.rows if row.reference and row.candidate)

    def param_rows(self, place: int) -> dict[str, MeasuredPair]:
        """Return the rows of the weights of a module or function, by their name in it."""
        record = self.rows[place].record
        if record is None:
            return {}
        prefix = f"{record.name}." if record.parent is not None else ""
        found = {name[len(prefix) :]: row for name, row in self._held.items() if name.startswith(prefix)}
        used = record.attrs.get("params")
        if isinstance(used, Mapping):
            found |= {str(slot): self._held[name] for slot, name in used.items() if name in self._held}
        return found


def as_recorded(tensor: Any) -> np.ndarray | None:
    """Read a tensor's values in its own layout and dtype; None where there are none."""
    try:
        return None if tensor is None else np.asarray(tensor.values().view())
    except ReadError:
        return None


def _equal(one: Tensor | None, other: Tensor | None) -> bool:
    values = as_recorded(one), as_recorded(other)
    return values[0] is not None and values[1] is not None and np.array_equal(values[0], values[1])


# rows searched backwards for equal values
_MOST_EARLIER = 512
# earlier values tried in place of an input
_MOST_IN_PLACE = 24
# matching rows examined for an error within their tolerance
_MOST_LET_PASS = 24
# rows from the scale of scores to their softmax, inputs included
_FEW_STEPS = 8


@dataclass(frozen=True, slots=True)
class SiblingTensor:
    """The reference's part of another input, or output, of the same call, float64, cut like the case is."""

    key: str
    slot: str
    reference: np.ndarray


@dataclass(frozen=True, slots=True)
class AlternativeOutput:
    """Two outputs of one call of the candidate: the one that feeds the row, and another of its shape."""

    key: str
    other_key: str
    own: np.ndarray
    other: np.ndarray


@dataclass(frozen=True, slots=True)
class EarlierTensor:
    """The candidate's part of a row that comes before the case, float64, cut like the case is."""

    key: str
    name: str
    op: str | None
    candidate: np.ndarray
    reference: np.ndarray


@dataclass(frozen=True, slots=True)
class FurtherCall:
    """The candidate's input to a call that the reference does not make, float64, cut like the case is.

    name: of the candidate's module
    of: the reference's module that it is, or whose weights it has
    """

    key: str
    name: str
    of: str
    given: np.ndarray


@dataclass(frozen=True, slots=True)
class OtherCall:
    """Both sides of the same tensor in another call or at another step, float64, cut like the case is.

    later: how many calls or steps further on; below 0 for one before
    """

    key: str
    later: int
    reference: np.ndarray
    candidate: np.ndarray


@final
class Nearby:
    """The rows around one row.

    part: what is looked at of the row, and of others of its shape
    """

    def __init__(self, scene: Scene, place: int, part: tuple[slice, ...]) -> None:
        self._scene = scene
        self._place = place
        self._row = scene.rows[place]
        self._part = part

    def earlier(self) -> Iterator[EarlierTensor]:
        """Yield earlier rows of the same shape, the last first."""
        shape = self._row.sources[1].shape if self._row.sources else None
        for at in range(self._place - 1, max(-1, self._place - 1 - _MOST_EARLIER), -1):
            row = self._scene.rows[at]
            if row.is_evidence or row.sources is None or not row.sources[0].shape == row.sources[1].shape == shape:
                continue
            reference, candidate = (doubles(source.view()[self._part]) for source in row.sources)
            yield EarlierTensor(row.key, row.name, row.record.op if row.record else None, candidate, reference)

    def again(self) -> list[OtherCall]:
        """Return the same tensor in other calls of its module or at other steps, in order."""
        record, role = self._row.record, self._row.role
        if record is None or self._row.is_evidence:
            return []
        found = [
            (at, row)
            for at, row in enumerate(self._scene.rows)
            if row.record is not None and row.role == role and not row.is_evidence
            if (row.record.name, row.record.slot, row.record.rank) == (record.name, record.slot, record.rank)
        ]
        shape = self._row.sources[1].shape if self._row.sources else None
        own = next(count for count, (at, _) in enumerate(found) if at == self._place)
        return [
            OtherCall(row.key, count - own, *(doubles(source.view()[self._part]) for source in row.sources))
            for count, (at, row) in enumerate(found)
            if at != self._place and row.sources and row.sources[0].shape == row.sources[1].shape == shape
        ]

    @cached_property
    def goes_round(self) -> bool:
        """True if the reference passes the output of this call to a later call of the same module."""
        record = self._row.record
        if record is None or record.role == "input" or self._row.reference is None:
            return False
        made = self._scene.values.reference(self._place)
        for at in range(self._place + 1, len(self._scene.rows)):
            other = self._scene.rows[at].record
            if other is None or other.role != "input" or (other.name, other.rank) != (record.name, record.rank):
                continue
            given = self._scene.values.reference(at)
            if given.shape == made.shape and np.array_equal(given, made):
                return True
        return False

    def beside(self) -> Iterator[SiblingTensor]:
        """Return the other inputs, or outputs, of the call with as many axes."""
        if self._row.record is None or self._row.is_evidence:
            return
        call = self._scene.graph.calls.of(self._place)
        yield from self._as_beside(call.inputs if self._row.role == "input" else call.outputs)

    def parts(self) -> Iterator[SiblingTensor]:
        """Return the other outputs of the call that an input comes from: what it might have been given instead."""
        if self._row.record is None or self._row.role != "input":
            return
        for at in self._scene.graph.direct[self._place].rows:
            outputs = self._scene.graph.calls.of(at).outputs
            if len(outputs) > 1 and at in outputs:
                yield from self._as_beside([other for other in outputs if other != at])

    def instead(self) -> Iterator[AlternativeOutput]:
        """Yield, for each input from a call with several outputs, the others of its shape."""
        values = self._scene.values
        slots = values.slots(self._place) if self._row.role != "input" and not self._row.is_evidence else {}
        for given in slots.values():
            outputs = [] if self._scene.rows[given].is_evidence else self._scene.graph.calls.of(given).outputs
            own = values.candidate(given) if len(outputs) > 1 and self._scene.rows[given].compared else None
            for at in outputs if own is not None and given in outputs else ():
                other = values.candidate(at) if at != given and self._scene.rows[at].compared else None
                if own is not None and other is not None and other.shape == own.shape:
                    keys = self._scene.rows[given].key, self._scene.rows[at].key
                    yield AlternativeOutput(*keys, own, other)

    def overwritten(self) -> Iterator[AlternativeOutput]:
        """Yield earlier values of the candidate that would fit into an input's memory, the last first."""
        values, rows = self._scene.values, self._scene.rows
        slots = values.slots(self._place) if self._row.role != "input" and not self._row.is_evidence else {}
        for given in dict.fromkeys(slots.values()):
            own = values.candidate(given) if rows[given].compared and not rows[given].is_evidence else None
            if own is None:
                continue
            fitting = (
                at
                for at in range(self._place - 1, max(-1, self._place - 1 - _MOST_EARLIER), -1)
                if at != given and rows[at].compared and not rows[at].is_evidence and self._fits(at, own)
            )
            for at in islice(fitting, _MOST_IN_PLACE):
                other = values.candidate(at)
                if other is not None and other.size == own.size and not np.array_equal(other.reshape(own.shape), own):
                    yield AlternativeOutput(rows[given].key, rows[at].key, own, other.reshape(own.shape))

    def _fits(self, at: int, own: np.ndarray) -> bool:
        source = self._scene.rows[at].sources
        return source is not None and source[1].size == own.size and source[1].dtype == own.dtype

    def _as_beside(self, places: Sequence[int]) -> Iterator[SiblingTensor]:
        for at in places:
            row = self._scene.rows[at]
            if at == self._place or row.record is None or row.reference is None or row.reference.source is None:
                continue
            values = self._scene.values.reference(at)
            if values.ndim == len(self._part):
                yield SiblingTensor(row.key, row.record.slot, doubles(values[self._part]))

    def let_pass(self) -> set[int]:
        """Return the indices of matching rows that lead to this one."""
        found, left = set[int](), [self._place]
        while left and len(found) < _MOST_LET_PASS:
            for at in self._scene.graph.compared[left.pop(0)].rows:
                row = self._scene.rows[at]
                if at not in found and not row.differs and not row.is_evidence:
                    found.add(at)
                    left.append(at)
        return found

    def leads_to(self, op: str, of: str | None = None) -> bool:
        """True if the same code runs an operation of this kind a few steps after the row.

        of: the key of another row, whose code is looked at
        """
        place, inner = self._in_code(of)
        return self._any_is(op, [at for at in inner if at > place][:_FEW_STEPS])

    def follows(self, op: str, of: str | None = None) -> bool:
        """True if the same code ran an operation of this kind a few steps before the row."""
        place, inner = self._in_code(of)
        return self._any_is(op, [at for at in inner if at < place][-_FEW_STEPS:])

    def _in_code(self, key: str | None) -> tuple[int, list[int]]:
        """Return the indices of a row and of all rows that the code around it calls."""
        rows = self._scene.rows
        place = self._place if key is None else next(at for at, row in enumerate(rows) if row.key == key)
        outer = self._scene.graph.calls.around(place)
        return place, outer.inner if outer else []

    def _any_is(self, op: str, places: Sequence[int]) -> bool:
        return any(self._scene.rows[at].op == op for at in places)

    @cached_property
    def left_out(self) -> bool:
        """True if the candidate has none of the rows that the reference has inside this module."""
        if self._row.record is None or self._row.is_evidence or self._row.role == "input":
            return False
        inside = [row for row in self._scene.rows if self._is_inside(row)]
        return bool(inside) and not any(row.candidate for row in inside)

    @cached_property
    def not_run(self) -> tuple[str, ...]:
        """The calls of the reference that lead to this input, and of which the candidate has nothing, in their order.

        Empty where the candidate has all of them, or runs a part.
        """
        graph, rows = self._scene.graph, self._scene.rows
        names: list[str] = []
        waiting, seen = list(graph.direct[self._place].rows) if self._row.role == "input" else [], {self._place}
        while waiting:
            at = waiting.pop()
            row = rows[at]
            if at in seen or row.candidate is not None or row.role == "input" or row.is_evidence or row.record is None:
                continue
            call = graph.calls.of(at)
            seen.update(call.outputs)
            if not row.record.is_function and any(rows[inner].candidate for inner in (*call.inputs, *call.inner)):
                return ()
            names.append(call.name)
            waiting += [origin for given in call.inputs for origin in graph.direct[given].rows]
        return tuple(reversed(names))

    @cached_property
    def run_between(self) -> tuple[FurtherCall, ...]:
        """The calls that only the candidate makes in front of this input, of a module that the reference runs there."""
        own = self._row.candidate.record if self._row.candidate and self._row.role == "input" else None
        shape = self._row.sources[1].shape if self._row.sources else None
        found: list[FurtherCall] = []
        for tensor in (self._scene.by_seq[1].get(seq) for seq in (own.sources if own else ())):
            if tensor is None or not self._is_extra(tensor):
                continue
            record, module = tensor.record, self._copy_of(tensor.record.name)
            for row in self._scene.rows:
                given = row.candidate.record if row.status == "extra" and row.candidate else None
                if given is None or given.role != "input" or (given.name, given.call) != (record.name, record.call):
                    continue
                values = as_recorded(row.candidate)
                if module is not None and values is not None and values.shape == shape:
                    found.append(FurtherCall(row.key, record.name, module, doubles(values[self._part])))
        return tuple(found)

    def _is_extra(self, tensor: Tensor) -> bool:
        return any(row.candidate is tensor and row.status == "extra" for row in self._scene.rows)

    def _copy_of(self, name: str) -> str | None:
        """Return the module whose output this input should be, if one of the candidate is it, or has its weights."""
        origins = [self._scene.rows[at].record for at in self._scene.graph.direct[self._place].rows]
        names = {record.name for record in origins if record is not None}
        if name in names:
            return name
        held = {row.candidate.name: row.candidate for row in self._scene.rows if row.is_evidence and row.candidate}
        mine = {full[len(name) :]: tensor for full, tensor in held.items() if full.startswith(f"{name}.")}
        for other in names:
            candidate = {
                row.name[len(other) :]: row.reference
                for row in self._scene.rows
                if row.is_evidence and row.name.startswith(f"{other}.")
            }
            if mine and mine.keys() == candidate.keys() and all(_equal(mine[end], candidate[end]) for end in mine):
                return other
        return None

    def run_again(self) -> Iterator[tuple[str, np.ndarray]]:
        """Yield the candidate's inputs to submodules of this module in calls that the reference does not have."""
        inside = f"{self._row.name}."
        shape = tuple(taken.stop - taken.start for taken in self._part)
        known = {row.name for row in self._scene.rows if row.reference is not None}
        for row in self._scene.rows:
            record = row.candidate.record if row.candidate else None
            if row.status != "extra" or record is None or not record.name.startswith(inside):
                continue
            if record.name not in known:
                continue
            values = as_recorded(row.candidate) if record.role == "input" else None
            if values is not None and values.ndim == len(shape) and values[self._part].shape == shape:
                yield row.key, doubles(values[self._part])

    def _is_inside(self, row: MeasuredPair) -> bool:
        return not row.is_evidence and row.reference is not None and row.name.startswith(f"{self._row.name}.")
