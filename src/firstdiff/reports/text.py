"""The terminal report of a comparison: the answer, then the rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from firstdiff.reports import Report
from firstdiff.reports.outline import (
    ORIGINS,
    RowGroup,
    differing_by_layer,
    introduced_rows,
    is_quantised,
    other_rows,
    remarks,
)
from firstdiff.reports.sentences import answer, cause, count, divergence, excess, notes, number, summary, times, title
from firstdiff.reports.terminal import columns, paint, shown
from firstdiff.schema import Comparison, Pair

Sort = Literal["order", "worst"]

_HEAD = ("tensor", "status", "shape", "dtype", "max abs", "rel L2", "1 - cosine", "mismatched", "origin")
_RIGHT = frozenset({4, 5, 6, 7})
_STYLE = {
    "match": "green",
    "mismatch": "red",
    "failed": "red",
    "missing": "yellow",
    "extra": "yellow",
    "inconclusive": "yellow",
    "rewritten": "dim",
}
_NOT_COMPARED = ("missing", "extra", "rewritten")
# a comparison of so few rows is shown row by row
_SHORT = 16
_MOST_ROWS = 60
_MOST_INTRODUCED = 5
_SCREEN = 40  # lines that the lists are folded to
_FEWEST_GROUPS = 8
_LINES_OF_A_HEAD = 3  # of a folded list: an empty one, its title, its columns
_SEVERITY = {"failed": 0, "mismatch": 1, "missing": 2, "extra": 3, "inconclusive": 1, "rewritten": 4, "match": 5}


def render(comparison: Comparison, *, sort: Sort = "order", every_row: bool = False) -> Iterator[str]:
    """Return lines of text: verdict and first divergence, rows where errors were introduced, the others by layer.

    sort: in the order of execution, or a table of rows with the worst first
    every_row: a table of all rows instead of the short lists
    """
    head = [*_head(comparison), *_answer(comparison)]
    tail = [shown(line) + "\n" for line in remarks(comparison)]
    if not every_row and len(comparison.pairs) > _SHORT:
        tail.append(paint("--all prints every row, --sort worst the worst first; x: times its limit", "dim") + "\n")
    yield from head
    if every_row or sort == "worst" or len(comparison.pairs) <= _SHORT:
        yield from _table(comparison.pairs, sort, every_row, with_sqnr=is_quantised(comparison))
    else:
        yield from _lists(comparison, _SCREEN - _lines(head) - _lines(tail))
    yield from tail


def _head(comparison: Comparison) -> Iterator[str]:
    yield paint(shown(summary(comparison)), "bold green" if comparison.verdict == "match" else "bold red") + "\n"
    for side, name in ((comparison.reference, "reference"), (comparison.candidate, "candidate")):
        yield f"{name}  {shown(side.path)}  {count(side.tensors, 'tensor')}\n"
    if comparison.control:
        yield f"control    {shown(comparison.control.path)}  {count(comparison.control.tensors, 'tensor')}\n"
    for warning in comparison.warnings:
        yield paint(f"warning: {shown(warning)}", "yellow") + "\n"


def _lines(texts: Sequence[str]) -> int:
    return sum(text.count("\n") for text in texts)


def _answer(comparison: Comparison) -> Iterator[str]:
    if comparison.first_divergence is None:
        yield from (shown(line) + "\n" for line in notes(comparison))
        return
    yield "\n" + paint(shown(divergence(comparison, comparison.first_divergence)), "bold") + "\n"
    for line in answer(comparison):
        yield f"  {shown(line)}\n"


def _lists(comparison: Comparison, room: int) -> Iterator[str]:
    """The rows that do not match, in `room` lines where that can be: layers share a line where there are many."""
    sites = introduced_rows(comparison)
    first = comparison.first_divergence
    listed = sites and (len(sites) > 1 or first is None or sites[0].index != first.pair)
    introduced = [f"Introduced: {count(len(sites), 'row')}", *_sites(sites)] if listed else []
    others = ["\n", *(shown(line) + "\n" for line in other_rows(comparison))]
    folded = [origin for origin in ORIGINS if differing_by_layer(comparison, origin)]
    room -= len(others) + (len(introduced) + 1 if introduced else 0)
    if introduced:
        yield "\n" + paint(introduced[0], "bold") + "\n"
        yield from introduced[1:]
    for origin in folded:
        groups = differing_by_layer(comparison, origin, max(room // len(folded) - _LINES_OF_A_HEAD, _FEWEST_GROUPS))
        total = sum(group.rows for group in groups)
        yield "\n" + paint(f"{ORIGINS[origin]}: {count(total, 'row')}, by layer", "bold") + "\n"
        cells = [("layer", "rows", "worst", "tensor"), *map(_group_cells, groups)]
        yield from (f"  {line}\n" for line in columns(cells, frozenset({1, 2}), shrinks=3))
    yield from others


def _sites(sites: Sequence[Pair]) -> Iterator[str]:
    """One line a row, and the fix under the first row of each cause."""
    kept = sites[:_MOST_INTRODUCED]
    rows = [("tensor", "op", "worst", "cause"), *map(_site_cells, kept)]
    fixes = {pair.diagnosis[0].cause: pair for pair in reversed(kept[1:]) if pair.diagnosis}
    known = {kept[0].diagnosis[0].cause} if kept[0].diagnosis else set()
    lines = list(columns(rows, frozenset({2})))
    yield f"  {lines[0]}\n"
    for pair, line in zip(kept, lines[1:], strict=True):
        yield f"  {line}\n"
        if pair.diagnosis and fixes.get(pair.diagnosis[0].cause) is pair and pair.diagnosis[0].cause not in known:
            yield f"    fix: {shown(pair.diagnosis[0].fix)}\n"
    if len(sites) > len(kept):
        yield f"  … and {len(sites) - len(kept):,} more\n"


def _site_cells(pair: Pair) -> tuple[str, ...]:
    found = cause(pair.diagnosis[0]) if pair.diagnosis else ""
    return shown(title(pair)), pair.op or "", times(excess(pair)), found


def _group_cells(group: RowGroup) -> tuple[str, ...]:
    return group.label, f"{group.rows:,}", times(group.ratio), shown(group.worst.key)


def _table(pairs: Sequence[Pair], sort: Sort, every_row: bool, *, with_sqnr: bool) -> Iterator[str]:
    chosen, left_out = _chosen(pairs, sort, every_row)
    rows = [_HEAD, *(_row(pair) for pair in chosen)]
    if with_sqnr:
        rows = [(row[0], figure, *row[1:]) for row, figure in zip(rows, ("SQNR", *map(_sqnr, chosen)), strict=True)]
    styles = ["bold", *(_STYLE.get(pair.status, "green") for pair in chosen)]
    yield "\n"
    right = frozenset({1, *(column + 1 for column in _RIGHT)}) if with_sqnr else _RIGHT
    for line, style in zip(columns(rows, right), styles, strict=True):
        yield (paint(line, style) if style != "green" else line) + "\n"
    if left_out:
        yield paint(f"… {left_out} (--all prints every row)", "dim") + "\n"


def _chosen(pairs: Sequence[Pair], sort: Sort, every_row: bool) -> tuple[list[Pair], str]:
    ordered = sorted(pairs, key=_badness) if sort == "worst" else list(pairs)
    if every_row or len(ordered) <= _MOST_ROWS:
        return ordered, ""
    problems = [pair for pair in ordered if pair.status != "match"]
    kept = problems[:_MOST_ROWS]
    hidden = [f"{len(ordered) - len(problems):,} more that match"] if len(ordered) > len(problems) else []
    hidden += [f"{len(problems) - len(kept):,} more that do not"] if len(problems) > len(kept) else []
    return kept, ", ".join(hidden)


def _badness(pair: Pair) -> tuple[int, float]:
    figure = pair.metrics.rel_l2 if pair.metrics and pair.metrics.rel_l2 is not None else float("inf")
    return _SEVERITY[pair.status], -figure


def _row(pair: Pair) -> tuple[str, ...]:
    side = pair.reference or pair.candidate
    shape = "" if side is None or side.shape is None else str(list(side.shape))
    head = (shown(title(pair)), pair.status, shape + _layout(pair), _dtype(pair))
    metrics = pair.metrics
    if metrics is None:
        return (
            (*head, "", "", "", "")
            if pair.status in ("missing", "extra", "rewritten")
            else (*head, shown(pair.reason or ""))
        )
    figures = (metrics.max_abs, metrics.rel_l2, metrics.one_minus_cosine)
    outside = f"{metrics.mismatched:,} / {metrics.elements:,}"
    alone = f"alone: {pair.isolated.status}" if pair.isolated and pair.isolated.status != "unknown" else None
    return (
        *head,
        *("-" if value is None else _brief(value) for value in figures),
        outside,
        ", ".join(filter(None, (pair.origin, alone))),
    )


def _sqnr(pair: Pair) -> str:
    level = pair.metrics.sqnr_db if pair.metrics else None
    return "" if level is None else f"{level:.1f} dB"


def _layout(pair: Pair) -> str:
    """The recipe, where there is one, and how much of the tensor it left to compare."""
    if pair.alignment is None or pair.alignment.is_identity:
        return ""
    part = f" {pair.alignment.coverage:.3g}" if pair.alignment.coverage < 1 else ""
    return f"  {pair.alignment.recipe}{part}"


def _brief(value: float) -> str:
    return f"{value:.3g}" if isinstance(value, float) else number(value)


def _dtype(pair: Pair) -> str:
    found = [side.dtype for side in (pair.reference, pair.candidate) if side and side.dtype]
    return "/".join(dict.fromkeys(found))


TEXT = Report("text", render)
