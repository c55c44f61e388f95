"""A pair in words: the sentences that every report and error message share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from firstdiff.reports.causes import causes
from firstdiff.schema import Alignment, Comparison, Divergence, Metrics, Pair, Tolerance

_MOST_SOUNDS = 20


def number(value: Any) -> str:
    """Short, but never so short that two different numbers of interest look alike."""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return str(value)


def count(amount: int, noun: str) -> str:
    return f"{amount:,} {noun}{'' if amount == 1 else 's'}"


def exact(value: Any) -> str:
    """A value as it is in the tensor, all digits."""
    if isinstance(value, complex):
        return f"({value.real!r}{value.imag:+}j)"
    return repr(value)


def title(pair: Pair) -> str:
    """The key, with the candidate's own name where it has another."""
    other = pair.candidate.name if pair.candidate and pair.reference else pair.key
    return pair.key if other == pair.key else f"{pair.key} (candidate: {other})"


def shape_and_type(pair: Pair) -> str:
    """`[1, 16, 64] float32`, or both sides where they differ."""
    sides = [
        f"{list(side.shape or ())} {side.dtype}" for side in (pair.reference, pair.candidate) if side and side.dtype
    ]
    return " against ".join(dict.fromkeys(sides))


def allowed(tolerance: Tolerance) -> str:
    """What was allowed, and by which rule."""
    if tolerance.rule == "exact":
        return "equal values (integers are compared exactly)"
    if tolerance.rule == "floor":
        return f"{number(tolerance.atol)} ({number(tolerance.k)} times the recorded floor of {number(tolerance.floor)})"
    text = f"{number(tolerance.atol)} + {number(tolerance.rtol)} * |reference|"
    if tolerance.rule == "default":
        return f"{text} (default: {number(tolerance.k)} eps of deviation and value)"
    return f"{text} ({tolerance.source})"


def explain(pair: Pair) -> Iterator[str]:
    """Why a pair has its status, one finding a line."""
    if pair.reason:
        yield pair.reason
    if pair.audio:
        yield f"Sound: {pair.audio['verdict']}"
    if pair.alignment and pair.alignment.recipe != "identity":
        yield from _layout(pair.alignment)
    if pair.metrics is None or pair.status != "mismatch":
        return
    metrics = pair.metrics
    yield _mismatched(metrics)
    yield from _greatest(metrics)
    yield from _nonfinite(metrics)
    if pair.tolerance:
        yield f"Allowed: {allowed(pair.tolerance)}"
    if pair.required:
        yield from _required(pair)


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
    if metrics.max_abs is None:
        return
    at = list(metrics.argmax or ())
    values = f"reference {exact(metrics.reference_at_max)}, candidate {exact(metrics.candidate_at_max)}"
    yield f"Greatest absolute difference: {number(metrics.max_abs)} at index {at} ({values})"
    if metrics.max_rel is not None:
        left_out = (
            f" ({count(metrics.zero_reference, 'zero')} in the reference left out)" if metrics.zero_reference else ""
        )
        yield f"Greatest relative difference: {number(metrics.max_rel)}{left_out}"


def _nonfinite(metrics: Metrics) -> Iterator[str]:
    found = (metrics.nan_reference, metrics.nan_candidate, metrics.inf_reference, metrics.inf_candidate)
    if any(found):
        yield (
            f"Not finite: {found[0]:,} NaN and {found[2]:,} Inf in the reference, "
            f"{found[1]:,} NaN and {found[3]:,} Inf in the candidate"
        )


def _required(pair: Pair) -> Iterator[str]:
    required = pair.required
    if required is None:
        return
    ways = [
        f"{name} {number(value)}"
        for name, value in (("atol", required.atol), ("rtol", required.rtol))
        if value is not None
    ]
    yield f"Would match with {' or '.join(ways)}" if ways else "No tolerance would make it match"


def summary(comparison: Comparison) -> str:
    """The last line: the verdict and the counts behind it."""
    found = comparison.summary
    counts = ", ".join(
        f"{getattr(found, name):,} {name}" for name in ("match", "mismatch", "missing", "extra", "failed")
    )
    in_part = sum(pair.alignment is not None and pair.alignment.coverage < 1 for pair in comparison.pairs)
    if in_part:
        counts += f", {in_part:,} compared only in part"
    said = {"match": "MATCH", "mismatch": "MISMATCH", "not_compared": "NOTHING COMPARED"}[comparison.verdict]
    return f"{said}: {counts}; {count(found.elements, 'element')} compared"


def divergence(comparison: Comparison, site: Divergence) -> str:
    """`First divergence: layers.2.ln_1, LayerNorm, [1, 24, 64] float32`."""
    pair = comparison.pairs[site.pair]
    kind = f", {pair.op}" if pair.op else ""
    return f"First divergence: {title(pair)}{kind}, {shape_and_type(pair)}"


def answer(comparison: Comparison) -> Iterator[str]:
    """The first divergence, who made the error, where it sits, what else there is to know, and the cause."""
    first = comparison.first_divergence
    if first is None:
        return
    pair = comparison.pairs[first.pair]
    yield from _made_by(first, pair)
    if pair.where:
        yield f"Where: {pair.where.text}"
    yield from explain(pair)
    others = [site.key for site in comparison.divergences if site.pair != first.pair]
    if others:
        more = f" and {len(others) - 5:,} more" if len(others) > 5 else ""
        yield f"Introduced elsewhere, too: {', '.join(others[:5])}{more}"
    yield from (note.text for note in comparison.notes)
    yield from causes(comparison)


def sounds(comparison: Comparison) -> Iterator[str]:
    """What there is to say of rows that are sound, but for the first divergence, whose answer says it."""
    first = comparison.first_divergence.pair if comparison.first_divergence else None
    found = [pair for pair in comparison.pairs if pair.audio and pair.index != first]
    for pair in found[:_MOST_SOUNDS]:
        yield f"Sound of {title(pair)}: {pair.audio['verdict'] if pair.audio else ''}"
    if len(found) > _MOST_SOUNDS:
        yield f"… and {len(found) - _MOST_SOUNDS:,} more sounds"


def _made_by(site: Divergence, pair: Pair) -> Iterator[str]:
    words = {
        "introduced": "The error was made here",
        "inherited": "The error came in with the inputs",
        "unknown": "Who made the error cannot be told",
    }[site.origin]
    inside = f", in the code of {site.inside}" if site.inside else ""
    between = f", between {' and '.join(site.between)}" if site.between else ""
    reason = f" ({pair.origin_reason})" if pair.origin_reason else ""
    yield f"{words}{inside}{between}{reason}"


def isolated(comparison: Comparison) -> str | None:
    """What judging each operation alone found; None if that was not asked for."""
    judged = [pair for pair in comparison.pairs if pair.isolated is not None]
    if not judged:
        return None
    broken = [pair.key for pair in judged if pair.isolated and pair.isolated.status == "mismatch"]
    unknown = sum(pair.isolated is not None and pair.isolated.status == "unknown" for pair in judged)
    shown = ", ".join(broken[:8]) + (f" and {len(broken) - 8:,} more" if len(broken) > 8 else "")
    differ = "operation differs" if len(broken) == 1 else "operations differ"
    head = f"Alone, on its own inputs, {len(broken):,} {differ}: {shown}" if broken else "Alone, no operation differs"
    return f"{head}; {unknown:,} of {len(judged):,} could not be judged alone"
