"""Gated linear units and MLPs, and the calls recorded of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from firstdiff.dtypes import doubles
from firstdiff.ops.activations import ACTIVATIONS, activate
from firstdiff.ops.arrays import operator
from firstdiff.ops.linear import linear
from firstdiff.ops.plan import Plan
from firstdiff.ops.recorded_call import Call, Row, UnrecordedError, named


@operator
def glu(
    input: np.ndarray,
    *,
    dim: int = -1,
    activation: str = "sigmoid",
    gate_first: bool = False,
    interleaved: bool = False,
) -> Any:
    """`value * activation(gate)`, value and gate being the halves of the input: GLU, SwiGLU, GeGLU, ReGLU.

    activation: "sigmoid" (GLU), "silu" (SwiGLU), "gelu" (GeGLU), "relu" (ReGLU), or another by its name
    gate_first: the gate is the first half
    interleaved: the halves are the even and the odd elements
    """
    x = np.moveaxis(doubles(input), dim, -1)
    if x.shape[-1] % 2:
        raise ValueError(f"an axis of {x.shape[-1]} has no halves")
    if interleaved:
        first, second = x[..., 0::2], x[..., 1::2]
    else:
        first, second = np.split(x, 2, axis=-1)
    value, gate = (second, first) if gate_first else (first, second)
    return np.moveaxis(value * activate(gate, activation=activation), -1, dim)


@operator
def gated_mlp(
    input: np.ndarray,
    gate_weight: np.ndarray,
    up_weight: np.ndarray,
    down_weight: np.ndarray,
    gate_bias: np.ndarray | None = None,
    up_bias: np.ndarray | None = None,
    down_bias: np.ndarray | None = None,
    *,
    activation: str = "silu",
    transposed: bool = False,
) -> Any:
    """`down(activation(gate(x)) * up(x))`.

    transposed: the weights are stored `[in, out]`
    """
    gate = activate(linear(input, gate_weight, gate_bias, transposed=transposed), activation=activation)
    up = linear(input, up_weight, up_bias, transposed=transposed)
    return linear(gate * up, down_weight, down_bias, transposed=transposed)


@operator
def mlp(
    input: np.ndarray,
    in_weight: np.ndarray,
    out_weight: np.ndarray,
    in_bias: np.ndarray | None = None,
    out_bias: np.ndarray | None = None,
    *,
    activation: str = "gelu",
    transposed: bool = False,
) -> Any:
    """`out(activation(in(x)))`.

    transposed: the weights are stored `[in, out]`
    """
    hidden = activate(linear(input, in_weight, in_bias, transposed=transposed), activation=activation)
    return linear(hidden, out_weight, out_bias, transposed=transposed)


_MLP = re.compile(r"(MLP|Mlp|FeedForward|FFN|DenseGatedActDense|DenseActDense)$")
# gate, up, down
_GATED = (
    ("gate_proj", "up_proj", "down_proj"),
    ("w1", "w3", "w2"),
    ("gate", "up", "down"),
    ("wi_0", "wi_1", "wo"),
)
_FUSED = (("gate_up_proj", "down_proj"),)
# in, out
_PLAIN = (
    ("fc1", "fc2"),
    ("c_fc", "c_proj"),
    ("fc_in", "fc_out"),
    ("intermediate_dense", "output_dense"),
    ("dense_h_to_4h", "dense_4h_to_h"),
    ("up_proj", "down_proj"),
    ("wi", "wo"),
    ("w1", "w2"),
    ("lin1", "lin2"),
    ("linear1", "linear2"),
)
_ACTIVATION = ("hidden_act", "activation", "act", "act_fn", "activation_function", "hidden_activation")
_USUAL_GATES = ("silu", "gelu_tanh", "gelu", "relu", "sigmoid", "quick_gelu")
_USUAL = ("gelu", "gelu_tanh", "relu", "silu", "quick_gelu", "relu2", "tanh")
_GLU_KINDS = {"GLU": "sigmoid", "glu": "sigmoid", "SwiGLU": "silu", "GeGLU": "gelu", "GEGLU": "gelu", "ReGLU": "relu"}


def _glu(call: Call) -> Iterator[Plan]:
    """Read SwiGLU and its kin, without parameters here: either half may be the gate."""
    dim = call.told("dim", default=-1)
    activation = _GLU_KINDS[call.op]
    if activation == "sigmoid":
        yield Plan.of(glu, {"input": call.main()}, dim=dim, activation=activation)
        return
    for gate_first in (False, True):
        yield Plan.of(
            glu, {"input": call.main()}, dim=dim, activation=activation, gate_first=gate_first, assumed=("gate_first",)
        )


def _mlp(call: Call) -> Iterator[Plan]:
    arrays, function, usual = _parts(call)
    first = next(array for name, array in arrays.items() if name.endswith("_weight"))
    told = call.told(*_ACTIVATION)
    known = isinstance(told, str) and told in ACTIVATIONS
    for transposed in _ways(call, first):
        for activation in (str(told),) if known else usual:
            assumed = () if known else ("activation",)
            all_arrays = {"input": call.main(), **arrays}
            yield Plan.of(function, all_arrays, activation=activation, transposed=transposed, assumed=assumed)


def _parts(call: Call) -> tuple[dict[str, Any], Any, tuple[str, ...]]:
    """Return the arrays by operand name, their function, and its usual activations."""
    if found := _weights(call, _GATED, ("gate", "up", "down")):
        return found, gated_mlp, _USUAL_GATES
    if found := _weights(call, _FUSED, ("gate_up", "down")):
        return _halved(found), gated_mlp, _USUAL_GATES
    if found := _weights(call, _PLAIN, ("in", "out")):
        return found, mlp, _USUAL
    held = ", ".join(sorted(call.params)) or "none"
    raise UnrecordedError.of_params(
        f"the weights of {call.name} were not recorded, or have names that are not known ({held})",
        ", and level='op' for what is inside",
    )


def _weights(call: Call, known: Iterable[tuple[str, ...]], reference: tuple[str, ...]) -> dict[str, Any] | None:
    """Return weights and biases by operand name, by the first set of names whose weights are all recorded."""
    for candidate in known:
        if all(f"{name}.weight" in call.params for name in candidate):
            pairs = list(zip(candidate, reference, strict=True))
            weights = {f"{our}_weight": call.params[f"{their}.weight"] for their, our in pairs}
            return weights | {f"{our}_bias": call.params.get(f"{their}.bias") for their, our in pairs}
    return None


def _halved(arrays: dict[str, Any]) -> dict[str, Any]:
    halves: dict[str, Any] = {}
    for part in ("weight", "bias"):
        whole = arrays[f"gate_up_{part}"]
        gate, up = (None, None) if whole is None else np.split(whole, 2)
        halves |= {f"gate_{part}": gate, f"up_{part}": up, f"down_{part}": arrays[f"down_{part}"]}
    return halves


def _ways(call: Call, weight: np.ndarray) -> tuple[bool, ...]:
    """Return the values of `transposed` that fit; GPT-2's `c_fc` is transposed, others of that name are not."""
    size = call.main().shape[-1]
    return tuple(way for way in (False, True) if weight.shape[0 if way else 1] == size)


ROWS = (
    Row(
        supports=lambda call: named(*_GLU_KINDS)(call) and not call.params,
        plans=_glu,
    ),
    Row(supports=lambda call: bool(_MLP.search(call.op)), plans=_mlp, autocasts=True, costly=True),
)
