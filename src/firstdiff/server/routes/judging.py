"""Routes: judge other tolerances from the stored envelope of each pair, without its data."""

from __future__ import annotations

from fastapi import APIRouter, Response

from firstdiff.comparing.rejudge import Judged, rejudge, tolerance_of
from firstdiff.judge import tolerances_toml
from firstdiff.server.answers import answer
from firstdiff.server.context import Shared
from firstdiff.server.options import rules_in
from firstdiff.server.wire import JudgeIn, TomlOut

router = APIRouter()


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
