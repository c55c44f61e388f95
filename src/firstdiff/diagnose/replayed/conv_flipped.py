"""Hypothesis: a convolution with a flipped kernel."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from firstdiff.diagnose.counterfactual import Counterfactual, Trial, Variant
from firstdiff.ops import conv


class ConvFlipped(Counterfactual):
    """The kernel of a convolution is flipped.

    What models call convolution is correlation: the kernel is laid down as it is. Libraries of signal processing flip
    it first.

    Tested by flipping the kernel along each of its axes and all of them. Flip it when loading, or call correlation.
    """

    code = "conv.flipped"
    functions = (conv.conv, conv.conv_transpose)

    def variants(self, trial: Trial) -> Iterator[Variant]:
        kernel = np.asarray(trial.plan.arrays["weight"])
        axes = [axis for axis in range(2, kernel.ndim) if kernel.shape[axis] > 1]
        for flipped in dict.fromkeys([tuple(axes), *((axis,) for axis in axes)]):
            if flipped:
                yield Variant(
                    plan=trial.plan.on(weight=np.flip(kernel, axis=flipped)),
                    what="with the kernel flipped",
                    fix=f"do not flip the kernel of {trial.key}",
                    implies=("weights.differ",),
                )


HYPOTHESIS: Final = ConvFlipped()
