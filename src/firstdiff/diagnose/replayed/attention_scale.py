"""Hypothesis: another scale of the attention scores."""

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt
from typing import Final

import numpy as np

from firstdiff.diagnose.counterfactual import Counterfactual, Trial, Variant, solve_setting
from firstdiff.ops import Plan, arithmetic, attention, softmax

_ATTENTION = (attention.attention, attention.attention_weights, attention.multi_head_attention)
_PRODUCTS = (arithmetic.mul, arithmetic.div)


class AttentionScale(Counterfactual):
    """The scores of attention have another scale.

    Scores are multiplied with 1 / sqrt(size of a head) before softmax. Ports forget it, apply it twice, use the width
    of the model instead of the head's, or add it where a model such as T5 has none.

    Tested by solving for the scale with which attention, its softmax or the product in front of it gives the
    candidate's values. Set it to the reference's.
    """

    code = "attention.scale"
    functions = (*_ATTENTION, softmax.softmax, *_PRODUCTS)

    def variants(self, trial: Trial) -> Iterator[Variant]:
        plan, right = _by_scale(trial)
        if plan is None:
            return
        changed = Trial(trial.case, trial.operation.with_plan(plan))
        size = _head_size(trial)
        usual = (1.0, right * right, sqrt(right), 1.0 / right, 1.0 / size, 1.0 / sqrt(size), right / 2, right * 2)
        solved = solve_setting(changed, "scale", usual=usual, low=right / 1e3, high=right * 1e3)
        if solved is not None and abs(solved.value / right - 1.0) > 1e-6:
            yield Variant(
                plan=solved.plan,
                fit=solved.fit,
                what=f"with a scale of {solved.value:.4g} instead of {right:.4g}",
                fix=f"multiply the scores of {trial.key} with {right:.6g}",
                assumed=0 if solved.usual else 1,
                implies=("scale.constant", "op.skipped", "op.repeated", "residual.missing"),
            )


def _by_scale(trial: Trial) -> tuple[Plan | None, float]:
    """The operation as a function of the scale, and the scale it has."""
    plan = trial.plan
    if trial.function in _PRODUCTS:
        factor, scores = plan.arrays["other"], plan.arrays["input"]
        if np.ndim(factor) or np.ndim(scores) < 3 or not trial.case.nearby.leads_to("softmax"):
            return None, 1.0
        right = float(factor) if trial.function is arithmetic.mul else 1.0 / float(factor)
        return Plan.of(_scaled, {"input": scores}, scale=right), right
    told = plan.settings["scale"]
    return plan, float(told) if told is not None else 1.0 / sqrt(_head_size(trial))


def _scaled(input: np.ndarray, *, scale: float) -> np.ndarray:
    return np.asarray(input, dtype=np.float64) * scale


def _head_size(trial: Trial) -> int:
    query = trial.plan.arrays.get("query")
    heads = int(trial.plan.settings.get("heads", 1))
    return max(1, np.shape(query)[-1] // heads) if query is not None else 64


HYPOTHESIS: Final = AttentionScale()
