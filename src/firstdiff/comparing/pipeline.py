"""Compare two runs: open, pair, measure, judge, locate, then layouts and causes where an error was introduced."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, final

from firstdiff.comparing.doubts import is_uncertain, pairing_doubts
from firstdiff.comparing.judging import Judging
from firstdiff.comparing.moved_scale import set_apart_moved_scales
from firstdiff.comparing.options import Effort, EngineChoice, LayoutMode, Options
from firstdiff.comparing.padding import accept_counted_tokens, leave_out_padding
from firstdiff.comparing.pair_comparison import LayoutFinding, PairComparison
from firstdiff.comparing.progress import OnProgress, Progress, Stage
from firstdiff.comparing.rewritten import accept_rearranged_inputs, set_apart_rewritten
from firstdiff.comparing.rewritten_graph import set_apart_rewritten_values
from firstdiff.comparing.rows import MatchedPair, index_named, matched_pairs, row_named
from firstdiff.comparing.settling import is_found_alone
from firstdiff.comparing.summary import NOTHING_FOUND, THE_SAME, Findings, comparison_of, is_same_file
from firstdiff.comparing.token_rows import with_tokens
from firstdiff.comparing.unrecorded import set_apart_closed, set_apart_unrecorded_weights
from firstdiff.comparing.without_effect import set_apart_without_effect
from firstdiff.errors import UsageError
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
from firstdiff.pairing import PairingResult, pair_up
from firstdiff.readers import open_trace
from firstdiff.schema import Comparison, Note, Pair
from firstdiff.trace import Trace
from firstdiff.trace.order import OrderRule

Comparable = str | os.PathLike[str] | Trace | Mapping[str, Any]

# rows beside the sites that may be in another layout: the records do not tell what made their error
_MOST_UNCERTAIN = 50


def compare(
    reference: Comparable,
    candidate: Comparable,
    *,
    control: Comparable | None = None,
    atol: float | None = None,
    rtol: float | None = None,
    tolerances: str | os.PathLike[str] | None = None,
    equal_nan: bool = False,
    allow_missing: bool = False,
    allow_extra: bool = False,
    allow_partial: bool = False,
    strict_functions: bool = False,
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
    vocab: str | os.PathLike[str] | None = None,
    on_progress: OnProgress | None = None,
) -> Comparison:
    """Compare two runs, tensor by tensor.

    >>> import firstdiff as fd
    >>> fd.compare({"x": [1.0, 2.0]}, {"x": [1.0, 2.5]}).verdict
    'mismatch'

    reference, candidate: a path to whatever `firstdiff inspect` opens, a `Trace`, or a dict of arrays
    control: a run known to be good at the candidate's precision; the candidate's error is judged by its error
    atol, rtol: allow `|c - r| <= atol + rtol * |r|` instead of the default
    tolerances: a TOML file with `[[tolerances]]`, or "torch" for torch's table
    equal_nan: let NaN match NaN
    allow_missing, allow_extra: let tensors that only the reference, or only the candidate, has pass
    allow_partial: let tensors pass of which one side has only a part, such as one text of a batch
    strict_functions: count what one side writes differently inside a module whose inputs and outputs match
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
    vocab: a vocabulary that decodes ids and best tokens, as `firstdiff vocab` reads it
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
        strict_functions=strict_functions,
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
        vocab=vocab,
    )
    return compare_traces(reference, candidate, options, on_progress, control=control)


def compare_traces(
    reference: Comparable,
    candidate: Comparable,
    options: Options,
    on_progress: OnProgress | None = None,
    *,
    control: Comparable | None = None,
    only: str | None = None,
    keep_partial: bool = False,
) -> Comparison:
    """Compare two runs with options as one object.

    control: a run known to be good at the candidate's precision
    only: the key of one row to diagnose, instead of all where an error was introduced
    keep_partial: on Ctrl-C return what was found until then, marked as incomplete
    """
    return _Run(options, on_progress, only, keep_partial).compare(reference, candidate, control)


@final
class _Run:
    """One comparison under way: it times the stages and tells how far it has come."""

    def __init__(self, options: Options, on_progress: OnProgress | None, only: str | None, keep_partial: bool) -> None:
        self._options = options
        self._on_progress = on_progress
        self._only = only
        self._keep_partial = keep_partial
        self._effort = Effort(options.effort)
        self._control: Trace | None = None
        self._first: str | None = None
        self._timings: dict[str, float] = {}
        self._begun = self._stage_begun = time.perf_counter()

    def compare(self, reference: Comparable, candidate: Comparable, control: Comparable | None) -> Comparison:
        self._tell(Stage.OPENING)
        sides = open_side(reference, "reference", self._options), open_side(candidate, "candidate", self._options)
        self._control = None if control is None else open_side(control, "control", self._options)
        self._timed("open")
        self._tell(Stage.PAIRING)
        paired = pair_up(*sides, self._options.pairing)
        matched = matched_pairs(paired)
        self._timed("pair")
        comparison = PairComparison(paired, self._options, self._effort, self._on_bytes(matched))
        rows, complete = self._measure(comparison, matched)
        if self._options.layout.mode != "strict":
            rows = accept_rearranged_inputs(rows)
        rows = accept_counted_tokens(matched, leave_out_padding(comparison, matched, rows))
        rows = set_apart_unrecorded_weights(sides, rows)
        self._timed("measure")
        located, findings = _located_by_order(rows), NOTHING_FOUND
        try:
            if complete:
                self._tell(Stage.LOCATING, first=self._first)
                rows, located, graph, replays = self._settle_and_locate(sides, matched, rows, paired)
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
        found = comparison_of(
            paired, located, findings, self._options, timings, complete=complete, control=self._control
        )
        return with_tokens(found, rows, self._options.vocab)

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

    def _settle_and_locate(
        self,
        sides: tuple[Trace, Trace],
        matched: Sequence[MatchedPair],
        rows: list[MeasuredPair],
        paired: PairingResult,
    ) -> tuple[list[MeasuredPair], Located, RowGraph, Replays]:
        """Judge rows beside what came before them, then name where the runs part."""
        judging = Judging(sides, self._control, rows, self._options)
        judged = judging.judged(rows)
        about_closed: tuple[Note, ...] = ()
        if not self._options.strict_functions:
            apart = set_apart_rewritten(sides, matched, judged.rows)
            apart = set_apart_rewritten_values(sides, matched, apart)
            apart = set_apart_without_effect(sides, matched, set_apart_moved_scales(sides[0], apart))
            closed = set_apart_closed(sides, apart)
            apart, about_closed = closed.rows, closed.notes
            kept = [
                new if new.status == "rewritten" and not is_found_alone(old) else measured
                for measured, old, new in zip(rows, judged.rows, apart, strict=True)
            ]
            if any(row.status == "rewritten" for row in kept):  # they are no errors that others could inherit
                judged = judging.judged(kept)
        graph, replays = judged.graph, judged.replays
        self._first = next((row.key for row in judged.rows if row.differs and not row.is_evidence), None)
        located = locate(graph, order=paired.reference.order, replays=replays)
        alone = isolate(graph, replays) if self._options.isolate else judged.isolated
        pairs = (replace(pair, isolated=known) for pair, known in zip(located.pairs, alone, strict=True))
        located = replace(located, pairs=tuple(pairs), notes=(*located.notes, *judged.notes, *about_closed))
        return judged.rows, located, graph, replays

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
        doubts, warnings = pairing_doubts(paired, matched, located, graph, known)
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
        rows = (pair.measured for pair in located.pairs)
        return [index_named(((row.key, row.reference_info, row.candidate_info) for row in rows), self._only)]

    def _layouts(
        self, comparison: PairComparison, matched: Sequence[MatchedPair], located: Located, sites: Sequence[int]
    ) -> dict[int, LayoutFinding]:
        """Look for layouts at the sites, then in rows of which it is not certain that they only inherit an error."""
        uncertain = [pair.measured.index for pair in located.pairs if is_uncertain(pair)]
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


def explain_pair(reference: Comparable, candidate: Comparable, key: str, options: Options) -> Pair:
    """Return one row, found by a key of either side, as comparing all of them judges it; no cause is looked for."""
    found = compare_traces(reference, candidate, replace(options, diagnose=False), only=key)
    return row_named(found.pairs, key)


def _located_by_order(rows: Sequence[MeasuredPair]) -> Located:
    """Locate by the order of rows alone, for a comparison that was interrupted."""
    return Located(tuple(LocatedPair(measured=row) for row in rows), first_divergence(rows), (), (), ())


def _not_searched(keys: Sequence[str]) -> tuple[Note, ...]:
    """Note each row for which there was no time."""
    return tuple(
        Note("not_searched", key, f"{key} was not searched to the end, for want of time; --effort full does it")
        for key in dict.fromkeys(keys)
    )


def open_side(side: Comparable, name: str, options: Options) -> Trace:
    """Open what a user gave as one of the two runs."""
    if isinstance(side, Trace):
        return side
    if isinstance(side, Mapping):
        return Trace.from_arrays(side, name)
    if not isinstance(side, str | os.PathLike):
        raise UsageError(f"the {name} is a {type(side).__name__}; give a path, a Trace or a dict of arrays")
    return open_trace(side, order=options.order)
