"""Hypothesis: a convolution with another stride."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from firstdiff.diagnose.counterfactual import Counterfactual, Trial, Variant
from firstdiff.ops import conv
from firstdiff.ops.arrays import tuple_of
from firstdiff.ops.conv import paddings


class ConvStride(Counterfactual):
    """A strided convolution takes other places.

    With a stride of 2 every second place is taken. TensorFlow's "same" pads the end first, so that it takes the other
    ones; so does padding after the stride was counted.

    Tested by moving where the stride begins. Pad as the reference does, before and after.
    """

    code = "conv.stride"
    functions = (conv.conv,)

    def variants(self, trial: Trial) -> Iterator[Variant]:
        plan = trial.plan
        kernel = np.shape(plan.arrays["weight"])[2:]
        steps = tuple_of(plan.settings["stride"], len(kernel))
        edges = paddings(plan.settings["padding"], kernel, tuple_of(plan.settings["dilation"], len(kernel)))
        if not steps or max(steps) == 1:
            return
        for phase in range(1, max(steps)):
            for sign in (1, -1):
                moved: Any = [(before - sign * phase, after + sign * phase) for before, after in edges]
                if all(before >= 0 and after >= 0 for before, after in moved):
                    yield Variant(
                        plan=plan.changed(padding=moved),
                        what=f"begun {phase} {'later' if sign > 0 else 'earlier'}",
                        fix=f"pad {trial.key} as the reference does, so that the stride begins where it should",
                        implies=("conv.padding", "shift.sequence"),
                    )


HYPOTHESIS: Final = ConvStride()
