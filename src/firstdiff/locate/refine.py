"""Origins made certain by computing rows again, as far as a budget of work allows."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import inf
from typing import final

from firstdiff.locate.graph import RowGraph
from firstdiff.locate.origin import Finding, introduced
from firstdiff.locate.replay_row import Replays
from firstdiff.locate.row import severity
from firstdiff.schema import Isolated

# nanoseconds, as `Replays.cost` estimates them: half a second on one core
BUDGET = 500_000_000


@final
class Refining:
    """Corrects what the records alone suggest.

    left_out: how many rows there was no budget for
    unrecorded: what to record to judge rows that now could not be, and how many would need it
    """

    def __init__(self, graph: RowGraph, replays: Replays, budget: int = BUDGET) -> None:
        self._graph = graph
        self._replays = replays
        self._budget = budget
        self.left_out = 0
        self.unrecorded: Counter[str] = Counter()

    def refined(self, findings: dict[int, Finding]) -> dict[int, Finding]:
        """The findings of all rows that differ, in order; rows that match join them if they hide the first error."""
        chosen = self._affordable_of(findings)
        found: dict[int, Finding] = {}
        for place, finding in findings.items():
            found[place] = self._refine(place, finding, found) if place in chosen else finding
        first = next(iter(found), None)
        if first is not None and found[first].origin == "inherited":
            found |= self._hidden(first)
        return dict(sorted(found.items()))

    def _affordable_of(self, findings: dict[int, Finding]) -> set[int]:
        """What there is budget for: modules with other weights first, then rows that seem to introduce an error, then
        those where it grows most.
        """
        other_weights = {name.rpartition(".")[0] for name in self._graph.wrong_weights}

        def urgency(place: int) -> tuple[bool, bool, float, int]:
            fed = self._graph.compared[place].rows
            before = max((severity(self._graph.rows[at]) for at in fed), default=0.0)
            growth = severity(self._graph.rows[place]) / before if 0 < before < inf else 0.0
            same_weights = self._graph.rows[place].name not in other_weights
            return same_weights, findings[place].origin == "inherited", -growth, place

        wanted = (place for place in sorted(findings, key=urgency) if not self._graph.compared[place].outside)
        return {place for place in wanted if self._affordable(place)}

    def _refine(self, place: int, finding: Finding, earlier: dict[int, Finding]) -> Finding:
        judged = self._replays.judged(place)
        if judged.status == "unknown":
            return self._unproven(finding, judged)
        if judged.status == "mismatch":
            certain = finding.origin == "introduced" and not finding.estimated
            if certain or self._made_inside(place, earlier):
                return finding
            return introduced(self._graph, place, judged.reason or "")
        if finding.origin == "inherited" and not finding.estimated:
            return finding
        fed = [self._graph.rows[at].key for at in self._graph.compared[place].rows]
        where = f" ({', '.join(fed[-2:])})" if fed else ""
        return Finding(
            "inherited", f"it is what the candidate's own inputs give{where}: their difference only grows here"
        )

    def _unproven(self, finding: Finding, judged: Isolated) -> Finding:
        """Count a row that recording parameters would make computable, and say so in its reason."""
        if judged.record_next is None or not judged.lacks_params:
            return finding
        self.unrecorded[judged.record_next] += 1
        if not finding.estimated:
            return finding
        return replace(finding, reason=f"{finding.reason}; {judged.record_next} to know for certain")

    def _hidden(self, first: int) -> dict[int, Finding]:
        """The first row that differs is right for its inputs: some row before it is wrong within what is allowed."""
        found: dict[int, Finding] = {}
        for place in range(first):
            row = self._graph.rows[place]
            if not row.compared or row.is_evidence or row.differs or self._graph.compared[place].outside:
                continue
            if not self._affordable(place):
                break
            judged = self._replays.judged(place)
            if judged.status == "mismatch" and not self._made_inside(place, found):
                reason = f"within what is allowed, yet wrong: {judged.reason}"
                found[place] = introduced(self._graph, place, reason)
        return found

    def _made_inside(self, place: int, earlier: dict[int, Finding]) -> bool:
        """Whether something that ran inside this call is to blame already."""
        call = self._graph.calls.of(place)
        if self._graph.rows[place].role == "input" or not call.inner:
            return False
        begin = min([*call.inputs, *call.inner])
        return any(begin <= at < place and found.origin == "introduced" for at, found in earlier.items())

    def _affordable(self, place: int) -> bool:
        cost = self._replays.cost(place)
        if cost > self._budget:
            self.left_out += 1
            return False
        self._budget -= cost
        return True
