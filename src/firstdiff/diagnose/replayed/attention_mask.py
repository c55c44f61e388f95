"""Hypothesis: another attention mask."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from firstdiff.diagnose.counterfactual import Counterfactual, Trial, Variant
from firstdiff.diagnose.replayed.masks import is_mask, mask_variants
from firstdiff.ops import Plan, activations, arithmetic, attention, shaping

_WINDOWS = (1, 2, 3, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
_ATTENTION = (attention.attention, attention.attention_weights, attention.multi_head_attention)
_IMPLIES = ("op.skipped", "residual.missing", "shift.sequence", "values.zero")


class AttentionMask(Counterfactual):
    """Queries see other keys than they should.

    The mask is missing, is causal where it should not be, is off by one, has another window, lets padding through or
    masks what is no padding, or is applied the wrong way round.

    Tested by computing attention, or the masking of its scores, with no mask, a causal one, shifted ones, windows,
    and the mask inverted. Give attention the reference's mask.
    """

    code = "attention.mask"
    functions = (*_ATTENTION, arithmetic.add, shaping.masked_fill, shaping.where, shaping.triangle)

    def variants(self, trial: Trial) -> Iterator[Variant]:
        of_attention = trial.function in _ATTENTION
        for what, plan in _in_attention(trial.plan) if of_attention else _of_scores(trial.plan):
            yield Variant(plan=plan, what=what, fix=f"give {trial.key} the mask of the reference", implies=_IMPLIES)


def _in_attention(plan: Plan) -> Iterator[tuple[str, Plan]]:
    causal, mask = bool(plan.settings["causal"]), plan.arrays.get("mask")
    queries, keys = (np.shape(plan.arrays[name])[-2] for name in ("query", "key"))
    if causal or mask is not None:
        yield "without any mask", plan.on(mask=None).changed(causal=False)
    if mask is not None:
        yield "with a causal mask as well", plan.changed(causal=True)
        for what, other in mask_variants(np.asarray(mask)):
            yield what, plan.on(mask=other)
    elif not causal:
        yield "with a causal mask", plan.changed(causal=True)
    if causal:
        full = np.tril(np.ones((queries, keys), dtype=bool))
        for what, other in mask_variants(full):
            yield what, plan.on(mask=other).changed(causal=False)
    if "window" in plan.settings:
        for window in _WINDOWS:
            if window < keys:
                yield f"with a window of {window}", plan.changed(window=window)
                yield f"with a causal window of {window}", plan.on(mask=None).changed(causal=True, window=window)


def _of_scores(plan: Plan) -> Iterator[tuple[str, Plan]]:
    """Scores that a mask is added to, or that are filled by one."""
    if plan.function is shaping.triangle:
        for by in (1, -1):
            yield f"with the diagonal moved by {by}", plan.changed(diagonal=int(plan.settings["diagonal"]) + by)
        return
    name = next((name for name in ("other", "mask", "condition", "input") if is_mask(plan.arrays.get(name))), None)
    if name is None:
        return
    scores = next((array for other, array in plan.arrays.items() if other != name and np.ndim(array) > 1), None)
    if scores is not None:
        yield "without the mask", plan.with_function(activations.identity).on(input=scores)
    for what, other in mask_variants(np.asarray(plan.arrays[name]), masks_true=plan.function is shaping.masked_fill):
        yield what, plan.on(**{name: other})


HYPOTHESIS: Final = AttentionMask()
