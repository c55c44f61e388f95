"""Table rows: activations, softmax and other elementwise functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from firstdiff.ops import activations as of
from firstdiff.ops.elementwise import BY_NAME, elementwise
from firstdiff.ops.plan import Function, Plan
from firstdiff.ops.softmax import log_softmax, softmax
from firstdiff.ops.table.call import Call
from firstdiff.ops.table.row import Row, named


def _plain(function: Function, *settings: str, **fixed: Any) -> Callable[[Call], Iterator[Plan]]:
    """A function of the input alone, with settings that are recorded under their own names."""

    def plans(call: Call) -> Iterator[Plan]:
        read = call.read(*settings)
        yield Plan.of(function, {"input": call.main()}, assumed=read.assumed, **{**fixed, **read.settings})

    return plans


def _gelu(call: Call) -> Iterator[Plan]:
    told = call.told("approximate")
    if told is not None or call.is_function:
        yield Plan.of(of.gelu, {"input": call.main()}, approximate=told or "none")
        return
    for approximate in ("none", "tanh"):
        yield Plan.of(of.gelu, {"input": call.main()}, approximate=approximate, assumed=("approximate",))


def _like_gelu(call: Call) -> Iterator[Plan]:
    for approximate in ("tanh", "none", "quick"):
        yield Plan.of(of.gelu, {"input": call.main()}, approximate=approximate, assumed=("approximate",))


def _snake(call: Call) -> Iterator[Plan]:
    arrays = {"input": call.main(), "alpha": call.array("alpha"), "beta": call.optional("beta")}
    eps = call.told("no_div_by_zero", "eps", default=1e-9)
    told = call.told("alpha_logscale", "logarithmic")
    for logarithmic in (False, True) if told is None else (bool(told),):
        assumed = ("logarithmic",) if told is None else ()
        yield Plan.of(of.snake, arrays, logarithmic=logarithmic, eps=eps, assumed=assumed)


def _prelu(call: Call) -> Iterator[Plan]:
    yield Plan.of(of.prelu, {"input": call.main(), "weight": call.array("weight")})


def _softmax(call: Call) -> Iterator[Plan]:
    function = softmax if call.op.lower() == "softmax" else log_softmax
    yield Plan.of(function, {"input": call.main()}, dim=call.needed("dim", "axis"))


def _hardtanh(call: Call) -> Iterator[Plan]:
    low, high = call.told("min_val", default=-1.0), call.told("max_val", default=1.0)
    yield Plan.of(of.clamp, {"input": call.main()}, min=low, max=high)


def _clamp(call: Call) -> Iterator[Plan]:
    yield Plan.of(of.clamp, {"input": call.main()}, min=call.told("min"), max=call.told("max"))


def _elementwise(call: Call) -> Iterator[Plan]:
    yield Plan.of(elementwise, {"input": call.main()}, kind=call.op.lower())


def _dropout(call: Call) -> Iterator[Plan]:
    at_work = call.told("training", "2", default=call.is_function)
    if at_work and call.told("p", "drop_prob", "1", default=0.5) > 0:
        raise call.random()
    yield Plan.of(of.identity, {"input": call.main()})


_GELU_TANH = "NewGELUActivation GELUTanh PytorchGELUTanh FastGELUActivation AccurateGELUActivation NewGELU"

ROWS = (
    Row(supports=named("GELU gelu"), plans=_gelu),
    Row(supports=named("GELUActivation"), plans=_plain(of.gelu, approximate="none")),
    Row(supports=named(_GELU_TANH), plans=_plain(of.gelu, approximate="tanh")),
    Row(supports=named("QuickGELU QuickGELUActivation"), plans=_plain(of.gelu, approximate="quick")),
    Row(supports=lambda call: not call.is_function and call.op.lower().endswith("gelu"), plans=_like_gelu),
    Row(supports=named("ReLU relu Relu"), plans=_plain(of.relu)),
    Row(supports=named("ReLU6 relu6"), plans=_plain(of.clamp, min=0.0, max=6.0)),
    Row(supports=named("ReLUSquaredActivation"), plans=_plain(of.relu_squared)),
    Row(supports=named("SiLU silu SiLUActivation Swish"), plans=_plain(of.silu)),
    Row(supports=named("Mish mish MishActivation"), plans=_plain(of.mish)),
    Row(supports=named("Tanh tanh"), plans=_plain(of.tanh)),
    Row(supports=named("Sigmoid sigmoid"), plans=_plain(of.sigmoid)),
    Row(supports=named("LogSigmoid logsigmoid"), plans=_plain(of.logsigmoid)),
    Row(supports=named("Softplus softplus"), plans=_plain(of.softplus, "beta", "threshold")),
    Row(supports=named("LeakyReLU leaky_relu"), plans=_plain(of.leaky_relu, "negative_slope")),
    Row(supports=named("ELU elu"), plans=_plain(of.elu, "alpha")),
    Row(supports=named("CELU celu"), plans=_plain(of.celu, "alpha")),
    Row(supports=named("SELU selu"), plans=_plain(of.selu)),
    Row(supports=named("Hardswish hardswish"), plans=_plain(of.hardswish)),
    Row(supports=named("Hardsigmoid hardsigmoid"), plans=_plain(of.hardsigmoid)),
    Row(supports=named("Hardtanh hardtanh"), plans=_hardtanh),
    Row(supports=named("clamp"), plans=_clamp),
    Row(supports=named("PReLU prelu"), plans=_prelu),
    Row(supports=lambda call: call.op.startswith("Snake"), plans=_snake),
    Row(supports=named("Softmax softmax LogSoftmax log_softmax"), plans=_softmax),
    Row(supports=named("Identity LinearActivation"), plans=_plain(of.identity)),
    Row(supports=named("Dropout Dropout1d Dropout2d Dropout3d DropPath dropout"), plans=_dropout),
    Row(supports=lambda call: call.op.lower() in BY_NAME, plans=_elementwise),
)
