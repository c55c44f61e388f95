"""One trace against itself: all its tensors of one shape, each with each."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

from firstdiff.comparing.measuring import Measuring, Progress
from firstdiff.comparing.options import Options
from firstdiff.comparing.outcome import THE_SAME, comparison_of
from firstdiff.locate import Located
from firstdiff.pairing import Match, PairingResult
from firstdiff.schema import Comparison, Pairing
from firstdiff.trace import Trace

MOST_PAIRS = 20_000


def compare_each_other(trace: Trace, options: Options, progress: Progress | None = None) -> Comparison:
    """A row for every two tensors of equal shape, in the order of the trace; there is no first divergence.

    >>> compare_each_other(Trace.from_arrays({"a": [1.0], "b": [1.0], "c": [1.0]}), Options()).summary.match
    3
    """
    begun = time.perf_counter()
    found = list(_pairs(trace))
    matches = tuple(Match((one,), (other,), Pairing("self", 1.0)) for one, other in found[:MOST_PAIRS])
    paired = PairingResult(trace, trace, matches, (), (), _warnings(trace, found))
    measuring = Measuring(paired, options, progress)
    rows = [row.pair for row in measuring.rows(matches)]
    located = Located(tuple(replace(row, index=index) for index, row in enumerate(rows)), None, (), (), ())
    whole = comparison_of(paired, located, options, {"total": time.perf_counter() - begun})
    return replace(whole, warnings=tuple(text for text in whole.warnings if text != THE_SAME))


def _pairs(trace: Trace) -> Iterator[tuple[int, int]]:
    by_shape: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for place, tensor in enumerate(trace):
        if tensor.source is not None:
            by_shape[tensor.source.shape].append(place)
    yield from sorted(pair for places in by_shape.values() for pair in combinations(places, 2))


def _warnings(trace: Trace, found: list[tuple[int, int]]) -> tuple[str, ...]:
    said = []
    if len(found) > MOST_PAIRS:
        said.append(f"of {len(found):,} pairs of equal shape the first {MOST_PAIRS:,} were compared")
    unread = [tensor.name for tensor in trace if tensor.source is None]
    if unread:
        said.append(f"left out, since they cannot be read: {', '.join(unread[:3])}{' …' if len(unread) > 3 else ''}")
    if not found:
        said.append("no two tensors have the same shape, so there is nothing to compare")
    return tuple(said)
