"""Routes that change a comparison: edits of pairs, and other tolerances."""

from __future__ import annotations

from fastapi import APIRouter, Response

from firstdiff.comparing.rejudge import Judged, rejudge, tolerance_of
from firstdiff.judge import tolerances_toml
from firstdiff.pairing.map_file import map_of_rows
from firstdiff.server.context import Shared
from firstdiff.server.options import check_edits, rules_in
from firstdiff.server.responses import answer, download
from firstdiff.server.schemas import JudgeIn, TomlOut
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


@router.post("/comparisons/{comparison}/judge", response_model=Judged)
def judge_again(comparison: str, body: JudgeIn, context: Shared) -> Response:
    result = context.pair_result(comparison, "nothing to judge")
    whole = context.opened.comparison(comparison, result)
    return answer(rejudge(whole, rules_in(body)))


@router.post("/comparisons/{comparison}/tolerances", response_model=TomlOut)
def write_tolerances(comparison: str, body: JudgeIn, context: Shared) -> Response:
    result = context.pair_result(comparison, "nothing to judge")
    if body.rule == "toml" and body.toml:
        rules_in(body)
        return answer(TomlOut(body.toml))
    rules = rules_in(body)
    pairs = context.opened.comparison(comparison, result).pairs
    allowed = [(pair.key, found) for pair in pairs if (found := tolerance_of(pair, rules)) is not None]
    return answer(TomlOut(tolerances_toml(allowed, equal_nan=rules.equal_nan)))
