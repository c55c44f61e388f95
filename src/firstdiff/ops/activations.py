"""Activation functions, and the calls recorded of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import pi, sqrt
from typing import Any

import numpy as np

from firstdiff.dtypes import doubles
from firstdiff.ops.arrays import operator, per_channel
from firstdiff.ops.elementwise import FUNCTIONS, elementwise, erfc, log_softmax, softmax
from firstdiff.ops.plan import Function, Plan
from firstdiff.ops.recorded_call import Call, Row, named

_SELU_ALPHA = 1.6732632423543772848170429916717
_SELU_SCALE = 1.0507009873554804934193349852946


@operator
def identity(input: np.ndarray) -> Any:
    """Return the values as they are."""
    return doubles(input)


@operator
def relu(input: np.ndarray) -> Any:
    """`max(x, 0)`."""
    return np.maximum(doubles(input), 0.0)


@operator
def relu_squared(input: np.ndarray) -> Any:
    """`max(x, 0)^2`."""
    return relu(input) ** 2


@operator
def clamp(input: np.ndarray, *, min: float | None = None, max: float | None = None) -> Any:
    """Clamp values to `[min, max]`; NaN stays."""
    x = doubles(input)
    x = x if min is None else np.maximum(x, min)
    return x if max is None else np.minimum(x, max)


@operator
def sigmoid(input: np.ndarray) -> Any:
    """`1 / (1 + exp(-x))`."""
    x = doubles(input)
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1.0, small) / (1.0 + small)


@operator
def gelu(input: np.ndarray, *, approximate: str = "none") -> Any:
    """`x` times the normal distribution function of x.

    approximate: "none" (by erf), "tanh", or "quick" (`x * sigmoid(1.702 x)`)
    """
    x = doubles(input)
    if approximate == "none":
        return 0.5 * x * erfc(x / -sqrt(2.0))
    if approximate == "tanh":
        return 0.5 * x * (1.0 + np.tanh(sqrt(2.0 / pi) * (x + 0.044715 * x * x * x)))
    if approximate == "quick":
        return x * sigmoid(1.702 * x)
    raise ValueError(f"approximate is {approximate!r}; it takes 'none', 'tanh' or 'quick'")


@operator
def silu(input: np.ndarray, *, beta: float = 1.0) -> Any:
    """`x * sigmoid(beta x)`, also called swish."""
    x = doubles(input)
    return x * sigmoid(beta * x)


@operator
def softplus(input: np.ndarray, *, beta: float = 1.0, threshold: float = 20.0) -> Any:
    """`log(1 + exp(beta x)) / beta`; x itself where `beta x` is above the threshold."""
    x = doubles(input)
    return np.where(beta * x > threshold, x, np.logaddexp(0.0, beta * x) / beta)


@operator
def mish(input: np.ndarray) -> Any:
    """`x * tanh(softplus(x))`."""
    x = doubles(input)
    return x * np.tanh(np.logaddexp(0.0, x))


@operator
def tanh(input: np.ndarray) -> Any:
    """Return the hyperbolic tangent."""
    return np.tanh(doubles(input))


@operator
def snake(
    input: np.ndarray,
    alpha: np.ndarray,
    beta: np.ndarray | None = None,
    *,
    logarithmic: bool = False,
    eps: float = 1e-9,
    axis: int = 1,
) -> Any:
    """`x + sin(alpha x)^2 / (beta + eps)`, as in vocoders; beta is alpha unless given.

    alpha, beta: one number for each channel of `axis`, or one for all
    logarithmic: they are stored as logarithms
    """
    x = doubles(input)
    rate, size = (_channels(item, x.ndim, axis) for item in (alpha, alpha if beta is None else beta))
    if logarithmic:
        rate, size = np.exp(rate), np.exp(size)
    return x + np.sin(rate * x) ** 2 / (size + eps)


@operator
def leaky_relu(input: np.ndarray, *, negative_slope: float = 0.01) -> Any:
    """x, or `negative_slope * x` below 0."""
    x = doubles(input)
    return np.where(x > 0, x, negative_slope * x)


@operator
def prelu(input: np.ndarray, weight: np.ndarray) -> Any:
    """`leaky_relu` with a slope of its own for each channel of axis 1."""
    x = doubles(input)
    slope = _channels(weight, x.ndim, 1) if x.ndim > 1 else doubles(weight)
    return np.where(x > 0, x, slope * x)


@operator
def elu(input: np.ndarray, *, alpha: float = 1.0, scale: float = 1.0, width: float = 1.0) -> Any:
    """`scale * x`, or `scale * alpha * (exp(x / width) - 1)` below 0: ELU, CELU (width = alpha) and SELU."""
    x = doubles(input)
    return scale * np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0.0) / width))


@operator
def selu(input: np.ndarray) -> Any:
    """`elu` with the two constants that keep mean 0 and variance 1."""
    return elu(input, alpha=_SELU_ALPHA, scale=_SELU_SCALE)


@operator
def celu(input: np.ndarray, *, alpha: float = 1.0) -> Any:
    """`elu` whose slope is continuous for every alpha."""
    return elu(input, alpha=alpha, width=alpha)


@operator
def hardsigmoid(input: np.ndarray) -> Any:
    """`(x + 3) / 6`, clamped to `[0, 1]`."""
    return clamp((doubles(input) + 3.0) / 6.0, min=0.0, max=1.0)


@operator
def hardswish(input: np.ndarray) -> Any:
    """`x * hardsigmoid(x)`."""
    return doubles(input) * hardsigmoid(input)


@operator
def logsigmoid(input: np.ndarray) -> Any:
    """Return the logarithm of the sigmoid."""
    return -np.logaddexp(0.0, -doubles(input))


def _channels(values: np.ndarray, ndim: int, axis: int) -> np.ndarray:
    """Broadcast one number for all, one for each channel, or an array with its axes in place."""
    array = doubles(values)
    return array if array.ndim == ndim or array.size == 1 else per_channel(array, ndim, axis)


# names as configurations spell them
ACTIVATIONS: dict[str, Callable[[np.ndarray], Any]] = {
    "none": identity,
    "linear": identity,
    "relu": relu,
    "relu2": relu_squared,
    "sigmoid": sigmoid,
    "tanh": tanh,
    "silu": silu,
    "swish": silu,
    "mish": mish,
    "gelu": gelu,
    "gelu_tanh": lambda x: gelu(x, approximate="tanh"),
    "gelu_new": lambda x: gelu(x, approximate="tanh"),
    "gelu_pytorch_tanh": lambda x: gelu(x, approximate="tanh"),
    "quick_gelu": lambda x: gelu(x, approximate="quick"),
    "softplus": softplus,
    "selu": selu,
    "elu": elu,
    "leaky_relu": leaky_relu,
    "hardswish": hardswish,
}


@operator
def activate(input: np.ndarray, *, activation: str) -> Any:
    """Apply the activation with a name such as "silu"."""
    if activation not in ACTIVATIONS:
        raise ValueError(f"no activation is called {activation!r}; known are {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[activation](input)


def _reader(function: Function, *settings: str, **fixed: Any) -> Callable[[Call], Iterator[Plan]]:
    """Make the reader of a function of one input, whose settings are recorded under their own names."""

    def plans(call: Call) -> Iterator[Plan]:
        read = call.read(*settings)
        yield Plan.of(function, {"input": call.main()}, assumed=read.assumed, **{**fixed, **read.settings})

    return plans


def _gelu(call: Call) -> Iterator[Plan]:
    told = call.told("approximate")
    if told is not None or call.is_function:
        yield Plan.of(gelu, {"input": call.main()}, approximate=told or "none")
        return
    for approximate in ("none", "tanh"):
        yield Plan.of(gelu, {"input": call.main()}, approximate=approximate, assumed=("approximate",))


def _like_gelu(call: Call) -> Iterator[Plan]:
    for approximate in ("tanh", "none", "quick"):
        yield Plan.of(gelu, {"input": call.main()}, approximate=approximate, assumed=("approximate",))


def _snake(call: Call) -> Iterator[Plan]:
    arrays = {"input": call.main(), "alpha": call.array("alpha"), "beta": call.optional("beta")}
    eps = call.told("no_div_by_zero", "eps", default=1e-9)
    told = call.told("alpha_logscale", "logarithmic")
    for logarithmic in (False, True) if told is None else (bool(told),):
        assumed = ("logarithmic",) if told is None else ()
        yield Plan.of(snake, arrays, logarithmic=logarithmic, eps=eps, assumed=assumed)


def _prelu(call: Call) -> Iterator[Plan]:
    yield Plan.of(prelu, {"input": call.main(), "weight": call.array("weight")})


def _softmax(call: Call) -> Iterator[Plan]:
    function = softmax if call.op.lower() == "softmax" else log_softmax
    yield Plan.of(function, {"input": call.main()}, dim=call.needed("dim", "axis"))


def _hardtanh(call: Call) -> Iterator[Plan]:
    low, high = call.told("min_val", default=-1.0), call.told("max_val", default=1.0)
    yield Plan.of(clamp, {"input": call.main()}, min=low, max=high)


def _clamp(call: Call) -> Iterator[Plan]:
    yield Plan.of(clamp, {"input": call.main()}, min=call.told("min"), max=call.told("max"))


def _elementwise(call: Call) -> Iterator[Plan]:
    yield Plan.of(elementwise, {"input": call.main()}, kind=call.op.lower())


def _dropout(call: Call) -> Iterator[Plan]:
    at_work = call.told("training", "2", default=call.is_function)
    if at_work and call.told("p", "drop_prob", "1", default=0.5) > 0:
        raise call.random()
    yield Plan.of(identity, {"input": call.main()})


_GELU_TANH = "NewGELUActivation GELUTanh PytorchGELUTanh FastGELUActivation AccurateGELUActivation NewGELU"

ROWS = (
    Row(supports=named("GELU gelu"), plans=_gelu),
    Row(supports=named("GELUActivation"), plans=_reader(gelu, approximate="none")),
    Row(supports=named(_GELU_TANH), plans=_reader(gelu, approximate="tanh")),
    Row(supports=named("QuickGELU QuickGELUActivation"), plans=_reader(gelu, approximate="quick")),
    Row(supports=lambda call: not call.is_function and call.op.lower().endswith("gelu"), plans=_like_gelu),
    Row(supports=named("ReLU relu Relu"), plans=_reader(relu)),
    Row(supports=named("ReLU6 relu6"), plans=_reader(clamp, min=0.0, max=6.0)),
    Row(supports=named("ReLUSquaredActivation"), plans=_reader(relu_squared)),
    Row(supports=named("SiLU silu SiLUActivation Swish"), plans=_reader(silu)),
    Row(supports=named("Mish mish MishActivation"), plans=_reader(mish)),
    Row(supports=named("Tanh tanh"), plans=_reader(tanh)),
    Row(supports=named("Sigmoid sigmoid"), plans=_reader(sigmoid)),
    Row(supports=named("LogSigmoid logsigmoid"), plans=_reader(logsigmoid)),
    Row(supports=named("Softplus softplus"), plans=_reader(softplus, "beta", "threshold")),
    Row(supports=named("LeakyReLU leaky_relu"), plans=_reader(leaky_relu, "negative_slope")),
    Row(supports=named("ELU elu"), plans=_reader(elu, "alpha")),
    Row(supports=named("CELU celu"), plans=_reader(celu, "alpha")),
    Row(supports=named("SELU selu"), plans=_reader(selu)),
    Row(supports=named("Hardswish hardswish"), plans=_reader(hardswish)),
    Row(supports=named("Hardsigmoid hardsigmoid"), plans=_reader(hardsigmoid)),
    Row(supports=named("Hardtanh hardtanh"), plans=_hardtanh),
    Row(supports=named("clamp"), plans=_clamp),
    Row(supports=named("PReLU prelu"), plans=_prelu),
    Row(supports=lambda call: call.op.startswith("Snake"), plans=_snake),
    Row(supports=named("Softmax softmax LogSoftmax log_softmax"), plans=_softmax),
    Row(supports=named("Identity LinearActivation"), plans=_reader(identity)),
    Row(supports=named("Dropout Dropout1d Dropout2d Dropout3d DropPath dropout"), plans=_dropout),
    Row(supports=lambda call: call.op.lower() in FUNCTIONS, plans=_elementwise),
)
