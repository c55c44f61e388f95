"""Order tensors by name: detect the rule that the names follow, and sort by it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

OrderRule = Literal["numbered", "layer_stage", "natural"]
ORDER_RULES: tuple[OrderRule, ...] = get_args(OrderRule)

STAGES = (
    "post_ln_pre_attn",
    "query",
    "query_final",
    "key",
    "key_final",
    "value",
    "value_final",
    "post_attn",
    "scaling",
    "sliding",
    "post_attn_pre_resid",
    "pre_mlp",
    "post_mlp",
)
_STAGE_RANK = {stage: rank for rank, stage in enumerate(STAGES)}
_NUMBER_IN_FRONT = re.compile(r"(\d+)(?:[_.\- ](.*))?", re.DOTALL)
_DIGITS = re.compile(r"(\d+)")

SortKey = tuple[object, ...]


class LayerStage(NamedTuple):
    layer: int
    stage: str


def layer_and_stage(name: str) -> LayerStage | None:
    """`3_query` is stage `query` of layer 3; None for a name that does not begin so."""
    found = _NUMBER_IN_FRONT.fullmatch(name)
    if found is None or not found[2]:
        return None
    return LayerStage(int(found[1]), found[2])


def natural_key(text: str) -> SortKey:
    """Sorts `h.10` after `h.9`."""
    parts = _DIGITS.split(text)
    return tuple(int(part) if place % 2 else part for place, part in enumerate(parts))


def rule_for(names: Sequence[str]) -> OrderRule:
    """The rule a set of names follows.

    Numbers in front that are unique mean order, and so do zero-padded ones, unless what stands behind them
    recurs from number to number: `00_query 00_key 01_query 01_key` are layers and stages.
    """
    found = [_NUMBER_IN_FRONT.fullmatch(name) for name in names]
    matches = [match for match in found if match is not None]
    if not names or len(matches) < len(names):
        return "natural"
    if len({int(match[1]) for match in matches}) == len(matches):
        return "numbered"
    padded = len({len(match[1]) for match in matches}) == 1 and any(match[1].startswith("0") for match in matches)
    stages_recur = max(Counter(match[2] for match in matches).values()) > 1
    return "numbered" if padded and len(matches[0][1]) > 1 and not stages_recur else "layer_stage"


def sort_key(rule: OrderRule, name: str) -> SortKey:
    """Return the sort key of a name under a rule; names that the rule does not match come last, in natural order."""
    match = _NUMBER_IN_FRONT.fullmatch(name)
    if rule == "natural" or match is None:
        return (1, 0, 0, natural_key(name))
    number = int(match[1])
    stage = match[2] or ""
    rank = _STAGE_RANK.get(stage, len(STAGES)) if rule == "layer_stage" else 0
    return (0, number, rank, natural_key(stage))
