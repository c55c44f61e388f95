"""The rows of a comparison, all of them in short or one of them in full."""

from __future__ import annotations

import json

from fastapi import APIRouter, Response

from firstdiff.server.answers import answer, answer_text
from firstdiff.server.context import Shared
from firstdiff.server.details import detail_of
from firstdiff.server.wire import RowDetail, RowsOut, SideChoice, TensorsOut

router = APIRouter()


@router.get("/comparisons/{comparison}/rows", response_model=RowsOut)
def list_rows(comparison: str, context: Shared) -> Response:
    return answer_text(context.result(comparison).rows_text())


@router.get("/comparisons/{comparison}/rows/{row}", response_model=RowDetail)
def get_row(comparison: str, row: int, context: Shared) -> Response:
    result = context.result(comparison)
    text = result.pair_text(row)
    detail = detail_of(context.opened.traces(context.store, comparison), result.pair(row), result.third(row))
    return answer({"pair": json.loads(text), **detail})


@router.get("/comparisons/{comparison}/tensors", response_model=TensorsOut)
def list_tensors(
    comparison: str, context: Shared, side: SideChoice = "reference", search: str = "", limit: int = 200
) -> Response:
    words = search.lower().split()
    listed = context.result(comparison).tensors(side)
    found = [line for line in listed if all(word in line["key"].lower() for word in words)]
    return answer({"tensors": found[: max(limit, 0)], "total": len(found)})
