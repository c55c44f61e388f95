"""Hypothesis: key and value heads assigned to other query heads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from firstdiff.diagnose.case import Case
from firstdiff.diagnose.counterfactual import Counterfactual, Trial, Variant
from firstdiff.diagnose.hypothesis import Explanation
from firstdiff.ops import Plan, attention, shaping

_IMPLIES = ("layout.head_order", "layout.chunk_swap", "layout.rope_interleave", "layout.reshape", "layout.interleave")


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
                implies=_IMPLIES,
                predicted=predicted,
            )

    def variants(self, trial: Trial) -> Iterator[Variant]:
        fix = f"arrange the heads of keys and values as the reference does in {trial.key}"
        for what, plan in _others(trial.plan):
            yield Variant(plan=plan, what=what, fix=fix, implies=_IMPLIES)


def _others(plan: Plan) -> Iterator[tuple[str, Plan]]:
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
    """Keys that already have as many heads as the queries, neighbours alike: the order of tiled ones."""
    if keys.ndim != 4:
        return None
    heads = keys.shape[-3]
    for times in (times for times in range(heads // 2, 1, -1) if heads % times == 0):
        grouped = keys.reshape(-1, heads // times, times, *keys.shape[-2:])
        if np.array_equal(grouped[:, :, :1].repeat(times, axis=2), grouped) and not np.array_equal(
            keys[:, 0], keys[:, -1]
        ):
            return _order(heads, times)
    return None


def _order(heads: int, times: int) -> np.ndarray:
    """Return the index of the repeated head at each position of tiled heads."""
    groups = heads // times
    return np.array([(place % groups) * times for place in range(heads)])


HYPOTHESIS: Final = AttentionKvHeads()
