"""The comparison as a person reads it in a terminal: a table, then the answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from firstdiff.reports import Report
from firstdiff.reports.sentences import answer, divergence, isolated, number, sounds, summary, title
from firstdiff.reports.terminal import columns, paint, shown
from firstdiff.schema import Comparison, Pair

Sort = Literal["order", "worst"]

_HEAD = ("tensor", "status", "shape", "dtype", "max abs", "rel L2", "1 - cosine", "mismatched", "origin")
_RIGHT = frozenset({4, 5, 6, 7})
_STYLE = {"match": "green", "mismatch": "red", "failed": "red", "missing": "yellow", "extra": "yellow"}
_MOST_ROWS = 60
_SEVERITY = {"failed": 0, "mismatch": 1, "missing": 2, "extra": 3, "match": 4}


def render(comparison: Comparison, *, sort: Sort = "order", every_row: bool = False) -> Iterator[str]:
    """Lines of text.

    sort: in the order of execution, or the worst first
    every_row: also of a long comparison; otherwise matches are left out, and said to be, once there are many rows
    """
    for side, name in ((comparison.reference, "reference"), (comparison.candidate, "candidate")):
        yield f"{name}  {shown(side.path)}  {side.tensors:,} tensors\n"
    for warning in comparison.warnings:
        yield paint(f"warning: {shown(warning)}", "yellow") + "\n"
    yield "\n"
    pairs, left_out = _chosen(comparison.pairs, sort, every_row)
    rows = [_HEAD, *(_row(pair) for pair in pairs)]
    styles = ["bold", *(_STYLE[pair.status] for pair in pairs)]
    for line, style in zip(columns(rows, _RIGHT), styles, strict=True):
        yield (paint(line, style) if style != "green" else line) + "\n"
    if left_out:
        yield paint(f"… {left_out} (--all shows every row)", "dim") + "\n"
    yield from _answer(comparison)


def _answer(comparison: Comparison) -> Iterator[str]:
    yield "\n"
    for pair in comparison.pairs:
        if pair.recovers_from is not None:
            hidden = shown(comparison.pairs[pair.recovers_from].key)
            yield paint(
                f"{shown(pair.key)} matches although {hidden} before it does not: the error is hidden", "yellow"
            )
            yield "\n"
            break
    if comparison.first_divergence:
        yield paint(shown(divergence(comparison, comparison.first_divergence)), "bold") + "\n"
        for line in answer(comparison):
            yield f"  {shown(line)}\n"
    for line in sounds(comparison):
        yield shown(line) + "\n"
    alone = isolated(comparison)
    if alone:
        yield shown(alone) + "\n"
    yield paint(summary(comparison), "bold green" if comparison.verdict == "match" else "bold red") + "\n"


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
        return (*head, "", "", "", "") if pair.status in ("missing", "extra") else (*head, shown(pair.reason or ""))
    figures = (metrics.max_abs, metrics.rel_l2, metrics.one_minus_cosine)
    outside = f"{metrics.mismatched:,} / {metrics.elements:,}"
    alone = f", alone: {pair.isolated.status}" if pair.isolated else ""
    return (
        *head,
        *("-" if value is None else _brief(value) for value in figures),
        outside,
        f"{pair.origin or ''}{alone}",
    )


def _layout(pair: Pair) -> str:
    """The recipe, where there is one, and how much of the tensor it left to compare."""
    if pair.alignment is None or pair.alignment.recipe == "identity":
        return ""
    part = f" {pair.alignment.coverage:.3g}" if pair.alignment.coverage < 1 else ""
    return f"  {pair.alignment.recipe}{part}"


def _brief(value: float) -> str:
    return f"{value:.3g}" if isinstance(value, float) else number(value)


def _dtype(pair: Pair) -> str:
    found = [side.dtype for side in (pair.reference, pair.candidate) if side and side.dtype]
    return "/".join(dict.fromkeys(found))


TEXT = Report("text", render)
