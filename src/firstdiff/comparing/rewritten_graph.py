"""Recognise values that one of two ONNX graphs computes differently between values that both have and that match."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import final

from firstdiff.comparing.rewritten import other_operations, without_figures
from firstdiff.comparing.rows import MatchedPair
from firstdiff.comparing.settling import is_found_alone
from firstdiff.dtypes import kind_of
from firstdiff.locate import MeasuredPair
from firstdiff.trace import Trace

_SIDES = ("reference", "candidate")
_LONE = ("missing", "extra")


def set_apart_rewritten_values(
    traces: tuple[Trace, Trace], matched: Sequence[MatchedPair], rows: Sequence[MeasuredPair]
) -> list[MeasuredPair]:
    """Give the status `rewritten` to values of one graph alone where all that they lead to was compared and matches.

    Another opset, exporter or optimiser spells a norm, an activation or an attention in other nodes. Two values that
    were paired, but are made of other values, are each of one graph alone. What leads to a value that differs, or is an
    output of the model without a partner, stays what it is, unless it is such a value in another precision.
    """
    found = list(rows)
    if not all(any("opset" in item.record.attrs for item in trace) for trace in traces):
        return found
    graphs = [_Graph(trace, matched, rows, is_reference=side == 0) for side, trace in enumerate(traces)]
    doubtful = {row.index for row in rows if row.differs and _made_otherwise(row, graphs)}
    for graph in graphs:
        graph.doubt(doubtful)
    for row in rows:
        if row.status in _LONE:
            side = _LONE.index(row.status)
            place = graphs[side].place_of.get(row.index)
            if place is not None and graphs[side].leads_to_matches(place):
                reason = f"only the {_SIDES[side]}'s graph has it: what is computed with it matches"
                found[row.index] = replace(row, status="rewritten", reason=reason)
        elif row.index in doubtful and all(graph.leads_to_matches(graph.place_of[row.index]) for graph in graphs):
            reason = f"{other_operations(row)}; what is computed with them matches"
            found[row.index] = without_figures(row, reason)
    return found


def _made_otherwise(row: MeasuredPair, graphs: Sequence[_Graph]) -> bool:
    """True for a pair of nodes of another kind, or of the same kind on other values."""
    if row.role != "output" or row.reference is None or row.candidate is None:
        return False
    if row.reference.record.op != row.candidate.record.op:
        return True
    return graphs[0].made_of(row.index) != graphs[1].made_of(row.index)


@final
class _Graph:
    """The values of one side with what each is made of and used for."""

    def __init__(
        self, trace: Trace, matched: Sequence[MatchedPair], rows: Sequence[MeasuredPair], *, is_reference: bool
    ) -> None:
        self._rows: dict[int, MeasuredPair] = {}
        self.place_of: dict[int, int] = {}
        for row in matched:
            if row.match is not None:
                places = row.match.reference if is_reference else row.match.candidate
            else:
                own = row.references if is_reference else row.candidates
                places = (row.unpaired.index,) if own and row.unpaired is not None else ()
            self._rows |= dict.fromkeys(places, rows[row.index])
            if places:
                self.place_of[row.index] = places[0]
        by_seq = {item.record.seq: place for place, item in enumerate(trace) if item.record.seq is not None}
        self._trace = trace
        self._sources: dict[int, list[int]] = {}
        self._users: dict[int, list[int]] = {}
        for place, item in enumerate(trace):
            self._sources[place] = [by_seq[seq] for seq in item.record.sources if seq in by_seq]
            if item.key.slot != "optimized":  # of another run
                for source in self._sources[place]:
                    self._users.setdefault(source, []).append(place)
        self._doubtful: set[int] = set()
        self._known: dict[int, bool] = {}

    def doubt(self, rows: set[int]) -> None:
        """Look through these rows as through those of one side alone."""
        self._doubtful = rows

    def made_of(self, row: int) -> set[int]:
        """Return the rows that a value is computed from."""
        found = (self._rows.get(place) for place in self._sources[self.place_of[row]])
        return {source.index for source in found if source is not None}

    def leads_to_matches(self, place: int) -> bool:
        """True if a value is used, and every use ends in values that match; users come later, so this ends.

        An output that only casts a value which matches counts as one: converters put such casts at the end.
        """
        left = [place]
        while left:
            at = left[-1]
            users = self._users.get(at, [])
            open_users = [user for user in users if self._is_lone(user) and user not in self._known]
            if open_users:
                left += open_users
                continue
            if users:
                self._known[at] = all(
                    self._known[user] if self._is_lone(user) else self._matches(user) for user in users
                )
            else:
                self._known[at] = self._casts_a_match(at)
            left.pop()
        return self._known[place]

    def _casts_a_match(self, place: int) -> bool:
        sources = self._sources[place]
        if self._trace.tensors[place].record.op != "Cast" or len(sources) != 1 or self._is_lone(sources[0]):
            return False
        pair = [self._trace.tensors[at].source for at in (place, sources[0])]
        is_float = all(source is not None and kind_of(source.dtype) == "float" for source in pair)
        return is_float and self._matches(sources[0])

    def _is_lone(self, place: int) -> bool:
        row = self._rows.get(place)
        return row is not None and (row.status in _LONE or row.index in self._doubtful)

    def _matches(self, place: int) -> bool:
        """True for values that match; computed again, they may differ, if they are made of values that do not belong
        together.
        """
        row = self._rows.get(place)
        return row is not None and (row.status == "match" or is_found_alone(row))
