"""Hypothesis: a transposed weight."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from firstdiff.diagnose.counterfactual import Counterfactual, Trial, Variant


class WeightsTransposed(Counterfactual):
    """A weight is used transposed.

    Linear layers store `[out, in]`, GPT-2's Conv1D, TensorFlow and many ports `[in, out]`. A square weight fits
    either way, so that nothing complains. Kernels of convolutions have the same with their first two axes.

    Tested by computing the operation with the weight transposed. Transpose it when loading.
    """

    code = "weights.transposed"

    def variants(self, trial: Trial) -> Iterator[Variant]:
        for name, weight in trial.plan.arrays.items():
            if weight is None or not (name == "weight" or name.endswith("_weight")):
                continue
            array = np.asarray(weight)
            if array.ndim >= 2 and array.shape[0] == array.shape[1] and trial.plan.operator != "embedding":
                yield Variant(
                    plan=trial.plan.on(**{name: array.swapaxes(0, 1)}),
                    what=f"with the {name.replace('_', ' ')} transposed",
                    fix=f"transpose the {name.replace('_', ' ')} of {trial.key} when loading it",
                    implies=("weights.differ", "values.uncorrelated"),
                )


HYPOTHESIS: Final = WeightsTransposed()
