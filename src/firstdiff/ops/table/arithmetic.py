"""Table rows: arithmetic, residual connections included."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from firstdiff.ops import arithmetic as of
from firstdiff.ops.normalise import normalise
from firstdiff.ops.plan import Function, Plan
from firstdiff.ops.table.call import Call
from firstdiff.ops.table.row import Row, named


def _binary(function: Function, *settings: str, second: str = "other") -> Callable[[Call], Iterator[Plan]]:
    def plans(call: Call) -> Iterator[Plan]:
        arrays = {"input": call.operand("input", "0"), second: call.operand(second, "other", "1")}
        yield Plan.of(function, arrays, **call.read(*settings).settings)

    return plans


def _div(call: Call) -> Iterator[Plan]:
    arrays = {"input": call.operand("input", "0"), "other": call.operand("other", "1")}
    rounding = "floor" if call.op == "floor_divide" else call.told("rounding_mode")
    yield Plan.of(of.div, arrays, rounding=rounding)


def _lerp(call: Call) -> Iterator[Plan]:
    arrays = {"input": call.main(), "end": call.operand("end", "1"), "weight": call.operand("weight", "2")}
    yield Plan.of(of.lerp, arrays)


def _with_two(function: Function) -> Callable[[Call], Iterator[Plan]]:
    def plans(call: Call) -> Iterator[Plan]:
        arrays = {"input": call.main(), "tensor1": call.operand("tensor1"), "tensor2": call.operand("tensor2")}
        yield Plan.of(function, arrays, **call.read("value").settings)

    return plans


def _modulate(call: Call) -> Iterator[Plan]:
    arrays = {
        "input": call.array("x", "input", "0"),
        "shift": call.array("shift", "1"),
        "scale": call.array("scale", "2"),
    }
    for one_plus in (True, False):
        yield Plan.of(of.modulate, arrays, one_plus=one_plus, assumed=("one_plus",))


def _normalise(call: Call) -> Iterator[Plan]:
    """The transform that takes a mean and a deviation for each channel."""
    numbers = {name: np.asarray(call.needed(name), dtype=np.float64) for name in ("mean", "std")}
    yield Plan.of(normalise, {"input": call.main(), **numbers})


ROWS = (
    Row(supports=named("add Add"), plans=_binary(of.add, "alpha")),
    Row(supports=named("sub Sub"), plans=_binary(of.sub, "alpha")),
    Row(supports=named("mul Mul"), plans=_binary(of.mul)),
    Row(supports=named("div Div floor_divide"), plans=_div),
    Row(supports=named("pow Pow"), plans=_binary(of.power, second="exponent")),
    Row(supports=named("remainder"), plans=_binary(of.remainder)),
    Row(supports=named("maximum"), plans=_binary(of.maximum)),
    Row(supports=named("minimum"), plans=_binary(of.minimum)),
    Row(supports=named("lerp"), plans=_lerp),
    Row(supports=named("addcmul"), plans=_with_two(of.addcmul)),
    Row(supports=named("addcdiv"), plans=_with_two(of.addcdiv)),
    Row(supports=named("modulate Modulate"), plans=_modulate),
    Row(supports=lambda call: call.op == "Normalize" and {"mean", "std"} <= call.attrs.keys(), plans=_normalise),
)
