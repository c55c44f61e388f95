"""How the variance of a normalisation is taken."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from firstdiff.diagnose.counterfactual import Counterfactual, Trial, Variant
from firstdiff.ops import norms


class NormVariance(Counterfactual):
    """A normalisation takes its variance in another way.

    The variance is divided by n - 1 instead of n (many libraries' `std` does that), or eps is added to the deviation
    instead of the variance. All values are then off by one small factor.

    Tested by computing the norm in the other ways. Divide by n and add eps under the root, as the reference does.
    """

    code = "norm.variance"
    functions = (norms.layer_norm, norms.rms_norm, norms.group_norm, norms.batch_norm)

    def variants(self, trial: Trial) -> Iterator[Variant]:
        settings = trial.plan.settings
        if "unbiased" in settings:
            right = bool(settings["unbiased"])
            yield Variant(
                plan=trial.plan.changed(unbiased=not right),
                what=f"with a variance divided by n{'' if right else ' - 1'}",
                fix=f"divide the variance of {trial.key} by n{' - 1' if right else ''}",
                implies=("scale.constant",),
            )
        if "eps_outside" in settings:
            outside = bool(settings["eps_outside"])
            yield Variant(
                plan=trial.plan.changed(eps_outside=not outside),
                what=f"with eps added to the {'variance' if outside else 'deviation'}",
                fix=f"add eps to the {'deviation' if outside else 'variance'} in {trial.key}",
                implies=("scale.constant", "scale.row", "norm.eps"),
            )


HYPOTHESIS: Final = NormVariance()
