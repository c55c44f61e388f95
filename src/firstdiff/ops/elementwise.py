"""Elementwise functions other than activations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from firstdiff.ops.arrays import doubles
from firstdiff.ops.erf import erf
from firstdiff.ops.operator import operator

BY_NAME: dict[str, Callable[[np.ndarray], Any]] = {
    "square": np.square,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "reciprocal": lambda x: 1.0 / x,
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "log2": np.log2,
    "log10": np.log10,
    "erf": erf,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "neg": np.negative,
    "abs": np.abs,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.round,
    "softsign": lambda x: x / (1.0 + np.abs(x)),
    "tanhshrink": lambda x: x - np.tanh(x),
}


@operator
def elementwise(input: np.ndarray, *, kind: str) -> Any:
    """The function of that name, element by element."""
    if kind not in BY_NAME:
        raise ValueError(f"no function is called {kind!r}; known are {', '.join(BY_NAME)}")
    return BY_NAME[kind](doubles(input))
