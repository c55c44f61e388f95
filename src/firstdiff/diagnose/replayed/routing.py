"""Hypotheses: experts chosen or weighted in another way."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import Any, Final

import numpy as np

from firstdiff.diagnose.case import Case
from firstdiff.diagnose.counterfactual import Counterfactual, Trial, Variant
from firstdiff.diagnose.hypothesis import Explanation, Fit
from firstdiff.dtypes import doubles
from firstdiff.ops import Plan, activations, arithmetic, elementwise, indexing

_NEAR = 1e-4
_GATE_IMPLIES = ("op.skipped", "scale.row", "scale.channel", "activation.kind", "softmax.axis", "op.repeated")


class RoutingGate(Counterfactual):
    """Experts are weighed otherwise.

    The weights of the experts that are chosen are divided by their sum, or not; they are a softmax over all experts,
    over those that are chosen alone, or a sigmoid of each score. Every model has its own of these, all of them give
    weights of about the right size.

    Tested where experts are chosen: by leaving the division by the sum out, by putting it in, and by the other
    functions of the scores. Weigh the experts as the reference does.
    """

    code = "routing.gate"
    functions = (arithmetic.div, elementwise.softmax, activations.sigmoid)

    def variants(self, trial: Trial) -> Iterator[Variant]:
        nearby, here = trial.case.nearby, trial.key
        if not (nearby.follows("topk", of=here) or nearby.leads_to("topk", of=here)):
            return
        fix = f"weigh the experts in {trial.key} as the reference does"
        for what, plan in _other_gates(trial.plan):
            yield Variant(plan=plan, what=what, fix=fix, implies=_GATE_IMPLIES)


def _other_gates(plan: Plan) -> Iterator[tuple[str, Plan]]:
    given = doubles(plan.arrays["input"])
    if plan.function is arithmetic.div:
        if given.ndim and _is_sum(plan.arrays["other"], given):
            yield "with weights that are not divided by their sum", _as_plan(given)
            yield "with a softmax of the weights", Plan.of(elementwise.softmax, {"input": given}, dim=-1)
        return
    if plan.function is elementwise.softmax:
        made = activations.sigmoid(given)
        yield "with a sigmoid of each score", _as_plan(made)
        yield (
            "with a sigmoid of each score, divided by their sum",
            _as_plan(made / made.sum(axis=-1, keepdims=True)),
        )
    if plan.function is activations.sigmoid:
        yield "with a softmax of the scores", Plan.of(elementwise.softmax, {"input": given}, dim=-1)
    yield "with the scores themselves", _as_plan(given)


def _is_sum(divisor: Any, weights: np.ndarray) -> bool:
    sums = weights.sum(axis=-1, keepdims=True)
    return np.shape(divisor) == sums.shape and bool(np.allclose(doubles(divisor), sums, rtol=_NEAR))


def _as_plan(values: np.ndarray) -> Plan:
    return Plan.of(activations.identity, {"input": values})


_MOST_CHOSEN = 64
_TOP_K_IMPLIES = (
    "pool.kind",
    "scale.constant",
    "scale.row",
    "values.constant",
    "op.skipped",
    "layout.pad",
    "layout.shard",
)


class RoutingTopK(Counterfactual):
    """Another number of experts, or of candidates, is chosen.

    A mixture of experts sends each token to the best few of them (`num_experts_per_tok`, `top_k`); with another number
    the weights of those that are chosen add up to something else, and experts are left out or come in. Samplers choose
    the best few tokens in the same way.

    Tested by choosing another number, or the least in place of the greatest, and going on from there to the row that
    differs. Choose as many as the reference.
    """

    code = "routing.top_k"
    functions = (indexing.topk,)

    def applies(self, case: Case) -> bool:
        return super().applies(case) if case.comparable else case.op == "topk"

    def test(self, case: Case) -> Iterator[Explanation]:
        if case.comparable:
            yield from super().test(case)
        else:
            yield from self._of_the_choice(case)

    def variants(self, trial: Trial) -> Iterator[Variant]:
        right = int(trial.plan.settings["k"])
        every = np.shape(trial.plan.arrays["input"])[int(trial.plan.settings["dim"])]
        fix = f"choose {right} in {trial.key}"
        for count in range(1, min(every, _MOST_CHOSEN) + 1):
            if count != right:
                what = f"with {count} chosen in place of {right}"
                yield Variant(plan=trial.plan.changed(k=count), what=what, fix=fix, implies=_TOP_K_IMPLIES)
        turned = trial.plan.changed(largest=not trial.plan.settings["largest"])
        yield Variant(plan=turned, what="with the other end chosen", fix=fix, implies=_TOP_K_IMPLIES)

    def _of_the_choice(self, case: Case) -> Iterator[Explanation]:
        """Explain a last axis of another length where the entries both sides have agree."""
        reference, candidate = case.reference_as_recorded, case.candidate_as_recorded
        if reference is None or candidate is None or reference.ndim < 1 or reference.shape[:-1] != candidate.shape[:-1]:
            return
        count = min(reference.shape[-1], candidate.shape[-1])
        one, other = (doubles(side[..., :count]) for side in (reference, candidate))
        if np.abs(one - other).max(initial=0.0) <= _NEAR * max(float(np.abs(one).max(initial=0.0)), 1e-30):
            yield Explanation(
                cause=self.code,
                fit=Fit(0.0, 0.0, inf),
                evidence=f"{candidate.shape[-1]} are chosen in place of {reference.shape[-1]}; the first {count} agree",
                fix=f"choose {reference.shape[-1]} in {case.key}",
                implies=_TOP_K_IMPLIES,
            )


ROUTING_GATE: Final = RoutingGate()
ROUTING_TOP_K: Final = RoutingTopK()
