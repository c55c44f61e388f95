"""Hypothesis: a norm with another variance formula."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np

from firstdiff.diagnose.counterfactual import Counterfactual, Trial, Variant
from firstdiff.dtypes import doubles
from firstdiff.ops import norms


class NormVariance(Counterfactual):
    """A normalisation takes its variance in another way.

    The variance is divided by n - 1 instead of n (many libraries' `std` does that), or eps is added to the deviation
    instead of the variance: all values are then off by one small factor. Or the root is forgotten, and values are
    divided by the variance instead of the deviation: each vector has a factor of its own.

    Tested by computing the norm in the other ways. Divide by n, add eps under the root and take the root, as the
    reference does.
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
        if trial.function in _ROOTLESS:
            yield Variant(
                plan=trial.plan.with_function(_ROOTLESS[trial.function]),
                what="divided by the variance instead of the deviation",
                fix=f"take the root of the variance in {trial.key}",
                implies=("scale.constant", "scale.row", "scale.channel", "norm.eps"),
            )


def _rootless(norm: Callable[..., np.ndarray], centre: bool) -> Callable[..., np.ndarray]:
    """A norm that divides by the variance, or the mean square, itself."""

    def divided(
        input: np.ndarray,
        weight: np.ndarray | None = None,
        bias: np.ndarray | None = None,
        *,
        axes: Sequence[int] = (-1,),
        eps: float,
        one_plus: bool = False,
    ) -> np.ndarray:
        x, across = doubles(input), tuple(axes)
        if centre:
            x = x - x.mean(axis=across, keepdims=True)
        deviation = np.sqrt(np.mean(x * x, axis=across, keepdims=True) + eps)
        scaled: np.ndarray = norm(input, weight, None, axes=axes, eps=eps, one_plus=one_plus) / deviation
        return scaled if bias is None else np.asarray(scaled + doubles(bias))

    return divided


_ROOTLESS = {norms.layer_norm: _rootless(norms.layer_norm, True), norms.rms_norm: _rootless(norms.rms_norm, False)}


HYPOTHESIS: Final = NormVariance()
