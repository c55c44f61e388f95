"""Summarise one trace alone: statistics of its tensors, or all tensors of one shape against each other."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

from firstdiff.comparing.options import Effort, Options
from firstdiff.comparing.pair_comparison import PairComparison
from firstdiff.comparing.progress import OnProgress, Progress, Stage
from firstdiff.comparing.rows import MatchedPair, matched_pairs, tensor_info
from firstdiff.comparing.summary import NOTHING_FOUND, comparison_of, single_comparison_of
from firstdiff.errors import ReadError
from firstdiff.locate import Located, LocatedPair, MeasuredPair
from firstdiff.measure import measure_statistics
from firstdiff.pairing import Match, PairingResult
from firstdiff.schema import Comparison, Pairing
from firstdiff.trace import Trace

MOST_PAIRS = 20_000


def summarize_trace(trace: Trace, options: Options, on_progress: OnProgress | None = None) -> Comparison:
    """Return the tensors of a trace as rows of status `alone`; those that cannot be read are `failed`.

    >>> summarize_trace(Trace.from_arrays({"x": [1.0, 3.0]}), Options()).pairs[0].reference.statistics.mean
    2.0
    """
    begun = time.perf_counter()
    total = sum(tensor.source.nbytes for tensor in trace if tensor.source)
    done = 0
    rows: list[MeasuredPair] = []
    for index, tensor in enumerate(trace):
        rows.append(_row(MatchedPair(index, (tensor,), ())))
        done += tensor.source.nbytes if tensor.source else 0
        if on_progress:
            on_progress(Progress(Stage.MEASURING, done, total))
    return single_comparison_of(trace, rows, options, {"total": time.perf_counter() - begun})


def _row(matched: MatchedPair) -> MeasuredPair:
    try:
        source = matched.first.values()
        statistics = measure_statistics(source)
    except ReadError as error:
        return matched.measured("failed", reason=str(error))
    info = tensor_info(matched.references)
    assert info is not None, "the row is of this tensor"
    reason = "no elements" if math.prod(source.shape) == 0 else None
    return matched.measured("alone", reason=reason, reference_info=replace(info, statistics=statistics))


def compare_each_other(trace: Trace, options: Options, on_progress: OnProgress | None = None) -> Comparison:
    """Compare every two tensors of equal shape, in the order of the trace; there is no first divergence.

    >>> compare_each_other(Trace.from_arrays({"a": [1.0], "b": [1.0], "c": [1.0]}), Options()).summary.match
    3
    """
    begun = time.perf_counter()
    found = list(_pairs(trace))
    matches = tuple(Match((one,), (other,), Pairing("self", 1.0)) for one, other in found[:MOST_PAIRS])
    paired = PairingResult(trace, trace, matches, (), (), _warnings(trace, found))
    rows = matched_pairs(paired)
    total = sum(row.nbytes for row in rows)

    def on_bytes(done: int) -> None:
        if on_progress:
            on_progress(Progress(Stage.MEASURING, min(done, total), total))

    measured = PairComparison(paired, options, Effort(options.effort), on_bytes).measure(rows)
    located = Located(tuple(LocatedPair(measured=row) for row in measured), None, (), (), ())
    return comparison_of(paired, located, NOTHING_FOUND, options, {"total": time.perf_counter() - begun})


def _pairs(trace: Trace) -> Iterator[tuple[int, int]]:
    by_shape: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for index, tensor in enumerate(trace):
        if tensor.source is not None:
            by_shape[tensor.source.shape].append(index)
    yield from sorted(pair for indices in by_shape.values() for pair in combinations(indices, 2))


def _warnings(trace: Trace, found: list[tuple[int, int]]) -> tuple[str, ...]:
    warnings = []
    if len(found) > MOST_PAIRS:
        warnings.append(f"of {len(found):,} pairs of equal shape the first {MOST_PAIRS:,} were compared")
    unread = [tensor.name for tensor in trace if tensor.source is None]
    if unread:
        names = f"{', '.join(unread[:3])}{' …' if len(unread) > 3 else ''}"
        warnings.append(f"left out, since they cannot be read: {names}")
    if not found:
        warnings.append("no two tensors have the same shape, so there is nothing to compare")
    return tuple(warnings)
