"""Markdown, for pull requests and notes: the answer, the rows where errors were introduced, the others by layer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from firstdiff.reports import Report
from firstdiff.reports.outline import ORIGINS, differing_by_layer, introduced_rows, other_rows, remarks
from firstdiff.reports.sentences import (
    answer,
    cause,
    count,
    divergence,
    excess,
    notes,
    number,
    shape_and_type,
    summary,
    times,
    title,
)
from firstdiff.reports.terminal import shown
from firstdiff.schema import Comparison, Pair

_MOST_ROWS = 200


def _markdown(comparison: Comparison) -> Iterator[str]:
    yield f"## firstdiff: {_inline(summary(comparison))}\n\n"
    for side, name in ((comparison.reference, "Reference"), (comparison.candidate, "Candidate")):
        yield f"{name}: {_code(side.path)}, {count(side.tensors, 'tensor')}  \n"
    yield "\n"
    for warning in comparison.warnings:
        yield f"> {_inline(warning)}\n\n"
    if comparison.first_divergence:
        yield f"**{_inline(divergence(comparison, comparison.first_divergence))}**\n\n"
        yield from _bullets(list(answer(comparison)))
    else:
        yield from _bullets(list(notes(comparison)))
    yield from _introduced(introduced_rows(comparison))
    yield from _inherited(comparison)
    yield from _bullets([*other_rows(comparison), *remarks(comparison)])
    yield from _every_row([pair for pair in comparison.pairs if pair.status not in ("match", "rewritten")])


def _introduced(sites: Sequence[Pair]) -> Iterator[str]:
    if not sites:
        return
    yield f"**Introduced: {count(len(sites), 'row')}**\n\n"
    yield "| tensor | op | times its limit | cause | fix |\n|---|---|---|---|---|\n"
    for pair in sites[:_MOST_ROWS]:
        best = pair.diagnosis[0] if pair.diagnosis else None
        found = (_inline(cause(best)), _inline(best.fix)) if best else ("", "")
        yield f"| {_code(title(pair))} | {_inline(pair.op or '')} | {times(excess(pair))} | {' | '.join(found)} |\n"
    yield _more(sites)


def _inherited(comparison: Comparison) -> Iterator[str]:
    for origin, name in ORIGINS.items():
        groups = differing_by_layer(comparison, origin)
        if groups:
            yield f"**{name}: {count(sum(group.rows for group in groups), 'row')}, by layer**\n\n"
            yield "| layer | rows | times its limit, at worst | tensor |\n|---|---|---|---|\n"
            for group in groups:
                cells = (_inline(group.label), f"{group.rows:,}", times(group.ratio), _code(group.worst.key))
                yield f"| {' | '.join(cells)} |\n"
            yield "\n"


def _every_row(rows: Sequence[Pair]) -> Iterator[str]:
    if not rows:
        return
    yield f"<details><summary>{count(len(rows), 'row')} that did not match</summary>\n\n"
    yield "| status | tensor | shape | max abs | rel L2 | 1 - cosine | mismatched |\n"
    yield "|---|---|---|---|---|---|---|\n"
    for pair in rows[:_MOST_ROWS]:
        yield _row(pair)
    yield _more(rows)
    yield "</details>\n"


def _more(rows: Sequence[Pair]) -> str:
    """Return the end of a table, which says how many rows were left out."""
    return f"\n… and {len(rows) - _MOST_ROWS:,} more rows.\n\n" if len(rows) > _MOST_ROWS else "\n"


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


def _bullets(lines: Sequence[str]) -> Iterator[str]:
    yield from (f"- {_inline(line)}\n" for line in lines)
    if lines:
        yield "\n"


def _code(text: str) -> str:
    """In backticks that the text cannot close, on one line, with no cell border in it."""
    text = shown(text).replace("|", "\\|")
    fence = "``" if "`" in text else "`"
    return f"{fence} {text} {fence}" if "`" in text else f"{fence}{text}{fence}"


def _inline(text: str) -> str:
    marks = "\\`*_<>|[]"
    return "".join(f"\\{letter}" if letter in marks else letter for letter in shown(text))


MARKDOWN = Report("md", _markdown)
