"""Hypothesis: a weight used as `w` instead of `1 + w`, or the reverse."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from firstdiff.diagnose.counterfactual import Counterfactual, Trial, Variant
from firstdiff.ops import arithmetic, norms


class AffineOnePlus(Counterfactual):
    """A weight is used as `w` where the reference uses `1 + w`, or the other way round.

    Gemma and others store the weight of a norm as its distance from 1, and adaLN multiplies with `1 + scale`. A port
    that takes such a weight as it is scales by nearly nothing; one that adds 1 to a plain weight about doubles the
    values.

    Tested by computing the operation the other way. Multiply with `1 + w` where the reference does, and only there.
    """

    code = "affine.one_plus"
    functions = (norms.layer_norm, norms.rms_norm, norms.group_norm, arithmetic.modulate)

    def variants(self, trial: Trial) -> Iterator[Variant]:
        if trial.function is not arithmetic.modulate and trial.plan.arrays.get("weight") is None:
            return
        right = bool(trial.plan.settings["one_plus"])
        yield Variant(
            plan=trial.plan.changed(one_plus=not right),
            what=f"multiplied with {'w' if right else '1 + w'} instead of {'1 + w' if right else 'w'}",
            fix=f"multiply with {'1 + w' if right else 'w'} in {trial.key}",
            implies=("scale.channel", "residual.missing"),
        )


HYPOTHESIS: Final = AffineOnePlus()
