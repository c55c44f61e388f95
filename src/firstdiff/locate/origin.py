"""Find the origin of a row's error: its own operation, the code before it, or an earlier row."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import final

from firstdiff.locate.graph import Feeding, RowGraph
from firstdiff.locate.parts import wrong_parts
from firstdiff.locate.replay import Replays
from firstdiff.locate.row import EVIDENCE_ONLY, MeasuredPair, jumps, severity
from firstdiff.schema import Divergence, Isolated, Origin

_RECORD_INPUTS = "record inputs too, to know for certain"


@dataclass(frozen=True, slots=True)
class Finding:
    """The origin of one row's error, how it is known, and the code it happened in."""

    origin: Origin
    reason: str
    estimated: bool = False
    inside: str | None = None
    between: tuple[str, ...] = ()

    def site(self, graph: RowGraph, place: int) -> Divergence:
        pair = graph.rows[place]
        return Divergence(
            pair=pair.index,
            key=pair.key,
            name=pair.name,
            origin=self.origin,
            inside=self.inside,
            between=_between_parts(graph, pair) or self.between,
            reason=self.reason,
            estimated=self.estimated,
        )


def finding(graph: RowGraph, place: int) -> Finding:
    """The origin of a row that differs, from the records alone."""
    fed = graph.compared[place]
    if fed.outside:
        return _from_outside(graph, place)
    wrong = [at for at in fed.rows if graph.rows[at].differs]
    if fed.guessed or (fed.incomplete and not wrong):
        return _estimate(graph, place, fed)
    if wrong:
        already = f"{_keys(graph, wrong)} {_verb(wrong, 'differ')} already"
        if _wrong_weights(graph, place):  # other weights make an error of their own, whatever comes in
            return introduced(graph, place, already, estimated=True)
        return Finding("inherited", already)
    return introduced(graph, place, _why_introduced(graph, place, fed))


def introduced(graph: RowGraph, place: int, reason: str, *, estimated: bool = False) -> Finding:
    """Made here: by the operation itself or by the code in front of it, as far as rows were compared."""
    row = graph.rows[place]
    fed, direct = graph.compared[place], graph.direct[place]
    parent = row.record.parent if row.record else None
    between = (_last_right(graph, place), row.key) if fed.rows else ()
    reason += _wrong_weights(graph, place)
    if row.role == "input":
        return Finding("introduced", reason, estimated, parent, between)
    if graph.calls.of(place).inner and fed.rows == direct.rows:
        return Finding("introduced", reason, estimated, row.name, between)
    if fed.rows != direct.rows or fed.guessed:  # rows in between were not compared
        inside = row.name if graph.calls.of(place).inner else parent
        return Finding("introduced", reason, estimated, inside, between)
    return Finding("introduced", reason, estimated, parent if row.is_function else None)


def _last_right(graph: RowGraph, place: int) -> str:
    """Return the key after which the error must have been made: before the first row that nothing proves right.

    Rows of the code around come first: a mask, say, is made far earlier, and hardly ever compared.
    """
    unproven = graph.hidden(place) - graph.settled
    outer = graph.calls.around(place)
    near = unproven.intersection([*graph.calls.of(place).inner, *(outer.inner if outer else ())])
    last = graph.compared[place].rows[-1]
    if unproven:
        before = reversed(range(min(near or unproven)))
        last = next((at for at in before if graph.rows[at].status == "match" and not graph.rows[at].is_evidence), last)
    row = graph.rows[last]
    return str(row.parts[-1].key) if row.parts else row.key


def _between_parts(graph: RowGraph, row: MeasuredPair) -> tuple[str, ...]:
    """Return what is right before the first wrong part of a fused tensor, and that part, as the reference ran them.

    None if that part has the row's own name: then there is no more to say.
    """
    wrong = {id(row.parts[number]) for number in wrong_parts(row)}
    ordered = sorted(row.parts, key=lambda part: part.record.seq or 0)
    first = next((number for number, part in enumerate(ordered) if id(part) in wrong), None)
    if first is None or str(ordered[first].key) == row.key:
        return ()
    if first:
        return str(ordered[first - 1].key), str(ordered[first].key)
    seq = ordered[0].record.seq or 0
    matching = [
        (at.record.seq, at.key)
        for at in graph.rows
        if at.status == "match" and not at.is_evidence and at.record and at.record.seq is not None
    ]
    before = max((known for known in matching if known[0] < seq), default=None)
    return () if before is None else (before[1], str(ordered[0].key))


def _why_introduced(graph: RowGraph, place: int, fed: Feeding) -> str:
    row = graph.rows[place]
    shown = fed.rows[-3:]
    keys = _keys(graph, shown)
    if row.role == "input":
        return f"{keys} {'match' if len(shown) > 1 else 'matches'}, and what the next module receives does not"
    if graph.calls.of(place).inner and any(graph.rows[at].role != "input" for at in fed.rows):
        return f"what its output is made of matches ({keys})"
    return f"all that goes into it matches ({keys})"


def _from_outside(graph: RowGraph, place: int) -> Finding:
    row = graph.rows[place]
    if row.is_evidence:
        return Finding("introduced", "a weight is loaded, not computed")
    earlier = [at for at in range(place) if graph.rows[at].differs and not graph.rows[at].is_evidence]
    if earlier:
        reason = f"{_keys(graph, earlier[-1:])} differs before it, and its own inputs were not recorded"
        return Finding("unknown", f"{reason}; {_RECORD_INPUTS}")
    if row.role == "input" and (row.record is None or row.record.parent is None):
        return Finding("introduced", "the two runs were given different inputs")
    return introduced(graph, place, "none of its inputs was recorded")


def _estimate(graph: RowGraph, place: int, fed: Feeding) -> Finding:
    """Estimate the origin of a row without recorded inputs from a jump of the error relative to the tolerance."""
    row = graph.rows[place]
    if not fed.rows:
        begin = next((one.key for one in graph.rows[:place] if one.role == "input" and not one.is_evidence), None)
        between = () if begin is None else (begin, row.key)
        return Finding("unknown", f"nothing before it was compared; {_RECORD_INPUTS}", estimated=True, between=between)
    last = _keys(graph, fed.rows[-1:])
    before = max(severity(graph.rows[at]) for at in fed.rows)
    now = severity(row)
    if now == 0 and not any(graph.rows[at].differs for at in fed.rows):  # a shape or a layout, which no figure tells
        return introduced(graph, place, f"what was recorded before it matches; {_RECORD_INPUTS}", estimated=True)
    steps = f"{before:.3g} times what is allowed at {last}, {now:.3g} times here; {_RECORD_INPUTS}"
    if jumps(row, before):
        return introduced(graph, place, f"the error jumps: {steps}", estimated=True)
    if any(graph.rows[at].differs for at in fed.rows):
        return Finding("inherited", f"the error was there before: {steps}", estimated=True)
    return Finding("unknown", f"the error grows slowly, without a jump at any row: {steps}", estimated=True)


def _wrong_weights(graph: RowGraph, place: int) -> str:
    """Weights of the module that differ, too: evidence of what is wrong."""
    row = graph.rows[place]
    if row.role == "input":
        return ""
    wrong = [other for other in graph.wrong_weights if other.rpartition(".")[0] == row.name]
    used = row.record.attrs.get("params") if row.record else None
    if isinstance(used, dict):
        wrong += [name for name in used.values() if name in graph.wrong_weights]
    if not wrong:
        return ""
    return f"; its weight{'s' if len(wrong) > 1 else ''} {', '.join(wrong[:3])} {_verb(wrong, 'differ')}"


def _verb(things: Sequence[object], word: str) -> str:
    return word if len(things) > 1 else f"{word}s"


def _keys(graph: RowGraph, places: Sequence[int]) -> str:
    keys = [graph.rows[at].key for at in places]
    return keys[0] if len(keys) == 1 else f"{', '.join(keys[:-1])} and {keys[-1]}" if keys else "nothing"


_DIGITS = re.compile(r"\d+")


def recovered(graph: RowGraph) -> list[int | None]:
    """Return, for each row that matches, the row that differs and feeds it: by the records where they tell."""
    found = recovered_by_name(graph.rows)
    for place, row in enumerate(graph.rows):
        fed = graph.compared[place]
        if row.record is None or row.is_evidence or fed.guessed or fed.incomplete or row.role == "input":
            continue
        if len(graph.calls.of(place).outputs) > 1:  # each may be made from another part of what goes in
            found[place] = None
            continue
        wrong = [at for at in fed.rows if graph.rows[at].differs] if row.status == "match" else []
        found[place] = graph.rows[wrong[0]].index if wrong else None
    return found


def recovered_by_name(rows: Sequence[MeasuredPair]) -> list[int | None]:
    """Return the same by names alone.

    An output depends on its own recorded inputs. Where none were recorded, on its earlier namesake (`layers.1` for
    `layers.2`), and in a trace without any namesakes on whatever ran before it.
    """
    numbered = any(_DIGITS.search(pair.name) for pair in rows)
    bad_inputs: dict[tuple[str, int], int] = {}
    with_inputs = {(pair.name, pair.step) for pair in rows if pair.role == "input" and pair.metrics is not None}
    last_namesake: dict[str, MeasuredPair] = {}
    last: MeasuredPair | None = None
    found: list[int | None] = []
    for pair in rows:
        place = (pair.name, pair.step)
        if pair.metrics is None or pair.role in EVIDENCE_ONLY:
            found.append(None)
            continue
        if pair.role == "input":
            if pair.status == "mismatch":
                bad_inputs[place] = pair.index
            found.append(None)
            continue
        if place in with_inputs:
            source = bad_inputs.get(place)
        else:
            before = last_namesake.get(_DIGITS.sub("#", pair.name)) if numbered else last
            source = before.index if before is not None and before.status == "mismatch" else None
        found.append(source if pair.status == "match" else None)
        last_namesake[_DIGITS.sub("#", pair.name)] = last = pair
    return found


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
        """Return the rows within the budget: modules with other weights first, then rows that seem to introduce an
        error, then those where it grows most.
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
        """True if a row inside this call already introduces an error."""
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
