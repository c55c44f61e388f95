"""Table rows: gated linear units, and whole MLPs by the names of their parameters."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from firstdiff.ops.activations import BY_NAME
from firstdiff.ops.gated import gated_mlp, glu, mlp
from firstdiff.ops.plan import Plan
from firstdiff.ops.table.call import Call, UnrecordedError
from firstdiff.ops.table.row import Row, named

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
    """SwiGLU and its kin have no parameters here: the halves come in as they are, and which is the gate is open."""
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
    known = isinstance(told, str) and told in BY_NAME
    for transposed in _ways(call, first):
        for activation in (str(told),) if known else usual:
            assumed = () if known else ("activation",)
            all_arrays = {"input": call.main(), **arrays}
            yield Plan.of(function, all_arrays, activation=activation, transposed=transposed, assumed=assumed)


def _parts(call: Call) -> tuple[dict[str, Any], Any, tuple[str, ...]]:
    """The arrays by our names, the function they belong to, and the activations usual there."""
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


def _weights(call: Call, known: Iterable[tuple[str, ...]], ours: tuple[str, ...]) -> dict[str, Any] | None:
    """Weights and biases by our names, of the first set of names whose weights are all there."""
    for theirs in known:
        if all(f"{name}.weight" in call.params for name in theirs):
            pairs = list(zip(theirs, ours, strict=True))
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
