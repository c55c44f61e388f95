"""Recognise rewrites that are no errors: rearranged inputs, and other functions in a module whose outputs match."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, final

from firstdiff.comparing.rows import MatchedPair
from firstdiff.dtypes import kind_of
from firstdiff.locate import Call, Calls, MeasuredPair
from firstdiff.locate.row import EVIDENCE_ONLY
from firstdiff.trace import Record, Trace

SideName = Literal["reference", "candidate"]
_SIDES: tuple[SideName, SideName] = ("reference", "candidate")
_LONE = ("missing", "extra")
_REARRANGED = "the input is rearranged, to the bit, and what is made of it agrees"
# modules that have no weights and do little: one side calls a function instead, or does without
_WEIGHTLESS = frozenset(
    "Identity Flatten Unflatten Softmax ReLU ReLU6 GELU SiLU Mish Sigmoid Tanh ELU LeakyReLU".split()
)
_WEIGHTLESS_ENDS = ("Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "DropPath", "Activation")


def accept_rearranged_inputs(rows: Sequence[MeasuredPair]) -> list[MeasuredPair]:
    """Let an input in another layout match where its values are the same to the bit and what is made of it matches.

    That is the output of its module, or the next output that was compared: behind it a module may go wrong elsewhere.
    """
    outputs = {_call(row): row.status for row in rows if row.role == "output"}
    found, following = [], ""
    for row in reversed(rows):
        if row.role == "output" and row.metrics is not None:
            following = row.status
        agrees = "match" in (outputs.get(_call(row)), following)
        found.append(_accepted(row) if agrees and _is_rearranged(row) else row)
    return found[::-1]


def _is_rearranged(row: MeasuredPair) -> bool:
    if row.role != "input" or row.layout_cause is None or row.metrics is None or row.alignment is None:
        return False
    sides = row.reference_info, row.candidate_info
    other_shape = sides[0] is not None and sides[1] is not None and sides[0].shape != sides[1].shape
    return other_shape and row.metrics.max_abs == 0 and row.alignment.coverage == 1


def _accepted(row: MeasuredPair) -> MeasuredPair:
    assert row.alignment is not None, "it was measured in a layout"
    alignment = replace(row.alignment, barred=None)
    return replace(row, status="match", reason=_REARRANGED, layout_cause=None, alignment=alignment)


def _call(row: MeasuredPair) -> tuple[object, ...]:
    return row.name, row.record.call if row.record else 0, row.step, row.rank


def set_apart_rewritten(
    traces: tuple[Trace, Trace], matched: Sequence[MatchedPair], rows: Sequence[MeasuredPair]
) -> list[MeasuredPair]:
    """Give rows the status `rewritten` that one side writes differently inside a module that agrees.

    Those are functions, modules without weights, and inputs and outputs that the other side does without. The
    module must have been compared: where its outputs differ or are not recorded, nothing in it is excused.
    """
    if all(row.status == "match" for row in rows):
        return list(rows)
    sides = [_Side(trace, matched, rows, name) for trace, name in zip(traces, _SIDES, strict=True)]
    found = list(rows)
    for row in rows:
        if row.is_evidence or row.role not in ("input", "output"):
            continue
        if row.status in _LONE:
            side = sides[_LONE.index(row.status)]
            place = side.place_of[row.index]
            module = side.excusing(place)
            if module is not None:
                reason = f"only the {side.name} has it: {_agrees(module)}"
                found[row.index] = replace(row, status="rewritten", reason=reason)
            elif side.is_made_by_the_other(place):
                reason = f"only the {side.name} was given it: what the other makes by itself instead leads to the same"
                found[row.index] = replace(row, status="rewritten", reason=reason)
        elif row.status == "mismatch" and _is_other_function(row, sides):
            modules = [side.excusing(side.place_of[row.index]) for side in sides]
            if None not in modules:
                found[row.index] = without_figures(row, f"{other_operations(row)}; {_agrees(modules[0] or '')}")
    return found


def _agrees(module: str) -> str:
    return f"{module} is written differently, and what goes in and comes out of it matches"


def _is_other_function(row: MeasuredPair, sides: Sequence[_Side]) -> bool:
    """True if a pair is of two functions that do not do the same: another operation, or made of other tensors."""
    reference, candidate = row.reference, row.candidate
    if reference is None or candidate is None or not (reference.record.is_function and candidate.record.is_function):
        return False
    if reference.record.op != candidate.record.op:
        return True
    made_of = [side.sources(row.index) for side in sides]
    return None not in made_of and made_of[0] != made_of[1]


def other_operations(row: MeasuredPair) -> str:
    assert row.reference is not None, "it is a pair"
    assert row.candidate is not None, "it is a pair"
    one, other = row.reference.record.op, row.candidate.record.op
    if one != other:
        return f"not compared: {one} in the reference and {other} in the candidate"
    return f"not compared: the two {one} are made of other tensors"


def without_figures(row: MeasuredPair, reason: str) -> MeasuredPair:
    """Return a pair as what it is: two tensors that do not belong together."""
    return replace(
        row,
        status="rewritten",
        reason=reason,
        alignment=None,
        metrics=None,
        tolerance=None,
        required=None,
        basis=None,
        layout_cause=None,
        sources=None,
        systematic=None,
    )


@final
class _Side:
    """The tensors of one run by the calls that made them, with what became of each."""

    def __init__(
        self, trace: Trace, matched: Sequence[MatchedPair], rows: Sequence[MeasuredPair], name: SideName
    ) -> None:
        self.name = name
        self._rows = rows
        self._tensors = trace.tensors
        self._row_at: dict[int, int] = {}
        self.place_of: dict[int, int] = {}
        for row in matched:
            places = _places(row, name)
            self._row_at |= dict.fromkeys(places, row.index)
            if places:
                self.place_of[row.index] = places[0]
        self._calls = Calls([None if tensor.key.role in EVIDENCE_ONLY else tensor.record for tensor in trace])
        self._by_seq = {
            (tensor.record.rank, tensor.record.seq): place
            for place, tensor in enumerate(trace)
            if tensor.record.seq is not None
        }
        self._consumers: dict[tuple[int, int], list[int]] = {}
        for place, tensor in enumerate(trace):
            for seq in tensor.record.sources:
                self._consumers.setdefault((tensor.record.rank, seq), []).append(place)
        self._known: dict[int, bool] = {}

    def excusing(self, place: int) -> str | None:
        """Return the module that excuses a tensor; None where there is none."""
        record, call = self._tensors[place].record, self._calls.of(place)
        outer = self._around(place)
        if outer is None:
            return self._function_with_output(record, call)
        if record.is_function or self._is_weightless(call):
            return outer.name if self._agrees(outer) else self._function_with_output(record, call)
        return call.name if self._agrees(call) else None

    def is_made_by_the_other(self, place: int) -> bool:
        """True for an input of the model, such as a mask or positions, that the other side makes by itself."""
        if self._tensors[place].record.role != "input" or self._around(place) is not None:
            return False
        use = self._use_of_input(place)
        return use == "matches" or (use == "unseen" and self._agrees(self._calls.of(place)))

    def _use_of_input(self, place: int) -> Literal["matches", "differs", "unseen"]:
        """Return what became of an input of the model that only this side was given.

        A mask that is cast before it is used leaves no record of its use; for any but whole numbers that is not enough.
        """
        waiting, seen, compared = [place], {place}, False
        while waiting:
            for user in self._users(waiting.pop()):
                if self._status(user) == "match":
                    compared = True
                elif not self._is_lone(user) or not self._only_passes_on(user):
                    return "differs"
                elif user not in seen:
                    seen.add(user)
                    waiting.append(user)
        source = self._tensors[place].source
        whole = source is not None and kind_of(source.dtype) in ("int", "bool")
        return "matches" if compared else "unseen" if whole else "differs"

    def _only_passes_on(self, place: int) -> bool:
        record = self._tensors[place].record
        return record.is_function or record.role == "input"

    def sources(self, row: int) -> set[int] | None:
        """Return the rows that a tensor was made of; None where its record does not tell."""
        record = self._tensors[self.place_of[row]].record
        places = [self._by_seq.get((record.rank, seq)) for seq in record.sources]
        rows = {self._row_at.get(place) for place in places if place is not None}
        return {found for found in rows if found is not None} if rows and None not in (*places, *rows) else None

    def _function_with_output(self, record: Record, call: Call) -> str | None:
        """A capture writes the input of a function only if no tensor is it: a cast that one side needs makes one."""
        given = record.is_function and record.role == "input" and bool(call.outputs)
        return call.name if given and all(self._status(place) == "match" for place in call.outputs) else None

    def _around(self, place: int) -> Call | None:
        """Return the call whose code made this one, looking through modules that only this side has."""
        outer = self._calls.around(place)
        while outer is not None and self._is_weightless(outer):
            outer = self._calls.around((outer.inputs or outer.outputs)[0])
        return outer

    def _is_weightless(self, call: Call) -> bool:
        """True for a call that only this side has of a module without weights."""
        places = [*call.inputs, *call.outputs]
        op = self._tensors[places[0]].record.op or ""
        return (op in _WEIGHTLESS or op.endswith(_WEIGHTLESS_ENDS)) and all(self._is_lone(place) for place in places)

    def _agrees(self, call: Call) -> bool:
        """True if what goes into a module and what is used of its outputs was compared and matches."""
        known = self._known.get(id(call))
        if known is None:
            self._known[id(call)] = known = self._compare_slots(call)
        return known

    def _compare_slots(self, call: Call) -> bool:
        places = [*call.inputs, *call.outputs]
        statuses = [self._status(place) for place in places]
        if any(status not in ("match", *_LONE) for status in statuses):
            return False
        if not all(any(self._status(place) == "match" for place in slots) for slots in (call.inputs, call.outputs)):
            return False
        lone = [place for place in places if self._is_lone(place)]
        if not lone:
            return True
        outer = self._around(places[0])
        if outer is None:
            return all(place in call.inputs and self._use_of_input(place) != "differs" for place in lone)
        return all(self._is_unused(place) for place in lone if place in call.outputs) and self._agrees(outer)

    def _is_unused(self, place: int) -> bool:
        """True if all that was made of a tensor was compared and matches, or is a function of this side alone."""
        return all(
            self._status(at) == "match" or (self._is_lone(at) and self._tensors[at].record.is_function)
            for at in self._users(place)
        )

    def _users(self, place: int) -> Sequence[int]:
        """Return the tensors that are, or were made of, this one."""
        record = self._tensors[place].record
        return () if record.seq is None else self._consumers.get((record.rank, record.seq), ())

    def _is_lone(self, place: int) -> bool:
        return self._status(place) in _LONE

    def _status(self, place: int) -> str:
        return self._rows[self._row_at[place]].status


def _places(row: MatchedPair, side: SideName) -> tuple[int, ...]:
    """Return the places of a row's tensors in the trace of one side."""
    if row.match is not None:
        return row.match.reference if side == "reference" else row.match.candidate
    alone = row.references if side == "reference" else row.candidates
    return (row.unpaired.index,) if alone and row.unpaired is not None else ()
