"""From rows to the whole: verdict, counts, warnings."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

from firstdiff import __version__
from firstdiff.comparing.options import Options
from firstdiff.comparing.sound import unheard
from firstdiff.locate import Located
from firstdiff.pairing import PairingResult
from firstdiff.schema import Comparison, Pair, Side, Status, Summary, Verdict
from firstdiff.trace import Trace

THE_SAME = "reference and candidate are the same: they can only match"


def comparison_of(
    paired: PairingResult, located: Located, options: Options, timings: Mapping[str, float]
) -> Comparison:
    """The Comparison of rows that were measured, judged and located."""
    pairs = located.pairs
    summary = summary_of(pairs)
    return Comparison(
        version=__version__,
        settings=options.settings(),
        warnings=_warnings(paired, pairs, options),
        reference=Side(paired.reference.path, len(paired.reference)),
        candidate=Side(paired.candidate.path, len(paired.candidate)),
        verdict=verdict_of(pairs, summary, allow_missing=options.allow_missing, allow_extra=options.allow_extra),
        summary=summary,
        first_divergence=located.first_divergence,
        divergences=located.divergences,
        pairs=pairs,
        diagnosis=pairs[located.first_divergence.pair].diagnosis if located.first_divergence else (),
        depth=tuple((point.index, point.relative, point.allowed) for point in located.depth),
        notes=located.notes,
        timings=timings,
    )


def alone_of(trace: Trace, pairs: tuple[Pair, ...], options: Options, timings: Mapping[str, float]) -> Comparison:
    """One trace without another: rows to look at, and nothing that was compared."""
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


def verdict_of(pairs: tuple[Pair, ...], summary: Summary, *, allow_missing: bool, allow_extra: bool) -> Verdict:
    """What the rows come to. Nothing compared is never a match."""
    if not any(pair.metrics is not None for pair in pairs):
        return "mismatch" if summary.mismatch else "not_compared"
    against = summary.mismatch + summary.failed
    if not allow_missing:
        against += _lone(pairs, "missing") + sum(_part(pair, "reference_coverage") for pair in pairs)
    if not allow_extra:
        against += _lone(pairs, "extra") + sum(_part(pair, "candidate_coverage") for pair in pairs)
    return "mismatch" if against else "match"


def _lone(pairs: tuple[Pair, ...], status: Status) -> int:
    """How many are on one side only, operands of compared functions left out.

    A capture writes an operand only if no tensor in the trace is it: a cast, which only one side needs, makes it new.
    """
    compared = {pair.key for pair in pairs if pair.metrics is not None}
    lone = (pair for pair in pairs if pair.status == status)
    return sum(not (_is_operand(pair) and pair.key.partition(":in.")[0] in compared) for pair in lone)


def _is_operand(pair: Pair) -> bool:
    """Of a function called in a module's code; those are recorded in small letters."""
    return pair.role == "input" and pair.op is not None and pair.op[:1].islower()


def _part(pair: Pair, side: str) -> bool:
    """Whether only a part of one side was there to compare: the rest is missing, or extra."""
    return pair.alignment is not None and getattr(pair.alignment, side) < 1


def summary_of(pairs: tuple[Pair, ...]) -> Summary:
    """The counts behind the verdict."""

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
    found += [*_unreadable("reference", reference), *_unreadable("candidate", candidate)]
    found += paired.warnings
    found += unheard(paired)
    if _same_place(reference.path, candidate.path):
        found.append(THE_SAME)
    inputs = reference.header.get("inputs"), candidate.header.get("inputs")
    if None not in inputs and inputs[0] != inputs[1]:
        found.append("the two runs were recorded on different inputs")
    keys = [pair.key for pair in pairs]
    found += options.rules.unused(keys)
    found += options.layout.unused(keys)
    return tuple(found)


def _unreadable(side: str, trace: Trace) -> list[str]:
    """A warning where not one tensor of a side can be read, as in an encrypted archive."""
    if not trace.tensors or any(tensor.error is None for tensor in trace.tensors):
        return []
    first = trace.tensors[0]
    return [f"{side}: not one of its tensors can be read; {first.key} {first.error}"]


def _same_place(one: str, other: str) -> bool:
    try:
        return Path(one).samefile(other)
    except OSError:
        return False
