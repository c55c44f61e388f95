"""Hypotheses: attention scores with another scale or cap, or heads that share other keys."""

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt
from typing import Final

import numpy as np

from firstdiff.diagnose.case import Case
from firstdiff.diagnose.counterfactual import Counterfactual, Trial, Variant, solve_setting
from firstdiff.diagnose.hypothesis import Explanation
from firstdiff.diagnose.replayed.masks import is_mask
from firstdiff.dtypes import doubles
from firstdiff.ops import Plan, arithmetic, attention, elementwise, shaping

_SCALED = (attention.attention, attention.attention_weights, attention.multi_head_attention)
_PRODUCTS = (arithmetic.mul, arithmetic.div)


class AttentionScale(Counterfactual):
    """The scores of attention have another scale.

    Scores are multiplied with 1 / sqrt(size of a head) before softmax. Ports forget it, apply it twice, use the width
    of the model instead of the head's, or add it where a model such as T5 has none.

    Tested by solving for the scale with which attention, its softmax or the product in front of it gives the
    candidate's values. Set it to the reference's.
    """

    code = "attention.scale"
    functions = (*_SCALED, elementwise.softmax, *_PRODUCTS)

    def variants(self, trial: Trial) -> Iterator[Variant]:
        plan, right = _as_function_of_scale(trial)
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


def _as_function_of_scale(trial: Trial) -> tuple[Plan | None, float]:
    """Return the operation as a function of its scale, and the reference's scale."""
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


_USUAL_CAPS = (50.0, 30.0, 20.0, 15.0)
_CAPPED = (attention.attention, attention.attention_weights)


class AttentionSoftcap(Counterfactual):
    """The scores of attention are capped where they should not be, or not capped where they should.

    Gemma 2 and others bend scores to `cap * tanh(score / cap)` before softmax. Without it, large scores are too
    large.

    Tested by computing attention, or its scores, without the cap, and by solving for one. Cap as the reference does.
    """

    code = "attention.softcap"
    functions = (*_CAPPED, elementwise.softmax, arithmetic.add, shaping.masked_fill, arithmetic.mul, arithmetic.div)

    def variants(self, trial: Trial) -> Iterator[Variant]:
        right = trial.plan.settings.get("softcap")
        fix = f"{'do not cap the scores' if right is None else f'cap the scores at {right:g}'} of {trial.key}"
        if right is not None:
            yield Variant(plan=trial.plan.changed(softcap=None), what="without a cap on the scores", fix=fix)
        plan = _as_function_of_cap(trial)
        if plan is None:
            return
        changed = Trial(trial.case, trial.operation.with_plan(plan))
        solved = solve_setting(changed, "softcap", usual=_USUAL_CAPS, low=0.05, high=1000.0)
        if solved is not None and solved.value != right:
            yield Variant(
                plan=solved.plan,
                fit=solved.fit,
                what=f"with scores capped at {solved.value:.4g}",
                fix=fix,
                assumed=0 if solved.usual else 1,
            )


def _as_function_of_cap(trial: Trial) -> Plan | None:
    """Return the operation as a function of its softcap."""
    plan = trial.plan
    if trial.function in _CAPPED:
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


_LAYOUTS = (
    "layout.head_order",
    "layout.chunk_swap",
    "layout.rope_interleave",
    "layout.reshape",
    "layout.interleave",
)


class AttentionKvHeads(Counterfactual):
    """Shared heads of keys and values are tiled instead of repeated, or the other way round.

    With fewer heads of keys and values than of queries, neighbours share one: 0 0 1 1. `tile`, `repeat` of numpy's
    and torch's namesakes, or `expand` on the wrong axis give 0 1 0 1, and every query looks at the wrong keys.

    Tested by arranging the heads the other way. Use `repeat_interleave` over the heads.
    """

    code = "attention.kv_heads"
    functions = (attention.attention, attention.attention_weights, shaping.repeat_interleave)

    def applies(self, case: Case) -> bool:
        return case.comparable

    def test(self, case: Case) -> Iterator[Explanation]:
        yield from super().test(case)
        order = _tiled_order(case.expected)
        if order is not None and case.candidate.ndim == 4:
            predicted = np.take(case.expected, order, axis=1)
            fit = case.fit(predicted)
            yield Explanation(
                cause=self.code,
                fit=fit,
                evidence=f"with heads tiled instead of repeated {case.falls_to(fit)}",
                fix="repeat each head of keys and values for the queries that share it (repeat_interleave)",
                implies=_LAYOUTS,
                predicted=predicted,
            )

    def variants(self, trial: Trial) -> Iterator[Variant]:
        fix = f"arrange the heads of keys and values as the reference does in {trial.key}"
        for what, plan in _other_head_orders(trial.plan):
            yield Variant(plan=plan, what=what, fix=fix, implies=_LAYOUTS)


def _other_head_orders(plan: Plan) -> Iterator[tuple[str, Plan]]:
    if plan.function is shaping.repeat_interleave:
        times, axis = int(plan.settings["repeats"]), plan.settings["dim"]
        if axis is not None:
            tiled = np.concatenate([np.asarray(plan.arrays["input"])] * times, axis=axis)
            yield "with heads tiled", plan.on(input=tiled).changed(repeats=1)
        return
    if "kv_heads" in plan.settings and np.shape(plan.arrays["key"])[-3:-2] != np.shape(plan.arrays["query"])[-3:-2]:
        other = "tile" if plan.settings["kv_heads"] == "repeat" else "repeat"
        yield f"with heads {other}d", plan.changed(kv_heads=other)
    order = _tiled_order(np.asarray(plan.arrays["key"]))
    if order is not None:
        taken = {name: np.take(plan.arrays[name], order, axis=-3) for name in ("key", "value") if name in plan.arrays}
        yield "with heads tiled", plan.on(**taken)


def _tiled_order(keys: np.ndarray) -> np.ndarray | None:
    """Return the tiled order of keys whose neighbouring heads are alike; None for any other keys."""
    if keys.ndim != 4:
        return None
    heads = keys.shape[-3]
    for times in (times for times in range(heads // 2, 1, -1) if heads % times == 0):
        grouped = keys.reshape(-1, heads // times, times, *keys.shape[-2:])
        if np.array_equal(grouped[:, :, :1].repeat(times, axis=2), grouped) and not np.array_equal(
            keys[:, 0], keys[:, -1]
        ):
            return _tiled_indices(heads, times)
    return None


def _tiled_indices(heads: int, times: int) -> np.ndarray:
    """Return the index of the repeated head at each position of tiled heads."""
    groups = heads // times
    return np.array([(place % groups) * times for place in range(heads)])


ATTENTION_SCALE: Final = AttentionScale()
ATTENTION_SOFTCAP: Final = AttentionSoftcap()
ATTENTION_KV_HEADS: Final = AttentionKvHeads()
