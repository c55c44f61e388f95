"""Hypothesis: a norm without its weight, or without weight and bias."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from firstdiff.diagnose.counterfactual import Counterfactual, Trial, Variant
from firstdiff.ops import norms


class NormAffine(Counterfactual):
    """A normalisation leaves out its weight, or weight and bias.

    After normalising, each channel is multiplied with a weight and moved by a bias. A port that forgets this, or does
    not load the weights, gives plain normalised values.

    Tested by computing the norm without them. Multiply with the weight and add the bias; load both.
    """

    code = "norm.affine"
    functions = (norms.layer_norm, norms.rms_norm, norms.group_norm, norms.batch_norm)

    def variants(self, trial: Trial) -> Iterator[Variant]:
        has_bias = trial.plan.arrays.get("bias") is not None
        if trial.plan.arrays.get("weight") is None:
            return
        yield Variant(
            plan=trial.plan.on(weight=None, bias=None),
            what=f"without its weight{' and bias' if has_bias else ''}",
            fix=f"multiply with the weight of {trial.key}{' and add its bias' if has_bias else ''}",
            implies=("scale.channel",),
        )
        if has_bias:
            yield Variant(
                plan=trial.plan.on(weight=None),
                what="without its weight",
                fix=f"multiply with the weight of {trial.key}",
                implies=("scale.channel",),
            )


HYPOTHESIS: Final = NormAffine()
