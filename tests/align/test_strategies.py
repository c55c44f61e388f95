from __future__ import annotations

import numpy as np

from firstdiff import plugins
from firstdiff.align import Prepared, Strategy, solve
from firstdiff.align.recipe import Recipe
from firstdiff.align.strategies import in_order, same_size
from firstdiff.trace import ArraySource

BUILT_IN = {"axes", "repeat", "part", "partial_sum", "grouped", "chunk_order", "rotary"}


def test_the_built_in_strategies_are_entries_of_the_hook() -> None:
    assert {plugin.name for plugin in plugins.listed("alignment")} >= BUILT_IN
    assert all(isinstance(strategy, Strategy) for strategy in plugins.loaded("alignment"))


def test_plain_strategies_come_first() -> None:
    costs = [strategy.cost for strategy in in_order(None)]
    assert costs == sorted(costs)
    assert costs[0] == 0


def test_a_strategy_of_a_stranger_is_tried() -> None:
    flip = Recipe.parse("chunks(axis=0, order=3 2 1 0)").steps

    def prepare(_pair: object) -> list[Prepared]:
        return [Prepared(candidate=flip, cause="layout.flip", forced=False, settled=True, cost=9)]

    x = np.random.default_rng(0).standard_normal((4, 50)).astype(np.float32)
    solution = solve(ArraySource(x), ArraySource(x[::-1]), strategies=[Strategy("flip", same_size, prepare, cost=70)])
    assert (str(solution.alignment), solution.cause) == ("chunks(axis=0, order=3 2 1 0)", "layout.flip")
    assert solution.fits
