"""Locate the first divergence and every origin from judged rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from firstdiff.errors import ReadError
from firstdiff.locate.graph import RowGraph
from firstdiff.locate.nonfinite import nonfinite_notes
from firstdiff.locate.origin import Finding, Refining, finding, recovered
from firstdiff.locate.replay import Replays
from firstdiff.locate.row import EVIDENCE_ONLY, DepthPoint, Located, LocatedPair, MeasuredPair, depth_of
from firstdiff.locate.where import where_of
from firstdiff.schema import Divergence, Note, Status, Where

_MOST_WHERE = 50
_WHERE_ELEMENTS = 16_000_000
_ORDERS = {
    "natural": "Rows are in the order of their names, which need not be that of execution; record seq, or number them",
    "layer_stage": "Rows are in the order of layers and stages that their names tell",
}


class Judged(Protocol):
    """A row with a verdict, measured or read from a stored comparison."""

    @property
    def index(self) -> int: ...
    @property
    def key(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def role(self) -> str: ...
    @property
    def status(self) -> Status: ...


def first_divergence(rows: Sequence[Judged]) -> Divergence | None:
    """Return the first mismatch in the order of execution; weights come first only if there is nothing else."""
    place = _first([row.status == "mismatch" for row in rows], [row.role in EVIDENCE_ONLY for row in rows])
    if place is None:
        return None
    row = rows[place]
    return Divergence(pair=row.index, key=row.key, name=row.name, origin="unknown")


def locate(graph: RowGraph, *, order: str, replays: Replays | None = None) -> Located:
    """Name the first row that differs, who made each error, and where in the tensor it sits.

    graph: of judged rows, in the order of the reference
    order: the rule that gave that order, as `Trace.order` has it
    replays: rows computed again so far
    """
    rows = graph.rows
    replays = replays or Replays(graph)
    refining = Refining(graph, replays)
    differing = _rows_that_differ(rows)
    findings = refining.refined({place: finding(graph, place) for place in differing})
    sites = _sites(graph, findings)
    where = _where_of_rows(rows, [*differing[:1], *sites, *differing])
    pairs = tuple(
        _located(row, findings.get(place), recovers, where.get(place))
        for place, (row, recovers) in enumerate(zip(rows, recovered(graph), strict=True))
    )
    first = findings[differing[0]].site(graph, differing[0]) if differing else None
    notes = [
        *_notes(graph, findings, differing, order),
        *_what_was_not_judged(refining),
        *nonfinite_notes(graph, replays.values),
    ]
    return Located(pairs, first, tuple(sites.values()), tuple(_depth(rows)), tuple(notes))


def _located(row: MeasuredPair, made: Finding | None, recovers: int | None, where: Where | None) -> LocatedPair:
    if made is None:
        return LocatedPair(measured=row, recovers_from=recovers, where=where)
    return LocatedPair(
        measured=row,
        origin=made.origin,
        origin_reason=made.reason,
        estimated=made.estimated,
        recovers_from=recovers,
        where=where,
    )


def _rows_that_differ(rows: Sequence[MeasuredPair]) -> list[int]:
    only_weights = all(row.is_evidence for row in rows)
    return [place for place, row in enumerate(rows) if row.differs and (only_weights or not row.is_evidence)]


def _first(differs: Sequence[bool], evidence: Sequence[bool]) -> int | None:
    only_weights = all(evidence)
    for place, (wrong, weight) in enumerate(zip(differs, evidence, strict=True)):
        if wrong and (only_weights or not weight):
            return place
    return None


def _sites(graph: RowGraph, findings: dict[int, Finding]) -> dict[int, Divergence]:
    """One for each place in the code: the outputs of one call, and its calls in later steps, are the same."""
    found: dict[int, Divergence] = {}
    seen: set[tuple[str, int, bool]] = set()
    for place, made in findings.items():
        row = graph.rows[place]
        same = (row.name, row.record.call if row.record else 0, row.role == "input")
        if made.origin == "introduced" and same not in seen:
            seen.add(same)
            found[place] = made.site(graph, place)
    return found


def _where_of_rows(rows: Sequence[MeasuredPair], wanted: Sequence[int]) -> dict[int, Where | None]:
    """Find where the error sits, in the rows that matter first, as far as a budget of elements goes."""
    budget = _WHERE_ELEMENTS
    found: dict[int, Where | None] = {}
    for number, place in enumerate(dict.fromkeys(wanted)):
        sources = rows[place].sources
        size = sources[0].size if sources else 0
        if number > _MOST_WHERE or (number and size > budget):
            continue
        budget -= size
        found[place] = _where(rows[place])
    return found


def _where(row: MeasuredPair) -> Where | None:
    try:
        return where_of(row)
    except ReadError:
        return None


def _depth(rows: Sequence[MeasuredPair]) -> Iterator[DepthPoint]:
    for row in rows:
        point = depth_of(row)
        if point is not None:
            yield point


def _notes(graph: RowGraph, findings: dict[int, Finding], differing: list[int], order: str) -> Iterator[Note]:
    if not differing:
        if graph.wrong_weights:
            names = ", ".join(graph.wrong_weights[:3])
            yield Note(
                "other",
                None,
                f"Only weights differ ({names}); all that was computed on this input is within its limits",
            )
        return
    if order in _ORDERS:
        yield Note("other", None, _ORDERS[order])
    first = findings[differing[0]]
    if first.estimated:
        key = graph.rows[differing[0]].key
        yield Note(
            "record_next",
            key,
            f"What {key} was computed from was not recorded or not compared, so the origin of the error is an "
            "estimate; record inputs too (fd.capture does; a tap needs role='input')",
        )


def _what_was_not_judged(refining: Refining) -> Iterator[Note]:
    """Rows whose inputs differ and that were not computed again may hide an error of their own."""
    if refining.left_out:
        were = "was" if refining.left_out == 1 else "were"
        text = f"{_rows(refining.left_out)} {were} not computed again, for want of time; --isolate judges all of them"
        yield Note("not_searched", None, text)
    for record_next, count in refining.unrecorded.items():
        text = f"{_rows(count)} could not be computed again; to see whether there is a second error, {record_next}"
        yield Note("record_next", None, text)


def _rows(count: int) -> str:
    return "1 row that differs" if count == 1 else f"{count:,} rows that differ"
