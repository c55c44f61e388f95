"""Hypothesis: a convolution with another dilation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from firstdiff.diagnose.counterfactual import Counterfactual, Trial, Variant
from firstdiff.ops import conv
from firstdiff.ops.arrays import tuple_of
from firstdiff.ops.conv import paddings

_TRIED = (1, 2, 3, 4, 5, 9)


class ConvDilation(Counterfactual):
    """A convolution has another dilation.

    The elements of the kernel are laid next to each other instead of apart, or the other way round, and the padding
    follows, so that the shape is right.

    Tested by computing the convolution with other dilations, padded to the same length. Set the dilation to the
    reference's.
    """

    code = "conv.dilation"
    functions = (conv.conv,)

    def variants(self, trial: Trial) -> Iterator[Variant]:
        plan = trial.plan
        kernel = np.shape(plan.arrays["weight"])[2:]
        gaps = tuple_of(plan.settings["dilation"], len(kernel))
        edges = paddings(plan.settings["padding"], kernel, gaps)
        for gap in _TRIED:
            spans = [(gap - old) * (size - 1) for old, size in zip(gaps, kernel, strict=True)]
            wider = [(b + span - span // 2, a + span // 2) for (b, a), span in zip(edges, spans, strict=True)]
            if (gap,) * len(kernel) != gaps and all(before >= 0 and after >= 0 for before, after in wider):
                yield Variant(
                    plan=plan.changed(dilation=gap, padding=wider),
                    what=f"with a dilation of {gap} instead of {gaps[-1]}",
                    fix=f"set the dilation of {trial.key} to {gaps[-1]}",
                )


HYPOTHESIS: Final = ConvDilation()
