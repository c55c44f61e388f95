"""Build the Comparison from stage results: pairs, verdict, counts and warnings."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from firstdiff import __version__
from firstdiff.comparing.omissions import omissions
from firstdiff.comparing.options import Options
from firstdiff.comparing.pair_comparison import LayoutFinding
from firstdiff.comparing.rows import audio_warnings
from firstdiff.locate import Located, LocatedPair, MeasuredPair
from firstdiff.locate.row import EVIDENCE_ONLY
from firstdiff.pairing import Match, PairingResult
from firstdiff.schema import Comparison, Diagnosis, Note, Pair, Side, Summary, Verdict
from firstdiff.trace import Trace

_ROUNDING = 1e-9
THE_SAME = "reference and candidate are the same: they can only match"


@dataclass(frozen=True)
class Findings:
    """Findings after measuring, by the index of the row.

    layouts: rows that would agree in another layout
    causes: the likeliest first
    doubts: pairs whose values speak against them
    notes: what else there is to say
    warnings: about the pairing as a whole
    """

    layouts: Mapping[int, LayoutFinding]
    causes: Mapping[int, tuple[Diagnosis, ...]]
    doubts: Mapping[int, Match]
    notes: tuple[Note, ...] = ()
    warnings: tuple[str, ...] = ()


NOTHING_FOUND = Findings({}, {}, {})


def comparison_of(
    paired: PairingResult,
    located: Located,
    findings: Findings,
    options: Options,
    timings: Mapping[str, float],
    *,
    complete: bool = True,
    control: Trace | None = None,
) -> Comparison:
    """Put the stages' results together; an incomplete comparison is never a match."""
    pairs = tuple(_pair(row, findings) for row in located.pairs)
    summary = summary_of(pairs)
    left_out = omissions(paired, [row.measured for row in located.pairs])
    verdict = verdict_of(
        pairs,
        summary,
        allow_missing=options.allow_missing,
        allow_extra=options.allow_extra,
        allow_partial=options.allow_partial,
        omitted=bool(left_out),
    )
    first = located.first_divergence
    return Comparison(
        version=__version__,
        settings=options.settings(),
        warnings=(*_warnings(paired, pairs, options), *findings.warnings),
        reference=Side(paired.reference.path, len(paired.reference)),
        candidate=Side(paired.candidate.path, len(paired.candidate)),
        verdict=verdict if complete or summary.mismatch else "not_compared",
        summary=summary,
        first_divergence=first,
        divergences=located.divergences,
        pairs=pairs,
        diagnosis=pairs[first.pair].diagnosis if first else (),
        depth=tuple((point.index, point.relative, point.allowed) for point in located.depth),
        notes=(*left_out, *located.notes, *findings.notes),
        timings=timings,
        complete=complete,
        control=None if control is None else Side(control.path, len(control)),
    )


def single_comparison_of(
    trace: Trace, rows: Sequence[MeasuredPair], options: Options, timings: Mapping[str, float]
) -> Comparison:
    """Put together one trace without another: rows to look at, and nothing that was compared."""
    pairs = tuple(_pair(LocatedPair(measured=row), NOTHING_FOUND) for row in rows)
    return Comparison(
        version=__version__,
        settings=options.settings(),
        warnings=trace.warnings,
        reference=Side(trace.path, len(trace)),
        candidate=Side("", 0),
        verdict="not_compared",
        summary=summary_of(pairs),
        first_divergence=None,
        divergences=(),
        pairs=pairs,
        timings=timings,
    )


def _pair(located: LocatedPair, findings: Findings) -> Pair:
    row = located.measured
    layout, doubt = findings.layouts.get(row.index), findings.doubts.get(row.index)
    known = (row.layout_cause,) if row.layout_cause else (layout.cause,) if layout else ()
    reason = layout.reason if layout else row.reason
    if doubt is not None and doubt.doubt:
        reason = f"{reason}; {doubt.doubt}"
    return Pair(
        index=row.index,
        key=row.key,
        name=row.name,
        role=row.role,
        step=row.step,
        rank=row.rank,
        op=row.op,
        layer=row.layer,
        stage=row.stage,
        status=row.status,
        reason=reason,
        reference=row.reference_info,
        candidate=row.candidate_info,
        pairing=doubt.pairing if doubt else row.pairing,
        alignment=layout.alignment if layout else row.alignment,
        metrics=row.metrics,
        audio=row.audio,
        tolerance=row.tolerance,
        required=row.required,
        origin=located.origin,
        recovers_from=located.recovers_from,
        where=located.where,
        diagnosis=findings.causes.get(row.index, known),
        envelope=row.basis,
        origin_reason=located.origin_reason,
        origin_estimated=located.estimated,
        isolated=located.isolated,
        systematic=row.systematic,
        controlled=row.controlled,
    )


def verdict_of(
    pairs: Sequence[Pair],
    summary: Summary,
    *,
    allow_missing: bool,
    allow_extra: bool,
    allow_partial: bool = False,
    omitted: bool = False,
) -> Verdict:
    """Judge the run by its rows. Nothing compared is never a match, nor is one that leaves out what decides.

    omitted: whether something was left out that no option lets pass
    """
    if not any(pair.metrics is not None for pair in pairs):
        return "mismatch" if summary.mismatch else "not_compared"
    against = summary.mismatch + summary.failed + summary.inconclusive + omitted
    if not allow_missing:
        against += summary.missing
    if not allow_extra:
        against += summary.extra
    if not allow_partial:
        against += sum(_part(pair, "reference_coverage", shard=allow_missing) for pair in pairs)
        against += sum(_part(pair, "candidate_coverage", shard=allow_extra) for pair in pairs)
    return "mismatch" if against else "match"


def _part(pair: Pair, side: str, *, shard: bool) -> bool:
    """True if only a part of one side was there to compare.

    A table that code makes, as of positions, may be longer than what is used of it: the module's output decides.

    shard: let a lone shard pass, one of several equal parts: the other ranks are missing, as whole tensors are
    """
    covered = getattr(pair.alignment, side) if pair.alignment is not None else 1.0
    if pair.role == "buffer" and pair.status == "match":
        return False
    return covered < 1 and not (shard and _is_one_of_equal_parts(covered) and _is_cut_by_rank(pair))


def _is_cut_by_rank(pair: Pair) -> bool:
    """True for weights, a part of the last axis and one place of the first; else tokens or heads are missing."""
    if pair.role in EVIDENCE_ONLY or pair.reference is None or pair.candidate is None:
        return True
    mine, yours = pair.reference.shape or (), pair.candidate.shape or ()
    if len(mine) != len(yours):
        return False
    return mine[:-1] == yours[:-1] or (mine[1:] == yours[1:] and 1 in (mine[0], yours[0]))


def _is_one_of_equal_parts(share: float) -> bool:
    return share > 0 and abs(1 / share - round(1 / share)) < _ROUNDING


def summary_of(pairs: Sequence[Pair]) -> Summary:
    """Count what the verdict is made of."""

    def count(status: str) -> int:
        return sum(pair.status == status for pair in pairs)

    compared = sum(pair.metrics.elements for pair in pairs if pair.metrics)
    there = sum(math.prod(pair.reference.shape or ()) for pair in pairs if pair.reference)
    return Summary(
        match=count("match"),
        mismatch=count("mismatch"),
        missing=count("missing"),
        extra=count("extra"),
        failed=count("failed"),
        elements=compared,
        coverage=compared / there if there else 0.0,
        rewritten=count("rewritten"),
        inconclusive=count("inconclusive"),
    )


def _warnings(paired: PairingResult, pairs: Sequence[Pair], options: Options) -> tuple[str, ...]:
    reference, candidate = paired.reference, paired.candidate
    found = [f"reference: {text}" for text in reference.warnings]
    found += [f"candidate: {text}" for text in candidate.warnings]
    found += [*_unreadable("reference", reference), *_unreadable("candidate", candidate)]
    found += paired.warnings
    found += audio_warnings(paired)
    inputs = reference.header.get("inputs"), candidate.header.get("inputs")
    if None not in inputs and inputs[0] != inputs[1] and not _hold_the_same(reference.header.get("root"), pairs):
        found.append("the two runs were recorded on different inputs")
    keys = [pair.key for pair in pairs]
    found += options.rules.unused(keys)
    found += options.layout.unused(keys)
    return tuple(found)


def _hold_the_same(root: object, pairs: Sequence[Pair]) -> bool:
    """True if all inputs of the model are equal, or the same in another type; their digests tell types apart."""
    given = [pair for pair in pairs if pair.role == "input" and pair.name == root]
    return bool(given) and all(pair.status == "rewritten" or _is_given_the_same(pair) for pair in given)


def _is_given_the_same(pair: Pair) -> bool:
    if pair.status != "match" or pair.metrics is None or pair.reference is None or pair.candidate is None:
        return False
    return pair.metrics.max_abs == 0 or pair.reference.dtype != pair.candidate.dtype


def _unreadable(side: str, trace: Trace) -> list[str]:
    """Warn where not one tensor of a side can be read, as in an encrypted archive."""
    if not trace.tensors or any(tensor.error is None for tensor in trace.tensors):
        return []
    first = trace.tensors[0]
    return [f"{side}: not one of its tensors can be read; {first.key} {first.error}"]


def is_same_file(reference: object, candidate: object) -> bool:
    """Return whether two sides are given as one path."""
    if not isinstance(reference, str | os.PathLike) or not isinstance(candidate, str | os.PathLike):
        return False
    try:
        return Path(reference).samefile(candidate)
    except OSError:
        return False
