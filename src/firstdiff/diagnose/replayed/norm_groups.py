"""Hypothesis: a group norm with another number of groups."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from firstdiff.diagnose.counterfactual import Counterfactual, Trial, Variant
from firstdiff.ops import norms


class NormGroups(Counterfactual):
    """A group norm has another number of groups.

    The channels are normalised in groups of another size. The output is of the right size and looks right, and every
    channel is a little off.

    Tested with every number of groups that divides the channels. Set the number of groups to the reference's.
    """

    code = "norm.groups"
    functions = (norms.group_norm,)

    def variants(self, trial: Trial) -> Iterator[Variant]:
        right = int(trial.plan.settings["groups"])
        channels = np.shape(trial.plan.arrays["input"])[1]
        for groups in range(1, channels + 1):
            if channels % groups == 0 and groups != right:
                yield Variant(
                    plan=trial.plan.changed(groups=groups),
                    what=f"with {groups} groups instead of {right}",
                    fix=f"give {trial.key} {right} groups",
                    implies=("norm.kind",),
                )


HYPOTHESIS: Final = NormGroups()
