"""`fd.assert_match`: a comparison as an assertion with a full error message."""

from __future__ import annotations

from typing import Any

from firstdiff.comparing import Comparable, LayoutMode, compare
from firstdiff.reports.sentences import answer, divergence, explain, shape_and_type, summary, title
from firstdiff.schema import Comparison, Pair

_MOST_FAILURES = 50


def assert_match(
    reference: Comparable, candidate: Comparable, *, layout: LayoutMode = "strict", **options: Any
) -> None:
    """Raise AssertionError unless two runs match; the message tells every failure, not only the first.

    >>> import firstdiff as fd
    >>> fd.assert_match({"x": [1.0]}, {"x": [1.0]})

    layout: nothing but the same layout matches; "auto" lets in what the shapes call for
    options: those of `fd.compare`
    """
    __tracebackhide__ = True
    comparison = compare(reference, candidate, layout=layout, **options)
    if comparison.verdict != "match":
        raise AssertionError(message(comparison))


def message(comparison: Comparison) -> str:
    """Return the error message: the first divergence, then the failing rows, then warnings."""
    failures = [pair for pair in comparison.pairs if pair.status not in ("match", "rewritten")]
    parts = [f"{comparison.reference.path} and {comparison.candidate.path}: {summary(comparison)}"]
    if comparison.first_divergence:
        parts.append("\n  ".join([divergence(comparison, comparison.first_divergence), *answer(comparison)]))
    parts += [_block(pair) for pair in failures[:_MOST_FAILURES]]
    if len(failures) > _MOST_FAILURES:
        parts.append(f"… and {len(failures) - _MOST_FAILURES:,} more")
    parts += [f"warning: {warning}" for warning in comparison.warnings]
    return "\n\n".join(parts)


def _block(pair: Pair) -> str:
    head = f"{title(pair)}: {pair.status}"
    about = shape_and_type(pair)
    return "\n  ".join([f"{head}, {about}" if about else head, *explain(pair)])
