"""Gated linear units, and the MLPs made of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from firstdiff.ops.activations import activate
from firstdiff.ops.arrays import doubles
from firstdiff.ops.linear import linear
from firstdiff.ops.operator import operator


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
