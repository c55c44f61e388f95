"""Markdown, for pull requests and notes: the verdict, the first divergence, the rows that do not match."""

from __future__ import annotations

from collections.abc import Iterator

from firstdiff.reports import Report
from firstdiff.reports.sentences import answer, divergence, number, shape_and_type, sounds, summary, title
from firstdiff.reports.terminal import shown
from firstdiff.schema import Comparison, Pair

_MOST_ROWS = 200


def _markdown(comparison: Comparison) -> Iterator[str]:
    yield f"## firstdiff: {summary(comparison)}\n\n"
    yield f"Reference: {_code(comparison.reference.path)}, {comparison.reference.tensors:,} tensors  \n"
    yield f"Candidate: {_code(comparison.candidate.path)}, {comparison.candidate.tensors:,} tensors\n\n"
    for warning in comparison.warnings:
        yield f"> {_inline(warning)}\n\n"
    if comparison.first_divergence:
        yield f"**{_inline(divergence(comparison, comparison.first_divergence))}**\n\n"
        for line in answer(comparison):
            yield f"- {_inline(line)}\n"
        yield "\n"
    heard = [f"- {_inline(line)}\n" for line in sounds(comparison)]
    if heard:
        yield from (*heard, "\n")
    rows = [pair for pair in comparison.pairs if pair.status != "match"]
    if rows:
        yield "| status | tensor | shape | max abs | rel L2 | 1 - cosine | mismatched |\n"
        yield "|---|---|---|---|---|---|---|\n"
        for pair in rows[:_MOST_ROWS]:
            yield _row(pair)
        if len(rows) > _MOST_ROWS:
            yield f"\n… and {len(rows) - _MOST_ROWS:,} more rows.\n"


def _row(pair: Pair) -> str:
    metrics = pair.metrics
    if metrics is None:
        figures = ["", "", "", _inline(pair.reason or "")]
    else:
        figures = [
            "" if value is None else number(value)
            for value in (metrics.max_abs, metrics.rel_l2, metrics.one_minus_cosine)
        ]
        figures.append(f"{metrics.mismatched:,} / {metrics.elements:,}")
    return f"| {pair.status} | {_code(title(pair))} | {_inline(shape_and_type(pair))} | {' | '.join(figures)} |\n"


def _code(text: str) -> str:
    """In backticks that the text cannot close, on one line, with no cell border in it."""
    text = shown(text).replace("|", "\\|")
    fence = "``" if "`" in text else "`"
    return f"{fence} {text} {fence}" if "`" in text else f"{fence}{text}{fence}"


def _inline(text: str) -> str:
    marks = "\\`*_<>|[]"
    return "".join(f"\\{letter}" if letter in marks else letter for letter in shown(text))


MARKDOWN = Report("md", _markdown)
