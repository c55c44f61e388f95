"""Details of one row beside its metrics: first values, histogram, notices."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from firstdiff.errors import FirstdiffError
from firstdiff.measure.numerics import scalar
from firstdiff.reports.sentences import exact
from firstdiff.schema import Pair, TensorInfo
from firstdiff.server.opened import OpenSides
from firstdiff.server.row_tensors import keys_of, tensors_named
from firstdiff.server.wire import FirstValues, Histogram, Readable

_FIRST = 10


def detail_of(opened: OpenSides, pair: Pair, third: str | None) -> dict[str, Any]:
    """The fields of `wire.RowDetail` beside the pair."""
    notices: list[str] = []
    values = {
        side: _first_values(opened, side, info, notices)
        for side, info in (("reference", pair.reference), ("candidate", pair.candidate))
    }
    return {
        "first_values": FirstValues(values["reference"] or (), values["candidate"] or ()),
        "histogram": _histogram(pair),
        "readable": Readable(values["reference"] is not None, values["candidate"] is not None),
        "notices": notices,
        "third": third,
    }


def exact_text(values: np.ndarray) -> tuple[str, ...]:
    """Every element of an array with all its digits."""
    flat = values.reshape(-1)
    return tuple(exact(scalar(flat[place : place + 1])) for place in range(flat.size))


def _first_values(opened: OpenSides, side: str, info: TensorInfo | None, notices: list[str]) -> tuple[str, ...] | None:
    """None where they cannot be read, which is noticed."""
    if info is None:
        return None
    if side in opened.errors:
        notices.append(f"the {side} cannot be opened: {opened.errors[side]}")
        return None
    trace = opened.traces.get(side) or opened.traces["reference"]
    try:
        source = tensors_named(trace, keys_of(info))[0].values()
        return exact_text(source.window(0, min(_FIRST, source.size)))
    except FirstdiffError as error:
        notices.append(f"the {side}'s values cannot be read: {error}")
        return None


def _histogram(pair: Pair) -> Histogram | None:
    """Differences by octave, scaled up where they were sampled."""
    if pair.envelope is None or pair.metrics is None or not pair.envelope.sampled:
        return None
    scale = pair.envelope.elements / pair.envelope.sampled
    octaves: Counter[int] = Counter()
    for _, octave, points in pair.envelope.cells:
        octaves[octave] += points
    finite = pair.envelope.elements
    counts = [round(octaves[octave] * scale) for octave in _span(octaves)]
    edges = [2.0**octave for octave in _span(octaves)]
    return Histogram(
        edges=(*edges, edges[-1] * 2) if edges else (),
        counts=tuple(counts),
        zero=max(finite - sum(counts), 0),
        nonfinite=pair.metrics.elements - finite,
    )


def _span(octaves: Counter[int]) -> range:
    return range(min(octaves), max(octaves) + 1) if octaves else range(0)
