"""Compare two runs: open, pair, measure, judge, locate, then layouts and causes where an error was introduced."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, final

from firstdiff.comparing.options import Effort, EngineChoice, LayoutMode, Options
from firstdiff.comparing.pair_comparison import LayoutFinding, PairComparison
from firstdiff.comparing.progress import OnProgress, Progress, Stage
from firstdiff.comparing.rewritten import accept_rearranged_inputs
from firstdiff.comparing.rows import MatchedPair, matched_pairs
from firstdiff.comparing.settling import settled
from firstdiff.comparing.summary import NOTHING_FOUND, THE_SAME, Findings, comparison_of, is_same_file
from firstdiff.errors import UsageError, did_you_mean
from firstdiff.locate import (
    Located,
    LocatedPair,
    MeasuredPair,
    Replays,
    RowGraph,
    first_divergence,
    isolate,
    locate,
)
from firstdiff.pairing import Match, PairingResult, doubt, pair_up
from firstdiff.readers import open_trace
from firstdiff.schema import Comparison, Diagnosis, Note, Pair
from firstdiff.trace import Trace
from firstdiff.trace.order import OrderRule

Comparable = str | os.PathLike[str] | Trace | Mapping[str, Any]

# rows beside the sites that may be in another layout: the records do not tell what made their error
_MOST_UNCERTAIN = 50


def compare(
    reference: Comparable,
    candidate: Comparable,
    *,
    atol: float | None = None,
    rtol: float | None = None,
    tolerances: str | os.PathLike[str] | None = None,
    equal_nan: bool = False,
    allow_missing: bool = False,
    allow_extra: bool = False,
    allow_partial: bool = False,
    map: str | os.PathLike[str] | None = None,
    layer_offset: int | None = None,
    layout: LayoutMode = "auto",
    accept_layout: str | Sequence[str] = (),
    align: str | Sequence[str] = (),
    isolate: bool = False,
    diagnose: bool = True,
    effort: float | Literal["full"] | None = None,
    order: OrderRule | None = None,
    engine: EngineChoice = "auto",
    threads: int | None = None,
    on_progress: OnProgress | None = None,
) -> Comparison:
    """Compare two runs, tensor by tensor.

    >>> import firstdiff as fd
    >>> fd.compare({"x": [1.0, 2.0]}, {"x": [1.0, 2.5]}).verdict
    'mismatch'

    reference, candidate: a path to whatever `firstdiff inspect` opens, a `Trace`, or a dict of arrays
    atol, rtol: allow `|c - r| <= atol + rtol * |r|` instead of the default
    tolerances: a TOML file with `[[tolerances]]`, or "torch" for torch's table
    equal_nan: let NaN match NaN
    allow_missing, allow_extra: let tensors that only the reference, or only the candidate, has pass
    allow_partial: let tensors pass of which one side has only a part, such as one text of a batch
    map: a TOML file that states pairs
    layer_offset: added to the candidate's layers: with 3, its layer 0 is the reference's layer 3; found if left out
    layout: "strict" lets nothing but the same layout match
    accept_layout: layouts that may match although the shapes do not call for them: "transpose", "rope_interleave", …
    align: recipes for single pairs: "name=b s h d -> s (b h) d"
    isolate: also judge every operation on the candidate's own inputs (`pairs[i].isolated`)
    diagnose: look for the cause where an error was introduced (`pairs[i].diagnosis`)
    effort: seconds of CPU time for layouts that do not fit and for causes, 2 if left out, or "full"
    order: the rule that orders plain files, instead of the one their names suggest
    engine: "numpy" works without the compiled kernel
    threads: how many to use; all cores if left out
    on_progress: called with a `Progress` at each stage and while bytes are read
    """
    options = Options.of(
        atol=atol,
        rtol=rtol,
        tolerances=tolerances,
        equal_nan=equal_nan,
        allow_missing=allow_missing,
        allow_extra=allow_extra,
        allow_partial=allow_partial,
        map=map,
        layer_offset=layer_offset,
        layout=layout,
        accept_layout=accept_layout,
        align=align,
        isolate=isolate,
        diagnose=diagnose,
        effort=effort,
        order=order,
        engine=engine,
        threads=threads,
    )
    return compare_traces(reference, candidate, options, on_progress)


def compare_traces(
    reference: Comparable,
    candidate: Comparable,
    options: Options,
    on_progress: OnProgress | None = None,
    *,
    only: str | None = None,
    keep_partial: bool = False,
) -> Comparison:
    """Compare two runs with options as one object.

    only: the key of one row to diagnose, instead of all where an error was introduced
    keep_partial: on Ctrl-C return what was found until then, marked as incomplete
    """
    return _Run(options, on_progress, only, keep_partial).compare(reference, candidate)


@final
class _Run:
    """One comparison under way: it times the stages and tells how far it has come."""

    def __init__(self, options: Options, on_progress: OnProgress | None, only: str | None, keep_partial: bool) -> None:
        self._options = options
        self._on_progress = on_progress
        self._only = only
        self._keep_partial = keep_partial
        self._effort = Effort(options.effort)
        self._first: str | None = None
        self._timings: dict[str, float] = {}
        self._begun = self._stage_begun = time.perf_counter()

    def compare(self, reference: Comparable, candidate: Comparable) -> Comparison:
        self._tell(Stage.OPENING)
        sides = _open(reference, "reference", self._options), _open(candidate, "candidate", self._options)
        self._timed("open")
        self._tell(Stage.PAIRING)
        paired = pair_up(*sides, self._options.pairing)
        matched = matched_pairs(paired)
        self._timed("pair")
        comparison = PairComparison(paired, self._options, self._effort, self._on_bytes(matched))
        rows, complete = self._measure(comparison, matched)
        rows = settled(rows, equal_nan=self._options.rules.equal_nan)
        if self._options.layout.mode != "strict":
            rows = accept_rearranged_inputs(rows)
        self._timed("measure")
        located, findings = _located_by_order(rows), NOTHING_FOUND
        try:
            if complete:
                self._tell(Stage.LOCATING, first=self._first)
                graph = RowGraph(rows)
                replays = Replays(graph)
                located = self._locate(graph, replays, paired)
                self._timed("locate")
                self._tell(Stage.DIAGNOSING, first=self._first)
                findings = self._find(comparison, paired, matched, graph, replays, located)
                self._timed("diagnose")
        except KeyboardInterrupt:
            if not self._keep_partial:
                raise
            complete = False
        if is_same_file(reference, candidate):
            findings = replace(findings, warnings=(THE_SAME, *findings.warnings))
        timings = {**self._timings, "total": time.perf_counter() - self._begun}
        return comparison_of(paired, located, findings, self._options, timings, complete=complete)

    def _measure(self, comparison: PairComparison, matched: Sequence[MatchedPair]) -> tuple[list[MeasuredPair], bool]:
        """Measure every row; on Ctrl-C the rest is left out."""
        rows: list[MeasuredPair] = []
        try:
            for row in comparison.measure(matched):
                rows.append(row)
                if self._first is None and row.differs and not row.is_evidence:
                    self._first = row.key
        except KeyboardInterrupt:
            if not self._keep_partial:
                raise
            rest = matched[len(rows) :]
            return [*rows, *(row.measured("failed", reason="not compared: interrupted") for row in rest)], False
        return rows, True

    def _locate(self, graph: RowGraph, replays: Replays, paired: PairingResult) -> Located:
        located = locate(graph, order=paired.reference.order, replays=replays)
        if not self._options.isolate:
            return located
        alone = zip(located.pairs, isolate(graph, replays), strict=True)
        return replace(located, pairs=tuple(replace(pair, isolated=judged) for pair, judged in alone))

    def _find(
        self,
        comparison: PairComparison,
        paired: PairingResult,
        matched: Sequence[MatchedPair],
        graph: RowGraph,
        replays: Replays,
        located: Located,
    ) -> Findings:
        """Look for layouts, better partners and causes where errors were introduced."""
        if located.first_divergence is None and self._only is None:
            return replace(NOTHING_FOUND, notes=_not_searched(comparison.not_searched))
        sites = self._sites(located)
        layouts = self._layouts(comparison, matched, located, sites)
        known = {row.index: row.layout_cause for row in graph.rows if row.layout_cause}
        known |= {index: layout.cause for index, layout in layouts.items()}
        doubts, warnings = _doubts(paired, matched, located, graph, known)
        if not self._options.diagnose:
            return Findings(layouts, {}, doubts, _not_searched(comparison.not_searched), warnings)
        from firstdiff.diagnose import diagnose  # the operators are many, and runs that match need none

        self._effort.start()
        found = diagnose(graph, sites, values=replays.values, known=known, has_time=self._effort.has_time)
        left_out = [*comparison.not_searched, *(graph.rows[index].key for index in found.left_out)]
        return Findings(layouts, found.causes, doubts, (*found.notes, *_not_searched(left_out)), warnings)

    def _sites(self, located: Located) -> list[int]:
        from firstdiff.diagnose import sites_of

        if self._only is None:
            return sites_of(located)
        return [row_named([pair.measured for pair in located.pairs], self._only).index]

    def _layouts(
        self, comparison: PairComparison, matched: Sequence[MatchedPair], located: Located, sites: Sequence[int]
    ) -> dict[int, LayoutFinding]:
        """Look for layouts at the sites, then in rows of which it is not certain that they only inherit an error."""
        uncertain = [pair.measured.index for pair in located.pairs if _is_uncertain(pair)]
        found: dict[int, LayoutFinding] = {}
        for number, index in enumerate(dict.fromkeys([*sites, *uncertain[:_MOST_UNCERTAIN]])):
            if number and not self._effort.has_time():
                break
            layout = comparison.find_layout(matched[index], located.pairs[index].measured)
            if layout is not None:
                found[index] = layout
        return found

    def _on_bytes(self, matched: Sequence[MatchedPair]) -> Any:
        total = sum(row.nbytes for row in matched)
        return lambda done: self._tell(Stage.MEASURING, min(done, total), total, self._first)

    def _tell(self, stage: Stage, done: int = 0, total: int = 0, first: str | None = None) -> None:
        if self._on_progress:
            self._on_progress(Progress(stage, done, total, first))

    def _timed(self, stage: str) -> None:
        now = time.perf_counter()
        self._timings[stage] = now - self._stage_begun
        self._stage_begun = now


def explain_pair(
    reference: Comparable, candidate: Comparable, key: str, options: Options
) -> tuple[PairingResult, Match | None, Pair]:
    """Compare one row alone, found by the key of either side, and return what pairing had to say about it."""
    sides = _open(reference, "reference", options), _open(candidate, "candidate", options)
    paired = pair_up(*sides, options.pairing)
    matched = matched_pairs(paired)
    for row in matched:
        if any(str(tensor.key) == key for tensor in (*row.references, *row.candidates)):
            break
    else:
        near = did_you_mean(key, [str(tensor.key) for trace in sides for tensor in trace])
        raise UsageError(f"neither side has a tensor {key!r}{near}")
    comparison = PairComparison(paired, options, Effort(None))
    measured = comparison.row(row)
    layout = comparison.find_layout(row, measured) if measured.differs else None
    doubts: dict[int, Match] = {}
    if measured.differs and row.match is not None and layout is None:
        place = paired.pairs.index(row.match)
        doubts[row.index] = doubt(paired, [place]).pairs[place]
    findings = replace(NOTHING_FOUND, layouts={row.index: layout} if layout else {}, doubts=doubts)
    whole = Located((LocatedPair(measured=measured),), None, (), (), ())
    pair = comparison_of(paired, whole, findings, options, {}).pairs[0]
    return paired, doubts.get(row.index, row.match), pair


def row_named(rows: Sequence[Any], key: str) -> Any:
    """Return the row of a key of either side; UsageError names those that are nearly it."""
    names: dict[str, None] = {}
    for row in rows:
        candidate = row.candidate_info if isinstance(row, MeasuredPair) else row.candidate
        if key in (row.key, candidate.name if candidate else None):
            return row
        names |= dict.fromkeys([row.key, *([candidate.name] if candidate else [])])
    raise UsageError(f"neither side has a tensor {key!r}{did_you_mean(key, names)}")


def _doubts(
    paired: PairingResult,
    matched: Sequence[MatchedPair],
    located: Located,
    graph: RowGraph,
    known: Mapping[int, Diagnosis],
) -> tuple[dict[int, Match], tuple[str, ...]]:
    """Say which rows that differ have values that fit another tensor far better; the pairs stay as they are.

    Rows that certainly inherit their error have no doubts of their own, and a row that is like what it was computed
    from is no other tensor.
    """
    places = {id(match): place for place, match in enumerate(paired.pairs)}
    suspects = {
        places[id(row.match)]: row.index
        for row in matched
        if row.match is not None and _is_uncertain(located.pairs[row.index]) and row.index not in known
    }
    if not suspects:
        return {}, ()
    doubted = doubt(paired, suspects)
    found = {
        index: doubted.pairs[place]
        for place, index in suspects.items()
        if doubted.pairs[place].doubt and not _is_own_input(graph, index, doubted.pairs[place])
    }
    return found, doubted.warnings[len(paired.warnings) :]


def _is_own_input(graph: RowGraph, index: int, doubted: Match) -> bool:
    """Return whether what fits better is what the row was computed from, as its records tell."""
    feeding = graph.compared[index]
    names = {info.name for at in feeding.rows if (info := graph.rows[at].candidate_info)}
    return not feeding.guessed and not names.isdisjoint(doubted.pairing.alternatives[:1])


def _is_uncertain(pair: LocatedPair) -> bool:
    """Return whether a row differs and may be wrong on its own account."""
    return pair.measured.differs and (pair.origin != "inherited" or pair.estimated)


def _located_by_order(rows: Sequence[MeasuredPair]) -> Located:
    """Locate by the order of rows alone, for a comparison that was interrupted."""
    return Located(tuple(LocatedPair(measured=row) for row in rows), first_divergence(rows), (), (), ())


def _not_searched(keys: Sequence[str]) -> tuple[Note, ...]:
    """Note each row for which there was no time."""
    return tuple(
        Note("not_searched", key, f"{key} was not searched to the end, for want of time; --effort full does it")
        for key in dict.fromkeys(keys)
    )


def _open(side: Comparable, name: str, options: Options) -> Trace:
    if isinstance(side, Trace):
        return side
    if isinstance(side, Mapping):
        return Trace.from_arrays(side, name)
    if not isinstance(side, str | os.PathLike):
        raise UsageError(f"the {name} is a {type(side).__name__}; give a path, a Trace or a dict of arrays")
    return open_trace(side, order=options.order)
