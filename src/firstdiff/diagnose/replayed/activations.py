"""Hypotheses: another activation, none at all, or softmax along another axis."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from firstdiff.diagnose.counterfactual import Counterfactual, Trial, Variant
from firstdiff.ops import Plan, activations, elementwise, gated
from firstdiff.ops import activations as of

_KINDS: dict[str, Any] = {
    "relu": of.relu,
    "gelu (erf)": lambda input: of.gelu(input, approximate="none"),
    "gelu (tanh)": lambda input: of.gelu(input, approximate="tanh"),
    "gelu (quick)": lambda input: of.gelu(input, approximate="quick"),
    "silu": of.silu,
    "sigmoid": of.sigmoid,
    "tanh": of.tanh,
    "mish": of.mish,
    "softplus": of.softplus,
    "relu squared": of.relu_squared,
    "leaky relu (0.01)": of.leaky_relu,
    "leaky relu (0.1)": lambda input: of.leaky_relu(input, negative_slope=0.1),
    "leaky relu (0.2)": lambda input: of.leaky_relu(input, negative_slope=0.2),
    "elu": of.elu,
    "selu": of.selu,
    "hardswish": of.hardswish,
    "hardsigmoid": of.hardsigmoid,
    "relu6": lambda input: of.clamp(input, min=0.0, max=6.0),
    "logsigmoid": of.logsigmoid,
    "softsign": lambda input: np.asarray(input / (1.0 + np.abs(input)), dtype=np.float64),
    "exp": lambda input: np.exp(np.asarray(input, dtype=np.float64)),
}
ACTIVATIONS = (
    *(of.relu, of.relu_squared, of.sigmoid, of.gelu, of.silu, of.softplus, of.mish, of.tanh, of.snake, of.leaky_relu),
    *(of.prelu, of.elu, of.selu, of.celu, of.hardsigmoid, of.hardswish, of.logsigmoid, of.clamp, of.activate),
)
INSIDE = (gated.mlp, gated.gated_mlp, gated.glu)
_SETTING_NAMES = (
    "relu",
    "gelu",
    "gelu_tanh",
    "quick_gelu",
    "silu",
    "sigmoid",
    "tanh",
    "mish",
    "relu2",
    "softplus",
    "selu",
)


class ActivationKind(Counterfactual):
    """Another activation function is used.

    GELU alone comes in three forms: by erf, by tanh (off by up to 5e-4) and the quick one by sigmoid (off by up to
    2e-2); configurations call them `gelu`, `gelu_new`, `gelu_pytorch_tanh`, `quick_gelu`. SiLU, ReLU, Mish and the
    others look alike in a plot and are not.

    Tested by computing every known activation on the candidate's own input. Use the reference's.
    """

    code = "activation.kind"
    functions = (*ACTIVATIONS, *INSIDE)

    def variants(self, trial: Trial) -> Iterator[Variant]:
        fix = f"use the activation of the reference in {trial.key}: {activation_name(trial)}"
        for name, plan in _other_activations(trial.plan):
            yield Variant(plan=plan, what=f"with {name} instead of {activation_name(trial)}", fix=fix)


def activation_name(trial: Trial) -> str:
    """Name the activation of an operation, with its settings."""
    settings = trial.plan.settings
    if "activation" in settings:
        return str(settings["activation"])
    told = {name: value for name, value in settings.items() if isinstance(value, int | float | str)}
    return trial.plan.operator + (f" ({', '.join(f'{k}={v}' for k, v in told.items())})" if told else "")


def _other_activations(plan: Plan) -> Iterator[tuple[str, Plan]]:
    if "activation" in plan.settings:
        for name in _SETTING_NAMES:
            if name != plan.settings["activation"]:
                yield name, plan.changed(activation=name)
        return
    for name, function in _KINDS.items():
        yield name, Plan.of(function, {"input": plan.arrays["input"]})


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


class SoftmaxAxis(Counterfactual):
    """Softmax runs along another axis.

    Weights of attention must sum to 1 over the keys. Along another axis they are shares of something else, of the
    right shape and in the right range.

    Tested by computing it along every other axis. Give softmax the reference's axis.
    """

    code = "softmax.axis"
    functions = (elementwise.softmax, elementwise.log_softmax)

    def variants(self, trial: Trial) -> Iterator[Variant]:
        ndim = np.ndim(trial.plan.arrays["input"])
        right = int(trial.plan.settings["dim"]) % max(ndim, 1)
        for axis in range(ndim):
            if axis != right:
                yield Variant(
                    plan=trial.plan.changed(dim=axis),
                    what=f"along axis {axis} instead of {right}",
                    fix=f"run {trial.key} along axis {right}",
                )
        yield Variant(
            plan=trial.plan.changed(dim=tuple(range(ndim))),
            what="over all axes at once",
            fix=f"run {trial.key} along axis {right}",
        )


ACTIVATION_KIND: Final = ActivationKind()
ACTIVATION_MISSING: Final = ActivationMissing()
SOFTMAX_AXIS: Final = SoftmaxAxis()
