"""From rows to the whole: verdict, counts, warnings."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

from firstdiff import __version__
from firstdiff.comparing.options import Options
from firstdiff.locate import Located
from firstdiff.pairing import PairingResult
from firstdiff.schema import Comparison, Pair, Side, Summary, Verdict


def comparison_of(
    paired: PairingResult, located: Located, options: Options, timings: Mapping[str, float]
) -> Comparison:
    """The Comparison of rows that were measured, judged and located."""
    pairs = located.pairs
    summary = _summary(pairs)
    return Comparison(
        version=__version__,
        settings=options.settings(),
        warnings=_warnings(paired, pairs, options),
        reference=Side(paired.reference.path, len(paired.reference)),
        candidate=Side(paired.candidate.path, len(paired.candidate)),
        verdict=_verdict(pairs, summary, options),
        summary=summary,
        first_divergence=located.first_divergence,
        divergences=located.divergences,
        pairs=pairs,
        diagnosis=pairs[located.first_divergence.pair].diagnosis if located.first_divergence else (),
        depth=tuple((point.index, point.relative, point.allowed) for point in located.depth),
        notes=located.notes,
        timings=timings,
    )


def _verdict(pairs: tuple[Pair, ...], summary: Summary, options: Options) -> Verdict:
    if not any(pair.metrics is not None for pair in pairs):
        return "mismatch" if summary.mismatch else "not_compared"
    against = summary.mismatch + summary.failed
    if not options.allow_missing:
        against += summary.missing + sum(_part(pair, "reference_coverage") for pair in pairs)
    if not options.allow_extra:
        against += summary.extra + sum(_part(pair, "candidate_coverage") for pair in pairs)
    return "mismatch" if against else "match"


def _part(pair: Pair, side: str) -> bool:
    """Whether only a part of one side was there to compare: the rest is missing, or extra."""
    return pair.alignment is not None and getattr(pair.alignment, side) < 1


def _summary(pairs: tuple[Pair, ...]) -> Summary:
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
    )


def _warnings(paired: PairingResult, pairs: tuple[Pair, ...], options: Options) -> tuple[str, ...]:
    reference, candidate = paired.reference, paired.candidate
    found = [f"reference: {text}" for text in reference.warnings]
    found += [f"candidate: {text}" for text in candidate.warnings]
    found += paired.warnings
    if _same_place(reference.path, candidate.path):
        found.append("reference and candidate are the same: they can only match")
    inputs = reference.header.get("inputs"), candidate.header.get("inputs")
    if None not in inputs and inputs[0] != inputs[1]:
        found.append("the two runs were recorded on different inputs")
    keys = [pair.key for pair in pairs]
    found += options.rules.unused(keys)
    found += options.layout.unused(keys)
    return tuple(found)


def _same_place(one: str, other: str) -> bool:
    try:
        return Path(one).samefile(other)
    except OSError:
        return False
