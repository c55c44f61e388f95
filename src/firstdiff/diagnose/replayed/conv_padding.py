"""Hypothesis: a convolution with another padding."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from firstdiff.diagnose.counterfactual import Counterfactual, Trial, Variant
from firstdiff.ops import Plan, conv
from firstdiff.ops.arrays import tuple_of
from firstdiff.ops.conv import paddings

_MODES = ("zeros", "reflect", "replicate", "circular")


class ConvPadding(Counterfactual):
    """A convolution is padded in another way.

    On one side instead of both (causal or not), or with other values: zeros, reflected, repeated, wrapped around.
    With other values only the edges are wrong; with another side everything is moved by some elements.

    Tested by computing the convolution with every other padding that gives the same length. Pad as the reference
    does.
    """

    code = "conv.padding"
    functions = (conv.conv,)

    def variants(self, trial: Trial) -> Iterator[Variant]:
        for what, plan in _others(trial.plan):
            fix = f"pad {trial.key} as the reference does"
            yield Variant(plan=plan, what=what, fix=fix, implies=("shift.sequence",))


def _others(plan: Plan) -> Iterator[tuple[str, Plan]]:
    kernel = np.asarray(plan.arrays["weight"])
    edges = paddings(plan.settings["padding"], kernel.shape[2:], tuple_of(plan.settings["dilation"], kernel.ndim - 2))
    if not edges:
        return
    for mode in _MODES:
        if mode != plan.settings["padding_mode"]:
            yield f"padded with {mode}", plan.changed(padding_mode=mode)
    total = sum(edges[-1])
    for before in range(total + 1):
        if before != edges[-1][0]:
            pads: Any = [*edges[:-1], (before, total - before)]
            yield f"padded by {before} before and {total - before} after", plan.changed(padding=pads)


HYPOTHESIS: Final = ConvPadding()
