"""Hypothesis: an activation is not applied."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from firstdiff.diagnose.counterfactual import Counterfactual, Trial, Variant
from firstdiff.diagnose.replayed.activation_kind import ACTIVATIONS, INSIDE
from firstdiff.ops import activations


class ActivationMissing(Counterfactual):
    """An activation function is not applied.

    The values go through as they are. Signs that the reference does not have (below 0 after ReLU) are typical.

    Tested by taking the operation without its activation. Apply it.
    """

    code = "activation.missing"
    functions = (*ACTIVATIONS, *INSIDE)

    def variants(self, trial: Trial) -> Iterator[Variant]:
        plan = trial.plan
        has_setting = "activation" in plan.settings
        yield Variant(
            plan=plan.changed(activation="none") if has_setting else plan.with_function(activations.identity),
            what="without the activation",
            fix=f"apply the activation of {trial.key}",
            implies=("op.skipped", "activation.kind"),
        )


HYPOTHESIS: Final = ActivationMissing()
