"""Who made the error of a row: the row's own operation, the code in front of it, or something earlier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from firstdiff.locate.graph import Feeding, RowGraph
from firstdiff.locate.row import jumps, severity
from firstdiff.schema import Divergence, Origin

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
            between=self.between,
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
    between = (graph.rows[fed.rows[-1]].key, row.key) if fed.rows else ()
    reason += _wrong_weights(graph, place)
    if row.role == "input":
        return Finding("introduced", reason, estimated, parent, between)
    if graph.calls.of(place).inner and fed.rows == direct.rows:
        return Finding("introduced", reason, estimated, row.name, between)
    if fed.rows != direct.rows or fed.guessed:  # rows in between were not compared
        inside = row.name if graph.calls.of(place).inner else parent
        return Finding("introduced", reason, estimated, inside, between)
    return Finding("introduced", reason, estimated, parent if row.is_function else None)


def _why_introduced(graph: RowGraph, place: int, fed: Feeding) -> str:
    row = graph.rows[place]
    shown = fed.rows[-3:]
    keys = _keys(graph, shown)
    if row.role == "input":
        return f"{keys} {'match' if len(shown) > 1 else 'matches'}, and what is given on does not"
    if graph.calls.of(place).inner:
        return f"what ran inside it and reaches its output matches ({keys})"
    return f"all that goes into it matches ({keys})"


def _from_outside(graph: RowGraph, place: int) -> Finding:
    row = graph.rows[place]
    if row.is_evidence:
        return Finding("introduced", "a weight is given, not computed")
    earlier = [at for at in range(place) if graph.rows[at].differs and not graph.rows[at].is_evidence]
    if earlier:
        reason = f"{_keys(graph, earlier[-1:])} differs before it, and what it is computed from was not recorded"
        return Finding("unknown", f"{reason}; {_RECORD_INPUTS}")
    if row.role == "input" and (row.record is None or row.record.parent is None):
        return Finding("introduced", "the two runs were given different inputs")
    return introduced(graph, place, "it is computed from no recorded tensor")


def _estimate(graph: RowGraph, place: int, fed: Feeding) -> Finding:
    """What its inputs were is not recorded: a jump of the error against what was allowed tells the most."""
    row = graph.rows[place]
    if not fed.rows:
        return Finding("unknown", f"nothing in front of it was compared; {_RECORD_INPUTS}", estimated=True)
    last = _keys(graph, fed.rows[-1:])
    before = max(severity(graph.rows[at]) for at in fed.rows)
    now = severity(row)
    steps = f"{before:.3g} times what is allowed at {last}, {now:.3g} times here; {_RECORD_INPUTS}"
    if jumps(row, before):
        return introduced(graph, place, f"the error jumps: {steps}", estimated=True)
    if any(graph.rows[at].differs for at in fed.rows):
        return Finding("inherited", f"the error was there before: {steps}", estimated=True)
    return Finding("unknown", f"the error grows slowly, no step stands out: {steps}", estimated=True)


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
