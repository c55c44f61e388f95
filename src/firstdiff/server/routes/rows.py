"""Routes of rows: the list, their details, and one element followed through all layers."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
from fastapi import APIRouter, Response

from firstdiff.comparing import compare_traces, row_named
from firstdiff.errors import FirstdiffError, UsageError
from firstdiff.measure.numerics import scalar
from firstdiff.reports.sentences import exact, row_origin
from firstdiff.schema import Pair, TensorInfo
from firstdiff.server.context import Shared
from firstdiff.server.options import options_in
from firstdiff.server.responses import answer, answer_text
from firstdiff.server.row_tensors import RowTensors, keys_of, tensors_named
from firstdiff.server.schemas import (
    DepthOut,
    DiagnosisOut,
    ElementInLayer,
    FirstValues,
    Histogram,
    Readable,
    RowDetail,
    RowsOut,
    SideChoice,
    TensorsOut,
)
from firstdiff.server.trace_cache import OpenSides
from firstdiff.trace import Source
from firstdiff.viewing import Cut

_FIRST = 10


def detail_of(opened: OpenSides, pair: Pair, third: str | None) -> dict[str, Any]:
    """Return the fields of `schemas.RowDetail` beside the pair."""
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
    """Format every element of an array with all its digits."""
    flat = values.reshape(-1)
    return tuple(exact(scalar(flat[place : place + 1])) for place in range(flat.size))


def _first_values(opened: OpenSides, side: str, info: TensorInfo | None, notices: list[str]) -> tuple[str, ...] | None:
    """Return the values; None with a notice where they cannot be read."""
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
    """Return the histogram of differences by octave, scaled up if sampled."""
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


router = APIRouter()


@router.get("/comparisons/{comparison}/rows", response_model=RowsOut)
def list_rows(comparison: str, context: Shared) -> Response:
    return answer_text(context.result(comparison).rows_text())


@router.get("/comparisons/{comparison}/rows/{row}", response_model=RowDetail)
def get_row(comparison: str, row: int, context: Shared) -> Response:
    result = context.result(comparison)
    text = result.pair_text(row)
    pair = result.pair(row)
    detail = detail_of(context.opened.traces(context.store, comparison), pair, result.third(row))
    return answer({"pair": json.loads(text), "origin": row_origin(pair), **detail})


@router.post("/comparisons/{comparison}/rows/{row}/diagnosis", response_model=DiagnosisOut)
def diagnose_row(comparison: str, row: int, context: Shared) -> Response:
    """Look for the cause of one row, however long it takes; the result that is kept stays as it is."""
    job = context.store.job(comparison)
    if job.kind != "pair":
        raise UsageError("causes are looked for where two traces are compared")
    key = context.result(comparison).pair(row).key
    opened = context.opened.traces(context.store, comparison)
    for side in ("reference", "candidate"):
        if side in opened.errors:
            raise UsageError(f"the {side} cannot be opened: {opened.errors[side]}")
    sides = opened.traces["reference"], opened.traces["candidate"]
    found = compare_traces(*sides, replace(options_in(job.options, job.edits, opened.traces), effort=None), only=key)
    why = (note.text for note in found.notes if note.key == key and note.code == "no_cause")
    return answer(DiagnosisOut(row_named(found.pairs, key).diagnosis, next(why, None)))


@router.get("/comparisons/{comparison}/tensors", response_model=TensorsOut)
def list_tensors(
    comparison: str, context: Shared, side: SideChoice = "reference", search: str = "", limit: int = 200
) -> Response:
    words = search.lower().split()
    listed = context.result(comparison).tensors(side)
    found = [line for line in listed if all(word in line["key"].lower() for word in words)]
    return answer({"tensors": found[: max(limit, 0)], "total": len(found)})


_MOST_LAYERS = 1024


@router.get("/comparisons/{comparison}/depth", response_model=DepthOut)
def follow_element(comparison: str, context: Shared, row: int, at: str) -> Response:
    """The element at an index in every row that is the same tensor of another layer."""
    lines: list[dict[str, Any]] = json.loads(context.result(comparison).rows_text())["rows"]
    wanted = next((line for line in lines if line["index"] == row), None)
    alike = [line for line in lines if wanted and _key_pattern(line) == _key_pattern(wanted)][:_MOST_LAYERS]
    points = [_layer_point(RowTensors(context, comparison, line["index"]), line, at) for line in alike]
    return answer(DepthOut(tuple(point for point in points if point is not None)))


def _key_pattern(line: dict[str, Any]) -> str:
    """Replace the layer in a key by `*`."""
    key = str(line["key"])
    return key if line["layer"] is None else re.sub(rf"(?<!\d)0*{line['layer']}(?!\d)", "*", key, count=1)


def _layer_point(seen: RowTensors, line: dict[str, Any], at: str) -> ElementInLayer | None:
    """Return the element in a row; None where its tensor has no such element."""
    try:
        reference, candidate = seen.both()
        cut = Cut.parse(at, reference.shape)
        values = [_element_value(source, cut) for source in (reference, candidate)]
    except FirstdiffError:
        return None
    return ElementInLayer(line["index"], line["key"], line["layer"], values[0], values[1], _third_value(seen, cut))


def _third_value(seen: RowTensors, cut: Cut) -> float | None:
    """Return the element of the third tensor; None where there is none or it cannot be read."""
    try:
        source = seen.third_aligned()
        return None if source is None else _element_value(source, cut)
    except FirstdiffError:
        return None


def _element_value(source: Source, cut: Cut) -> float:
    found = scalar(cut.read(source))
    return abs(found) if isinstance(found, complex) else float(found)
