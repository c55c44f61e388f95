"""What a diagnosis says, in lines: cause, evidence, fix."""

from __future__ import annotations

from collections.abc import Iterator

from firstdiff.schema import Comparison, Diagnosis, Pair

UNKNOWN = "unknown"


def causes(comparison: Comparison) -> Iterator[str]:
    """The causes of the first divergence, then the likeliest one of every other place where an error was made."""
    first = comparison.first_divergence
    if first is None or not comparison.settings.get("diagnose", True):
        return
    yield from causes_of(comparison.pairs[first.pair])
    for site in comparison.divergences:
        pair = comparison.pairs[site.pair]
        if site.pair != first.pair and pair.diagnosis:
            yield f"Cause at {pair.key}: {_said(pair.diagnosis[0])}; fix: {pair.diagnosis[0].fix}"


def causes_of(pair: Pair) -> Iterator[str]:
    """The causes of one row, the likeliest first; "unknown" where no cause that was tested explains it."""
    if not pair.diagnosis:
        yield f"Cause: {UNKNOWN}"
        return
    best, *others = pair.diagnosis
    yield f"Cause: {_said(best)}"
    yield f"Fix: {best.fix}"
    for other in others:
        yield f"Or: {_said(other)}; fix: {other.fix}"


def _said(cause: Diagnosis) -> str:
    return f"{cause.cause} (confidence {cause.confidence:.2g}): {cause.evidence}"
