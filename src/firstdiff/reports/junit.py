"""JUnit XML: one test case for each row, for CI systems that show them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from firstdiff.reports import Report
from firstdiff.reports.sentences import answer, causes_of, explain, shape_and_type, title
from firstdiff.schema import Comparison, Pair

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _junit(comparison: Comparison) -> Iterator[str]:
    rows = [(pair, _problem(comparison, pair)) for pair in comparison.pairs]
    nothing = comparison.verdict == "not_compared"
    failures = sum(kind == "failure" for _, kind in rows) + nothing
    errors = sum(kind == "error" for _, kind in rows)
    seconds = float(comparison.timings.get("total", 0.0))
    yield '<?xml version="1.0" encoding="UTF-8"?>\n'
    yield (
        f'<testsuite name="firstdiff" tests="{len(rows) + nothing}" failures="{failures}" errors="{errors}" '
        f'time="{seconds:.3f}">\n'
    )
    for pair, kind in rows:
        yield from _case(comparison, pair, kind)
    if nothing:
        yield '  <testcase classname="firstdiff" name="comparison">\n'
        yield '    <failure message="nothing was compared"/>\n  </testcase>\n'
    yield "</testsuite>\n"


def _problem(comparison: Comparison, pair: Pair) -> str | None:
    if pair.status == "failed":
        return "error"
    tolerated = (pair.status == "missing" and comparison.settings.get("allow_missing")) or (
        pair.status == "extra" and comparison.settings.get("allow_extra")
    )
    return None if pair.status in ("match", "rewritten") or tolerated else "failure"


def _case(comparison: Comparison, pair: Pair, kind: str | None) -> Iterator[str]:
    head = f'  <testcase classname="firstdiff" name={_attribute(title(pair))}'
    if kind is None:
        yield head + "/>\n"
        return
    first = comparison.first_divergence
    mark = "first divergence: " if first is not None and first.pair == pair.index else ""
    lines = [shape_and_type(pair), *(answer(comparison) if mark else _lines(comparison, pair))]
    yield f"{head}>\n    <{kind} message={_attribute(mark + (pair.reason or pair.status))}>"
    yield f"{_text(chr(10).join(line for line in lines if line))}</{kind}>\n  </testcase>\n"


def _lines(comparison: Comparison, pair: Pair) -> Iterator[str]:
    yield from explain(pair)
    if pair.diagnosis:
        yield from causes_of(comparison, pair)


def _attribute(text: str) -> str:
    from xml.sax.saxutils import quoteattr  # brings http and ssl along

    return quoteattr(_NOT_XML.sub("\ufffd", text), {"\n": "&#10;", "\r": "&#13;", "\t": "&#9;"})


def _text(text: str) -> str:
    from xml.sax.saxutils import escape

    return escape(_NOT_XML.sub("\ufffd", text))


JUNIT = Report("junit", _junit)
