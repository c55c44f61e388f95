"""Hypothesis: attention scores with or without softcapping."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from firstdiff.diagnose.counterfactual import Counterfactual, Trial, Variant, solve_setting
from firstdiff.diagnose.replayed.masks import is_mask
from firstdiff.dtypes import doubles
from firstdiff.ops import Plan, arithmetic, attention, shaping, softmax

_USUAL = (50.0, 30.0, 20.0, 15.0)
_ATTENTION = (attention.attention, attention.attention_weights)


class AttentionSoftcap(Counterfactual):
    """The scores of attention are capped where they should not be, or not capped where they should.

    Gemma 2 and others bend scores to `cap * tanh(score / cap)` before softmax. Without it, large scores are too
    large.

    Tested by computing attention, or its scores, without the cap, and by solving for one. Cap as the reference does.
    """

    code = "attention.softcap"
    functions = (*_ATTENTION, softmax.softmax, arithmetic.add, shaping.masked_fill, arithmetic.mul, arithmetic.div)

    def variants(self, trial: Trial) -> Iterator[Variant]:
        right = trial.plan.settings.get("softcap")
        fix = f"{'do not cap the scores' if right is None else f'cap the scores at {right:g}'} of {trial.key}"
        if right is not None:
            yield Variant(plan=trial.plan.changed(softcap=None), what="without a cap on the scores", fix=fix)
        plan = _by_cap(trial)
        if plan is None:
            return
        changed = Trial(trial.case, trial.operation.with_plan(plan))
        solved = solve_setting(changed, "softcap", usual=_USUAL, low=0.05, high=1000.0)
        if solved is not None and solved.value != right:
            yield Variant(
                plan=solved.plan,
                fit=solved.fit,
                what=f"with scores capped at {solved.value:.4g}",
                fix=fix,
                assumed=0 if solved.usual else 1,
            )


def _by_cap(trial: Trial) -> Plan | None:
    """The operation as a function of the cap."""
    plan = trial.plan
    if trial.function in _ATTENTION:
        return plan
    masks = [name for name in ("other", "mask") if is_mask(plan.arrays.get(name))]
    scores = plan.arrays.get("input")
    if scores is None or np.ndim(scores) < 3 or (trial.function in (arithmetic.add, shaping.masked_fill) and not masks):
        return None
    is_product = trial.function in (arithmetic.mul, arithmetic.div)
    if is_product and (np.ndim(plan.arrays["other"]) or not trial.case.nearby.leads_to("softmax")):
        return None

    def capped(input: np.ndarray, *, softcap: float) -> np.ndarray:
        if is_product:
            scaled = plan.on(input=input).run()["0"]
            return np.asarray(softcap * np.tanh(scaled / softcap))
        return plan.on(input=softcap * np.tanh(doubles(input) / softcap)).run()["0"]

    return Plan.of(capped, {"input": scores}, softcap=1e6)


HYPOTHESIS: Final = AttentionSoftcap()
