"""Hypothesis: another kind of norm."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from firstdiff.diagnose.counterfactual import Counterfactual, Trial, Variant
from firstdiff.ops import Plan, norms

_NAMES = {
    norms.layer_norm: "a layer norm",
    norms.rms_norm: "an RMS norm",
    norms.group_norm: "a group norm",
    norms.batch_norm: "a batch norm",
}


class NormKind(Counterfactual):
    """The values are normalised in another way.

    Layer norm takes the mean away before it divides by the deviation, RMS norm does not; group norm does it for
    groups of channels, instance norm for each channel, batch norm by statistics of the batch or of the training data.
    The statistics may also be taken over the wrong axes, as where channels come first.

    Tested by computing the other norms with the same weights and eps. Use the reference's kind of norm.
    """

    code = "norm.kind"
    functions = tuple(_NAMES)

    def variants(self, trial: Trial) -> Iterator[Variant]:
        right = _NAMES[trial.function]
        for name, plan in _others(trial.plan):
            yield Variant(plan=plan, what=f"as {name} instead of {right}", fix=f"make {trial.key} {right}")


def _others(plan: Plan) -> Iterator[tuple[str, Plan]]:
    if plan.function in (norms.layer_norm, norms.rms_norm):
        other = norms.rms_norm if plan.function is norms.layer_norm else norms.layer_norm
        yield _NAMES[other], plan.with_function(other)
        x = np.asarray(plan.arrays["input"])
        bare = plan.on(weight=None, bias=None)
        for axis in range(x.ndim - 1):
            moved = bare.changed(axes=(axis,))
            yield f"a norm over axis {axis}", _with_affine_of(plan, moved)
        yield "a norm over all but the batch", _with_affine_of(plan, bare.changed(axes=tuple(range(1, x.ndim))))
    if plan.function in (norms.group_norm, norms.batch_norm):
        channels = np.shape(plan.arrays["input"])[1]
        for name, groups in (("a layer norm over all channels", 1), ("an instance norm", channels)):
            yield name, plan.with_function(norms.group_norm, groups=groups)
        yield "a layer norm over the channels", plan.with_function(norms.layer_norm, axes=(1,))
        yield "an RMS norm over the channels", plan.with_function(norms.rms_norm, axes=(1,))
    if plan.function is norms.group_norm:
        yield "a batch norm", plan.with_function(norms.batch_norm, batch_statistics=True)


def _with_affine_of(plan: Plan, bare: Plan) -> Plan:
    """Normalised over other axes, yet scaled and moved as before."""
    weight, bias = plan.arrays.get("weight"), plan.arrays.get("bias")
    function, settings, one_plus = bare.function, dict(bare.settings), bool(plan.settings.get("one_plus"))

    def moved(input: np.ndarray) -> np.ndarray:
        x = function(input, **settings)
        x = x if weight is None else x * (np.asarray(weight, dtype=np.float64) + float(one_plus))
        return x if bias is None else np.asarray(x + np.asarray(bias, dtype=np.float64))

    return Plan.of(moved, {"input": plan.arrays["input"]})


HYPOTHESIS: Final = NormKind()
