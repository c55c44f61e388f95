"""Hypothesis: another kind of pooling."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from firstdiff.diagnose.counterfactual import Counterfactual, Trial, Variant
from firstdiff.ops import Plan, pooling, reductions


class PoolKind(Counterfactual):
    """Values are pooled or reduced in another way.

    The mean instead of the greatest, padding counted or not, a sum instead of a mean, along another axis.

    Tested by computing the other ways. Pool or reduce as the reference does.
    """

    code = "pool.kind"
    functions = (
        *(pooling.avg_pool, pooling.max_pool),
        *(reductions.reduce, reductions.variance),
    )

    def variants(self, trial: Trial) -> Iterator[Variant]:
        for what, plan in _others(trial.plan):
            yield Variant(plan=plan, what=what, fix=f"compute {trial.key} as the reference does")


def _others(plan: Plan) -> Iterator[tuple[str, Plan]]:
    if plan.function is pooling.avg_pool:
        yield "with the greatest of each window", plan.with_function(pooling.max_pool)
        counted = bool(plan.settings["count_include_pad"])
        yield f"with padding {'not ' if counted else ''}counted", plan.changed(count_include_pad=not counted)
    elif plan.function is pooling.max_pool:
        yield "with the mean of each window", plan.with_function(pooling.avg_pool)
    else:
        for kind in ("mean", "sum", "amax", "amin"):
            if kind != plan.settings.get("kind"):
                yield f"by {kind}", plan.with_function(reductions.reduce, kind=kind)
        for axis in range(np.ndim(plan.arrays["input"])):
            yield f"along axis {axis}", plan.changed(dim=axis)


HYPOTHESIS: Final = PoolKind()
