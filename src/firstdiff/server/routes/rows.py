"""Routes: the rows of a comparison, all in short or one in full."""

from __future__ import annotations

import json
from dataclasses import replace

from fastapi import APIRouter, Response

from firstdiff.comparing import compare_traces, row_named
from firstdiff.errors import UsageError
from firstdiff.reports.sentences import row_origin
from firstdiff.server.answers import answer, answer_text
from firstdiff.server.context import Shared
from firstdiff.server.details import detail_of
from firstdiff.server.options import options_in
from firstdiff.server.wire import DiagnosisOut, RowDetail, RowsOut, SideChoice, TensorsOut

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
