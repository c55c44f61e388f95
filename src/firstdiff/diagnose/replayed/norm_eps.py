"""Hypothesis: a norm with another eps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from firstdiff.diagnose.counterfactual import Counterfactual, Trial, Variant, solve_setting
from firstdiff.ops import norms

_USUAL = (1e-5, 1e-6, 1e-12, 1e-8, 1e-3, 1e-7, 1e-4, 1e-2, 0.0)


class NormEps(Counterfactual):
    """A normalisation adds another eps.

    Every norm adds a small eps to the variance before the root; models use 1e-5, 1e-6, 1e-12. Another one changes the
    output by a share of `eps / variance`, the more the smaller the input: about 1e-3 for inputs of deviation 0.1.

    Tested by computing the reference's norm on the candidate's own inputs and solving for the eps that fits. Set the
    candidate's eps to the reference's.
    """

    code = "norm.eps"
    functions = (norms.layer_norm, norms.rms_norm, norms.group_norm, norms.batch_norm, norms.lp_norm)

    def variants(self, trial: Trial) -> Iterator[Variant]:
        right = float(trial.plan.settings["eps"])
        solved = solve_setting(trial, "eps", usual=_USUAL, low=1e-14, high=10.0)
        if solved is not None and solved.value != right:
            yield Variant(
                plan=solved.plan,
                fit=solved.fit,
                what=f"with eps {solved.value:.3g} instead of {right:.3g}",
                fix=f"set eps of {trial.key} to {right:.3g}",
                assumed=0 if solved.usual else 1,
                implies=("scale.constant", "scale.row"),
            )


HYPOTHESIS: Final = NormEps()
