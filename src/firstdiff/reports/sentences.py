"""Sentences about a comparison, shared by all reports and error messages."""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Iterator, Sequence
from typing import Any

from firstdiff.judge import ratio, ratio_to_limits
from firstdiff.reports.tokens import token_findings
from firstdiff.schema import (
    Alignment,
    Comparison,
    Controlled,
    Diagnosis,
    Divergence,
    Metrics,
    Pair,
    Required,
    Tolerance,
)

UNKNOWN = "unknown"
ROOT = "root"  # the model itself, as recorders name it
_MOST_NAMES = 5
_VERDICTS = {"match": "MATCH", "mismatch": "MISMATCH", "not_compared": "NOTHING COMPARED"}
_ORIGINS = {
    "introduced": "introduced here",
    "inherited": "inherited from its inputs",
    "unknown": "unknown",
}


def number(value: Any) -> str:
    """Format a value: short, but never so short that two different numbers of interest look alike."""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return str(value)


def count(amount: int, noun: str) -> str:
    return f"{amount:,} {noun}{'' if amount == 1 else 's'}"


def some(names: Sequence[str], most: int = _MOST_NAMES) -> str:
    """List names: the first few, and how many more there are."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def exact(value: Any) -> str:
    """Format a value as it is in the tensor, with all digits."""
    if isinstance(value, complex):
        return f"({value.real!r}{value.imag:+}j)"
    return repr(value)


def title(pair: Pair) -> str:
    """Return the key, with the candidate's own name where it has another."""
    other = pair.candidate.name if pair.candidate and pair.reference else pair.key
    return pair.key if other == pair.key else f"{pair.key} (candidate: {other})"


def shape_and_type(pair: Pair) -> str:
    """Return `[1, 16, 64] float32`, or both sides where they differ."""
    sides = [
        f"{list(side.shape or ())} {side.dtype}" for side in (pair.reference, pair.candidate) if side and side.dtype
    ]
    return " against ".join(dict.fromkeys(sides))


def allowed(tolerance: Tolerance) -> str:
    """Say what was allowed, and by which rule."""
    if tolerance.rule == "exact":
        what = "integers" if tolerance.source == "default" else tolerance.source
        return f"equal values ({what} are compared exactly)"
    if tolerance.rule == "floor":
        return f"{number(tolerance.atol)} ({number(tolerance.k)} times the recorded floor of {number(tolerance.floor)})"
    text = f"{number(tolerance.atol)} + {number(tolerance.rtol)} * |reference|"
    if tolerance.rule in ("default", "eps"):
        said = "default" if tolerance.rule == "default" else tolerance.source
        return f"{text} ({said}: {number(tolerance.k)} * eps * (std + |reference|))"
    return f"{text} ({tolerance.source})"


def excess(pair: Pair) -> float | None:
    """Return how many times what is allowed a row differs by; None where nothing was measured."""
    if pair.envelope is None or pair.tolerance is None:
        return None
    # a match with NaN on both sides was compared with equal_nan
    return ratio_to_limits(pair.envelope, pair.tolerance, pair.systematic, equal_nan=pair.status == "match")


def _worst_element(pair: Pair, tolerance: Tolerance) -> float:
    """Return the worst difference of an element divided by its tolerance."""
    if pair.envelope is None:
        return 0.0
    return ratio(pair.envelope, tolerance.atol, tolerance.rtol, equal_nan=pair.status == "match")


def times(worst: float | None) -> str:
    """Format how far a row is beyond its limit."""
    if worst is None:
        return "-"
    return f"{worst:,.0f} x" if 1e3 <= worst < 1e9 else f"{worst:.3g} x"


def explain(pair: Pair) -> Iterator[str]:
    """Say why a pair has its status, one finding a line."""
    if pair.reason:
        yield pair.reason
    yield from _layout_and_sound(pair)
    if pair.metrics is None or pair.status != "mismatch":
        return
    metrics = pair.metrics
    yield _mismatched(metrics)
    yield from _greatest(metrics)
    yield from _nonfinite(metrics)
    if pair.tolerance:
        yield f"Tolerance: {allowed(pair.tolerance)}"
    if pair.required:
        yield _required(pair.required)


def _layout_and_sound(pair: Pair) -> Iterator[str]:
    if pair.audio:
        yield f"Sound: {pair.audio['verdict']}"
    if pair.alignment and not pair.alignment.is_identity:
        yield from _layout(pair.alignment)
    yield from token_findings(pair)


def _layout(alignment: Alignment) -> Iterator[str]:
    part = f", {alignment.coverage:.3g} of it" if alignment.coverage < 1 else ""
    yield f"Layout: {alignment.recipe}{part} (confidence {alignment.confidence:.2g})"
    if alignment.alternatives:
        yield f"Fits as well: {'; '.join(alignment.alternatives)}"
    yield from alignment.notes


def _mismatched(metrics: Metrics) -> str:
    share = 100 * metrics.mismatched / metrics.elements if metrics.elements else 0.0
    return f"Mismatched elements: {metrics.mismatched:,} / {metrics.elements:,} ({share:.3g} %)"


def _greatest(metrics: Metrics) -> Iterator[str]:
    if metrics.max_abs is None or metrics.argmax is None:
        return
    yield f"Greatest absolute difference: {_greatest_absolute(metrics)}"
    if metrics.max_rel is not None:
        left_out = (
            f" ({count(metrics.zero_reference, 'zero')} in the reference left out)" if metrics.zero_reference else ""
        )
        yield f"Greatest relative difference: {number(metrics.max_rel)}{left_out}"


def _greatest_absolute(metrics: Metrics) -> str:
    values = f"reference {exact(metrics.reference_at_max)}, candidate {exact(metrics.candidate_at_max)}"
    return f"{number(metrics.max_abs)} at index {list(metrics.argmax or ())} ({values})"


def _nonfinite(metrics: Metrics) -> Iterator[str]:
    found = (metrics.nan_reference, metrics.nan_candidate, metrics.inf_reference, metrics.inf_candidate)
    if any(found):
        yield (
            f"Not finite: {found[0]:,} NaN and {found[2]:,} Inf in the reference, "
            f"{found[1]:,} NaN and {found[3]:,} Inf in the candidate"
        )


def _required(required: Required) -> str:
    ways = [
        f"{name} {number(value)}"
        for name, value in (("atol", required.atol), ("rtol", required.rtol))
        if value is not None
    ]
    return f"Would match with {' or '.join(ways)}" if ways else "No tolerance would make it match"


def summary(comparison: Comparison) -> str:
    """Return the verdict, the counts behind it, and how much of the reference was compared."""
    found = comparison.summary
    names = ("mismatch", "inconclusive", "match", "missing", "extra", "failed")
    words = {} if comparison.complete else {"failed": "not reached or failed"}
    counts = [f"{getattr(found, name):,} {words.get(name, name)}" for name in names if getattr(found, name)]
    weights = sum(pair.status == "rewritten" and pair.role in ("param", "buffer") for pair in comparison.pairs)
    if found.rewritten > weights:
        counts.append(f"{found.rewritten - weights:,} written differently")
    if weights:
        counts.append(f"{count(weights, 'weight')} not compared")
    in_part = sum(pair.alignment is not None and pair.alignment.coverage < 1 for pair in comparison.pairs)
    if in_part:
        counts.append(f"{in_part:,} compared only in part")
    by_values = sum(pair.pairing is not None and pair.pairing.method == "content" for pair in comparison.pairs)
    if by_values:
        counts.append(f"{by_values:,} paired by values alone")
    said = _VERDICTS[comparison.verdict]
    if not comparison.complete:
        said = f"INCOMPLETE (interrupted), {said} so far"
    rows = ", ".join(counts) or "no tensors"
    return f"{said}: {rows}; {count(found.elements, 'element')} compared, {_share(found.coverage)} of the reference"


def _share(coverage: float) -> str:
    """Format a share of all elements; what is not all of it never reads as 100 %."""
    if coverage >= 1:
        return "all"
    return f"{min(100 * coverage, 99.9):.3g} %"


def divergence(comparison: Comparison, site: Divergence) -> str:
    """Return `First divergence: layers.2.ln_1, LayerNorm, [1, 24, 64] float32`."""
    pair = comparison.pairs[site.pair]
    kind = f", {pair.op}" if pair.op else ""
    return f"First divergence: {title(pair)}{kind}, {shape_and_type(pair)}"


def origin(site: Divergence) -> str:
    """Say where the error of a site comes from, and how that is known."""
    inside = ""
    if site.inside:
        inside = ", in the model's own code" if site.inside == ROOT else f", in the code of {site.inside}"
    between = f", between {' and '.join(site.between)}" if site.between else ""
    estimated = " (an estimate)" if site.estimated else ""
    reason = f": {site.reason}" if site.reason else ""
    return f"{_ORIGINS[site.origin]}{inside}{between}{estimated}{reason}"


def row_origin(pair: Pair) -> str | None:
    """Say where the error of a row comes from, and how that is known; None for a row that has none."""
    if pair.origin is None:
        return None
    reason = f": {pair.origin_reason}" if pair.origin_reason else ""
    return f"{_ORIGINS[pair.origin]}{reason}"


def answer(comparison: Comparison) -> Iterator[str]:
    """Explain the first divergence: origin, place in the tensor, cause, fix, figures, and other remarks."""
    first = comparison.first_divergence
    if first is None:
        return
    pair = comparison.pairs[first.pair]
    yield f"Origin: {origin(first)}"
    if pair.where:
        yield f"Where: {pair.where.text}"
    if comparison.settings.get("diagnose", True):
        yield from causes_of(comparison, pair)
    yield from _figures(pair)
    yield from notes(comparison)


def _figures(pair: Pair) -> Iterator[str]:
    """Return what was measured and what was allowed, shorter than `explain`."""
    if pair.metrics is None:
        yield f"Difference: {pair.reason}"
        yield from _layout_and_sound(pair)
        return
    elements = f"{pair.metrics.mismatched:,} of {pair.metrics.elements:,} elements"
    if pair.metrics.mismatched or not pair.reason:
        yield f"Difference: {elements}{': ' if pair.reason else ''}{pair.reason or ''}"
    else:
        yield f"Difference: {pair.reason}"
    yield from _layout_and_sound(pair)
    if pair.metrics.max_abs is not None and pair.metrics.argmax is not None:
        yield f"Greatest absolute difference: {_greatest_absolute(pair.metrics)}"
    yield from _nonfinite(pair.metrics)
    if pair.controlled:
        yield beside_control(pair.controlled)
    elif pair.tolerance:
        worst = _worst_element(pair, pair.tolerance)
        beyond = "" if not worst or math.isinf(worst) else f"; the worst element is {times(worst)} that"
        yield f"Tolerance: {allowed(pair.tolerance)}{beyond}"
    if pair.required:
        yield _required(pair.required)


def beside_control(found: Controlled) -> str:
    """Return the ratios to a control's error."""
    ratios = [("all", found.rms), ("row", found.row), ("channel", found.channel), ("element", found.element)]
    said = ", ".join(f"{name} {times(ratio)}" for name, ratio in ratios if ratio is not None)
    return f"Beside the control's error: {said}"


def causes_of(comparison: Comparison, pair: Pair) -> Iterator[str]:
    """Return the causes of one row, the likeliest first; "unknown" and why where there is none."""
    if not pair.diagnosis:
        why = [note.text for note in comparison.notes if note.key == pair.key and note.code == "no_cause"]
        if not comparison.complete:
            why.append("none was looked for before the interruption")
        elif _not_searched(comparison, pair.key):
            why.append(f"there was no time to look for it; {diagnose_command(comparison, pair.key)} does")
        yield f"Cause: {UNKNOWN}{': ' if why else ''}{'; '.join(why)}"
        return
    best, *others = pair.diagnosis
    yield f"Cause: {cause(best)}: {best.evidence}"
    yield f"Fix: {best.fix}"
    for other in others:
        yield f"Or: {cause(other)}: {other.evidence}; fix: {other.fix}"


def cause(found: Diagnosis) -> str:
    return f"{found.cause} (confidence {found.confidence:.2g})"


def notes(comparison: Comparison) -> Iterator[str]:
    """Return what else there is to know, without what `causes_of` says of the first divergence."""
    first = comparison.first_divergence.key if comparison.first_divergence else None
    for note in comparison.notes:
        if note.key is None or note.code in ("other", "record_next"):
            yield note.text
    left_out = [key for key in _keys_not_searched(comparison) if key != first]
    if left_out:
        yield (
            f"No time was left to look for the cause of {some(left_out, 3)}; "
            f"{diagnose_command(comparison, left_out[0])} does, and compare --effort full for all of them"
        )
    for note in comparison.notes:
        if note.code == "no_cause" and note.key != first:
            yield note.text


def _keys_not_searched(comparison: Comparison) -> list[str]:
    return list(dict.fromkeys(n.key for n in comparison.notes if n.code == "not_searched" and n.key is not None))


def _not_searched(comparison: Comparison, key: str) -> bool:
    return key in _keys_not_searched(comparison)


def diagnose_command(comparison: Comparison, key: str, *, windows: bool = os.name == "nt") -> str:
    """Return the command that looks for the cause of one row, quoted for the shell of this system."""
    words = ["firstdiff", "diagnose", comparison.reference.path, comparison.candidate.path, key]
    if not windows:
        return shlex.join(words)
    from subprocess import list2cmdline

    return list2cmdline(words)
