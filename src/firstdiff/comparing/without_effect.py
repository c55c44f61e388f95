"""Recognise pairs of tensors that the two runs make in different ways, and of which nothing that differs comes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from firstdiff.comparing.rewritten import without_figures
from firstdiff.comparing.rows import MatchedPair
from firstdiff.comparing.settling import is_found_alone
from firstdiff.locate import MeasuredPair
from firstdiff.pairing.dataflow import Dataflow
from firstdiff.pairing.names import op_kind
from firstdiff.pairing.strategy import Side
from firstdiff.trace import Trace

_DIGITS = re.compile(r"\d+")
_LONE = ("missing", "extra")
_CERTAIN = 0.9
_OTHER_ARGUMENT = "not compared: nothing relates the two but their place among the arguments of a call"
_REASON = "not compared: the two are made of other tensors, and all that is computed with them matches"


def set_apart_without_effect(
    traces: tuple[Trace, Trace], matched: Sequence[MatchedPair], rows: Sequence[MeasuredPair]
) -> list[MeasuredPair]:
    """Give pairs that differ the status `rewritten` where both runs compute only matching values with them.

    The two must come from different operations, or be made of different tensors: a factor that is applied earlier, a
    part of a model that begins elsewhere. What one operation makes of the same tensors stays an error, even if a norm
    or a softmax takes it away.
    """
    differing = [row for row in rows if row.differs and not row.is_evidence and row.reference and row.candidate]
    if not differing:
        return list(rows)
    reference, candidate = (_Run.of(trace, matched, rows, number) for number, trace in enumerate(traces))
    if not (reference.flow.is_recorded and candidate.flow.is_recorded):
        return list(rows)
    doubtful = {row.index for row in differing if _made_otherwise(row, reference, candidate)}
    harmless = {
        index for index in doubtful if all(run.leads_to_matches(index, doubtful) for run in (reference, candidate))
    }
    harmless |= {index for index in doubtful if _is_other_argument(rows[index])}
    stages = {_stage(rows[index]) for index in harmless}
    found = list(rows)
    for index in doubtful:
        if _stage(rows[index]) in stages:  # the same code in another layer, where something else may be wrong
            reason = _OTHER_ARGUMENT if _is_other_argument(rows[index]) else _REASON
            found[index] = without_figures(rows[index], reason)
    return found


def _is_other_argument(row: MeasuredPair) -> bool:
    """True for inputs that only their place among the arguments relates; what the call gives tells if one is wrong."""
    confidence = row.pairing.confidence if row.pairing is not None else 1.0
    return row.role == "input" and row.metrics is None and confidence < _CERTAIN


def _stage(row: MeasuredPair) -> tuple[str, str]:
    """Return the names of both tensors without the numbers of layers."""
    assert row.reference is not None, "it is a pair"
    assert row.candidate is not None, "it is a pair"
    return _DIGITS.sub("#", str(row.reference.key)), _DIGITS.sub("#", str(row.candidate.key))


def _made_otherwise(row: MeasuredPair, reference: _Run, candidate: _Run) -> bool:
    assert row.reference is not None, "it is a pair"
    assert row.candidate is not None, "it is a pair"
    kinds = op_kind(row.reference.record.op), op_kind(row.candidate.record.op)
    if row.role == "output" and None not in kinds and kinds[0] != kinds[1]:
        return True
    return reference.made_of(row.index) != candidate.made_of(row.index)


@final
@dataclass(frozen=True)
class _Run:
    """One run: the rows of its tensors and the tensors of each row."""

    flow: Dataflow
    rows: Sequence[MeasuredPair]
    row_at: dict[int, int]
    places: dict[int, tuple[int, ...]]
    ends: frozenset[int]

    @classmethod
    def of(cls, trace: Trace, matched: Sequence[MatchedPair], rows: Sequence[MeasuredPair], number: int) -> _Run:
        places = {row.index: _places(row, number) for row in matched}
        row_at = {place: index for index, of_row in places.items() for place in of_row}
        ends = (at for at, tensor in enumerate(trace) if tensor.record.parent is None and tensor.key.role == "output")
        return cls(Dataflow(Side.of(trace)), rows, row_at, places, frozenset(ends))

    def made_of(self, index: int) -> set[int]:
        """Return the rows that a row is computed from directly; what was handed down is the tensor it was."""
        sources = (self._origin(source) for place in self.places[index] for source in self.flow.sources(place))
        return {self.row_at[source] for source in sources if source in self.row_at}

    def _origin(self, place: int) -> int:
        row = self.rows[self.row_at[place]] if place in self.row_at else None
        sources = self.flow.sources(place)
        return self._origin(sources[0]) if row is not None and row.role == "input" and len(sources) == 1 else place

    def leads_to_matches(self, index: int, looked_through: set[int]) -> bool:
        """True if the first rows that are computed with a row and that were compared all match, and there are some."""
        waiting, seen, matches = list(self.places[index]), set[int](), False
        while waiting:
            place = waiting.pop()
            if place in self.ends:
                return False
            for user in self.flow.uses(place):
                row = self.rows[self.row_at[user]] if user in self.row_at else None
                if row is None or row.is_evidence or user in seen:
                    continue
                seen.add(user)
                if row.status == "match" or is_found_alone(row):  # beside a pair that may be none
                    matches = True
                elif row.status in (*_LONE, "rewritten") or row.index in looked_through:
                    waiting.append(user)
                else:
                    return False
        return matches


def _places(row: MatchedPair, number: int) -> tuple[int, ...]:
    """Return the places of a row's tensors in the trace of one side."""
    if row.match is not None:
        return row.match.candidate if number else row.match.reference
    alone = row.candidates if number else row.references
    return (row.unpaired.index,) if alone and row.unpaired is not None else ()
