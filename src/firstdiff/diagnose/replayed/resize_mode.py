"""Hypothesis: another interpolation mode."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from firstdiff.diagnose.counterfactual import Counterfactual, Trial, Variant
from firstdiff.ops import resizing

_LINEAR = {3: "linear", 4: "bilinear", 5: "trilinear"}


class ResizeMode(Counterfactual):
    """Values are stretched or shrunk in another way.

    Nearest instead of linear, corners aligned or not, the nearest element counted from the edge or from the middle.
    Libraries differ in all of these.

    Tested by computing the other ways. Interpolate as the reference does.
    """

    code = "resize.mode"
    functions = (resizing.interpolate,)

    def variants(self, trial: Trial) -> Iterator[Variant]:
        linear = _LINEAR.get(np.ndim(trial.plan.arrays["input"]), "linear")
        right = trial.plan.settings["mode"], bool(trial.plan.settings["align_corners"])
        for mode, corners in (("nearest", False), ("nearest-exact", False), (linear, False), (linear, True)):
            if (mode, corners) != right:
                yield Variant(
                    plan=trial.plan.changed(mode=mode, align_corners=corners),
                    what=f"by {mode}{' with corners aligned' if corners else ''}",
                    fix=f"interpolate in {trial.key} by {right[0]}{' with corners aligned' if right[1] else ''}",
                )


HYPOTHESIS: Final = ResizeMode()
