"""Hypothesis: softmax along another axis."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from firstdiff.diagnose.counterfactual import Counterfactual, Trial, Variant
from firstdiff.ops import softmax


class SoftmaxAxis(Counterfactual):
    """Softmax runs along another axis.

    Weights of attention must sum to 1 over the keys. Along another axis they are shares of something else, of the
    right shape and in the right range.

    Tested by computing it along every other axis. Give softmax the reference's axis.
    """

    code = "softmax.axis"
    functions = (softmax.softmax, softmax.log_softmax)

    def variants(self, trial: Trial) -> Iterator[Variant]:
        ndim = np.ndim(trial.plan.arrays["input"])
        right = int(trial.plan.settings["dim"]) % max(ndim, 1)
        for axis in range(ndim):
            if axis != right:
                yield Variant(
                    plan=trial.plan.changed(dim=axis),
                    what=f"along axis {axis} instead of {right}",
                    fix=f"run {trial.key} along axis {right}",
                )
        yield Variant(
            plan=trial.plan.changed(dim=tuple(range(ndim))),
            what="over all axes at once",
            fix=f"run {trial.key} along axis {right}",
        )


HYPOTHESIS: Final = SoftmaxAxis()
