"""Hypothesis: experts weighted by another function of the scores."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from firstdiff.diagnose.counterfactual import Counterfactual, Trial, Variant
from firstdiff.dtypes import doubles
from firstdiff.ops import Plan, activations, arithmetic, softmax

_NEAR = 1e-4
_IMPLIES = ("op.skipped", "scale.row", "scale.channel", "activation.kind", "softmax.axis", "op.repeated")


class RoutingGate(Counterfactual):
    """Experts are weighed otherwise.

    The weights of the experts that are chosen are divided by their sum, or not; they are a softmax over all experts,
    over those that are chosen alone, or a sigmoid of each score. Every model has its own of these, all of them give
    weights of about the right size.

    Tested where experts are chosen: by leaving the division by the sum out, by putting it in, and by the other
    functions of the scores. Weigh the experts as the reference does.
    """

    code = "routing.gate"
    functions = (arithmetic.div, softmax.softmax, activations.sigmoid)

    def variants(self, trial: Trial) -> Iterator[Variant]:
        nearby, here = trial.case.nearby, trial.key
        if not (nearby.follows("topk", of=here) or nearby.leads_to("topk", of=here)):
            return
        fix = f"weigh the experts in {trial.key} as the reference does"
        for what, plan in _others(trial.plan):
            yield Variant(plan=plan, what=what, fix=fix, implies=_IMPLIES)


def _others(plan: Plan) -> Iterator[tuple[str, Plan]]:
    given = doubles(plan.arrays["input"])
    if plan.function is arithmetic.div:
        if given.ndim and _is_sum(plan.arrays["other"], given):
            yield "with weights that are not divided by their sum", _as_is(given)
            yield "with a softmax of the weights", Plan.of(softmax.softmax, {"input": given}, dim=-1)
        return
    if plan.function is softmax.softmax:
        made = activations.sigmoid(given)
        yield "with a sigmoid of each score", _as_is(made)
        yield "with a sigmoid of each score, divided by their sum", _as_is(made / made.sum(axis=-1, keepdims=True))
    if plan.function is activations.sigmoid:
        yield "with a softmax of the scores", Plan.of(softmax.softmax, {"input": given}, dim=-1)
    yield "with the scores themselves", _as_is(given)


def _is_sum(divisor: Any, weights: np.ndarray) -> bool:
    sums = weights.sum(axis=-1, keepdims=True)
    return np.shape(divisor) == sums.shape and bool(np.allclose(doubles(divisor), sums, rtol=_NEAR))


def _as_is(values: np.ndarray) -> Plan:
    return Plan.of(activations.identity, {"input": values})


HYPOTHESIS: Final = RoutingGate()
