"""JSON reports: one document, or one line for each row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from firstdiff.json_text import plain, to_json
from firstdiff.reports import Report
from firstdiff.schema import Comparison


def _document(comparison: Comparison) -> Iterator[str]:
    yield to_json(comparison, indent=1) + "\n"


def _lines(comparison: Comparison) -> Iterator[str]:
    """Header, pairs, footer: a reader of a huge run holds one row at a time."""
    whole = plain(replace(comparison, pairs=()))
    footer = {
        name: whole.pop(name)
        for name in ("verdict", "summary", "first_divergence", "divergences", "diagnosis", "timings", "complete")
    }
    del whole["pairs"]
    yield to_json({"kind": "header", **whole}) + "\n"
    for pair in comparison.pairs:
        yield to_json({"kind": "pair", **plain(pair)}) + "\n"
    yield to_json({"kind": "footer", **footer}) + "\n"


JSON = Report("json", _document)
JSONL = Report("jsonl", _lines)
