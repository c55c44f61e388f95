"""Hypothesis: a bias is not added."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from firstdiff.diagnose.counterfactual import Counterfactual, Trial, Variant


class BiasMissing(Counterfactual):
    """A bias is not added, or is added twice.

    A layer of the reference adds a bias to each channel, the candidate's does not: it was not exported, not loaded,
    or the layer was made without one. The difference is one number for each channel, the same for every token.

    Tested by computing the operation without the bias, and with it twice. Load the bias and add it once.
    """

    code = "bias.missing"
    also = ("bias.repeated",)

    def variants(self, trial: Trial) -> Iterator[Variant]:
        for name, bias in trial.plan.arrays.items():
            if bias is None or not (name == "bias" or name.endswith("_bias")):
                continue
            which = "its bias" if name == "bias" else f"its {name.removesuffix('_bias')} bias"
            implied = ("offset.constant", "offset.channel", "weights.differ", "weights.missing")
            fix = f"add the bias of {trial.key}"
            yield Variant(plan=trial.plan.on(**{name: None}), what=f"without {which}", fix=fix, implies=implied)
            twice = 2.0 * np.asarray(bias, dtype=np.float64)
            yield Variant(
                plan=trial.plan.on(**{name: twice}),
                what=f"with {which} added twice",
                fix=f"{fix} once",
                implies=implied,
                cause="bias.repeated",
            )


HYPOTHESIS: Final = BiasMissing()
