"""Recognise values that one of two ONNX graphs computes differently between values that both have and that match."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import final

from firstdiff.comparing.rows import MatchedPair
from firstdiff.locate import MeasuredPair
from firstdiff.trace import Trace

_LONE = ("missing", "extra")


def set_apart_rewritten_values(
    traces: tuple[Trace, Trace], matched: Sequence[MatchedPair], rows: Sequence[MeasuredPair]
) -> list[MeasuredPair]:
    """Give the status `rewritten` to values of one graph alone where all that they lead to was compared and matches.

    Another opset, exporter or optimiser spells a norm or an attention in other nodes. A value that leads to one that
    differs, or to an output of the model without a partner, stays missing or extra.
    """
    found = list(rows)
    for name, status, trace in zip(("reference", "candidate"), _LONE, traces, strict=True):
        if not any(row.status == status for row in rows) or not any("opset" in item.record.attrs for item in trace):
            continue
        graph = _Graph(trace, matched, rows, is_reference=status == "missing")
        for row in rows:
            place = graph.place_of.get(row.index)
            if row.status == status and place is not None and graph.leads_to_matches(place):
                reason = f"only the {name}'s graph has it: what is computed with it matches"
                found[row.index] = replace(row, status="rewritten", reason=reason)
    return found


@final
class _Graph:
    """The values of one side with what each is used for."""

    def __init__(
        self, trace: Trace, matched: Sequence[MatchedPair], rows: Sequence[MeasuredPair], *, is_reference: bool
    ) -> None:
        self._status: dict[int, str] = {}
        self.place_of: dict[int, int] = {}
        for row in matched:
            if row.match is not None:
                places = row.match.reference if is_reference else row.match.candidate
            else:
                own = row.references if is_reference else row.candidates
                places = (row.unpaired.index,) if own and row.unpaired is not None else ()
            self._status |= dict.fromkeys(places, rows[row.index].status)
            if places:
                self.place_of[row.index] = places[0]
        by_seq = {item.record.seq: place for place, item in enumerate(trace) if item.record.seq is not None}
        self._users: dict[int, list[int]] = {}
        for place, item in enumerate(trace):
            for seq in item.record.sources:
                if seq in by_seq:
                    self._users.setdefault(by_seq[seq], []).append(place)
        self._known: dict[int, bool] = {}

    def leads_to_matches(self, place: int) -> bool:
        """True if a value is used, and every use ends in values that match; users come later, so this ends."""
        left = [place]
        while left:
            at = left[-1]
            users = self._users.get(at, [])
            open_users = [user for user in users if self._is_lone(user) and user not in self._known]
            if open_users:
                left += open_users
                continue
            self._known[at] = bool(users) and all(
                self._known[user] if self._is_lone(user) else self._status.get(user) == "match" for user in users
            )
            left.pop()
        return self._known[place]

    def _is_lone(self, place: int) -> bool:
        return self._status.get(place) in _LONE
