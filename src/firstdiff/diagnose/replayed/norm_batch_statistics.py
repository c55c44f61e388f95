"""Hypothesis: a batch norm uses the statistics of the batch instead of the running ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from firstdiff.diagnose.counterfactual import Counterfactual, Trial, Variant
from firstdiff.ops import norms


class NormBatchStatistics(Counterfactual):
    """A batch norm uses the statistics of the batch instead of the running ones.

    In training a batch norm normalises by the mean and variance of the batch at hand; in evaluation by those it has
    gathered. A model left in training mode gives other values for every batch.

    Tested by computing the norm with the batch's own statistics. Put the candidate in evaluation mode
    (`model.eval()`).
    """

    code = "norm.batch_statistics"
    functions = (norms.batch_norm,)

    def variants(self, trial: Trial) -> Iterator[Variant]:
        if trial.plan.settings["batch_statistics"] or trial.plan.arrays.get("running_mean") is None:
            return
        yield Variant(
            plan=trial.plan.changed(batch_statistics=True),
            what="with the mean and variance of the batch itself",
            fix=f"put {trial.key} in evaluation mode, so that it uses the running statistics",
            implies=("norm.kind", "scale.channel"),
        )


HYPOTHESIS: Final = NormBatchStatistics()
