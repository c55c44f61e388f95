"""One trace alone: a row with its statistics for each tensor, and no verdict."""

from __future__ import annotations

import math
import time
from dataclasses import replace

from firstdiff.comparing.measuring import Progress
from firstdiff.comparing.options import Options
from firstdiff.comparing.outcome import alone_of
from firstdiff.comparing.rows import alone_row
from firstdiff.errors import ReadError
from firstdiff.measure import measure_statistics
from firstdiff.schema import Comparison, Pair
from firstdiff.trace import Tensor, Trace


def look(trace: Trace, options: Options, progress: Progress | None = None) -> Comparison:
    """What is in a trace, as rows of status `alone`; tensors that cannot be read are `failed`.

    >>> look(Trace.from_arrays({"x": [1.0, 3.0]}), Options()).pairs[0].reference.statistics.mean
    2.0
    """
    begun = time.perf_counter()
    total = sum(tensor.source.nbytes for tensor in trace if tensor.source)
    done = 0
    pairs: list[Pair] = []
    for index, tensor in enumerate(trace):
        pairs.append(replace(_row(tensor), index=index))
        done += tensor.source.nbytes if tensor.source else 0
        if progress:
            progress(done, total)
    return alone_of(trace, tuple(pairs), options, {"total": time.perf_counter() - begun})


def _row(tensor: Tensor) -> Pair:
    row = alone_row(tensor)
    try:
        source = tensor.values()
        statistics = measure_statistics(source)
    except ReadError as error:
        return replace(row, status="failed", reason=str(error))
    assert row.reference is not None, "the row is of this tensor"
    reason = "no elements" if math.prod(source.shape) == 0 else None
    return replace(row, reason=reason, reference=replace(row.reference, statistics=statistics))
