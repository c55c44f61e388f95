"""A comparison on its way into the store: its rows in short, the tensors of each side, and what the list shows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from firstdiff.reports.sentences import divergence
from firstdiff.schema import Comparison
from firstdiff.server.heads import choices_of
from firstdiff.server.lines import TensorLine, line_of
from firstdiff.server.third import third_keys
from firstdiff.store.entry import Kind, Outcome
from firstdiff.store.results import Written, write_result
from firstdiff.trace import Trace


def write_compared(folder: Path, kind: Kind, comparison: Comparison, traces: Mapping[str, Trace]) -> Outcome:
    """Write the result, and return what the list of comparisons shows of it."""
    third = third_keys(comparison, traces["reference"], traces["third"]) if "third" in traces else {}
    tensors = {side: _tensors(comparison, side, trace) for side, trace in traces.items()}
    lines = [line_of(pair) for pair in comparison.pairs]
    write_result(folder, Written(comparison, lines, tensors, third, choices_of(lines)))
    first = comparison.first_divergence
    return Outcome(
        verdict=None if kind == "look" else comparison.verdict,
        summary=comparison.summary,
        first=divergence(comparison, first) if first else None,
        tensors={side: len(trace) for side, trace in traces.items()},
    )


def _tensors(comparison: Comparison, side: str, trace: Trace) -> list[TensorLine]:
    rows: dict[str, int] = {}
    for pair in comparison.pairs:
        info = pair.reference if side == "reference" else pair.candidate
        for key in info.name.split(" + ") if info else ():
            rows.setdefault(key, pair.index)
    return [
        TensorLine(
            key=str(tensor.key),
            shape=tensor.source.shape if tensor.source else None,
            dtype=tensor.source.dtype.name if tensor.source else None,
            row=rows.get(str(tensor.key)),
        )
        for tensor in trace
    ]
