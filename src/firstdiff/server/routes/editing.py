"""Routes: pairs and layouts set by hand."""

from __future__ import annotations

from fastapi import APIRouter, Response

from firstdiff.pairing.writerows import map_of_rows
from firstdiff.server.answers import answer, download
from firstdiff.server.context import Shared
from firstdiff.server.options import check_edits
from firstdiff.store.entry import Edits, Entry

router = APIRouter()


@router.get("/comparisons/{comparison}/edits", response_model=Edits)
def get_edits(comparison: str, context: Shared) -> Response:
    return answer(context.store.edits(comparison))


@router.put("/comparisons/{comparison}/edits", response_model=Entry)
def put_edits(comparison: str, body: Edits, context: Shared) -> Response:
    context.must_be_pair(comparison, "nothing to pair")
    check_edits(body)
    context.store.comparisons.edit(comparison, body)
    context.jobs.stop(comparison)
    context.jobs.wake()
    return answer(context.store.entry(comparison))


@router.get("/comparisons/{comparison}/map.toml", response_class=Response)
def get_map(comparison: str, context: Shared) -> Response:
    result = context.pair_result(comparison, "nothing to pair")
    return download(map_of_rows(context.opened.comparison(comparison, result)), "map.toml", "application/toml")
