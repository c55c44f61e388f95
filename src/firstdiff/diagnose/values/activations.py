"""Activation functions and, where they are monotonic, their inverses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Final

import numpy as np

from firstdiff.ops import activations

Map = Callable[[np.ndarray], np.ndarray]

_POINTS = 20_001
_REACH = 40.0


def _relu6(x: np.ndarray) -> np.ndarray:
    return np.asarray(np.clip(x, 0.0, 6.0))


def _hard_swish(x: np.ndarray) -> np.ndarray:
    return np.asarray(x * np.clip(x + 3.0, 0.0, 6.0) / 6.0)


def _elu(x: np.ndarray) -> np.ndarray:
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0.0)))


MAPS: Final[Mapping[str, Map]] = {
    "relu": activations.relu,
    "gelu (erf)": activations.gelu,
    "gelu (tanh)": partial(activations.gelu, approximate="tanh"),
    "quick gelu": partial(activations.gelu, approximate="quick"),
    "silu": activations.silu,
    "sigmoid": activations.sigmoid,
    "tanh": activations.tanh,
    "exp": np.exp,
    "softplus": activations.softplus,
    "mish": activations.mish,
    "elu": _elu,
    "leaky relu (0.01)": activations.leaky_relu,
    "leaky relu (0.1)": partial(activations.leaky_relu, negative_slope=0.1),
    "leaky relu (0.2)": partial(activations.leaky_relu, negative_slope=0.2),
    "relu6": _relu6,
    "hard swish": _hard_swish,
    "squared relu": activations.relu_squared,
}

# what a function makes of numbers below 0 does not tell them apart; above 0 all of these rise
KINDS: Final = tuple(name for name in MAPS if name not in ("exp", "relu6"))


@lru_cache(maxsize=32)
def _table(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Numbers from 0 up and what a function makes of them."""
    x = np.concatenate([np.linspace(0.0, 1.0, _POINTS)[:-1], np.geomspace(1.0, _REACH, _POINTS)])
    return x, np.asarray(MAPS[name](x))


def inverse_above_zero(name: str, values: np.ndarray) -> np.ndarray:
    """The number from 0 up that a function makes these values of; NaN where there is none. Exact to about 1e-9."""
    x, made = _table(name)
    found = np.interp(values, made, x, left=np.nan, right=np.nan)
    with np.errstate(all="ignore"):
        step = 1e-6
        slope = (MAPS[name](found + step) - MAPS[name](found)) / step
        better = found - (MAPS[name](found) - values) / slope
    return np.asarray(np.where(np.isfinite(better), better, found))


# the least that a function makes of any number, and whether it makes 0, and nothing else, of all numbers below 0
_LEAST: Final[Mapping[str, float]] = {
    "gelu (erf)": -0.1701,
    "gelu (tanh)": -0.1701,
    "quick gelu": -0.1637,
    "silu": -0.2785,
    "mish": -0.3089,
    "hard swish": -0.3751,
    "elu": -1.0,
    "tanh": -1.0,
}
_CUT_OFF = frozenset({"relu", "relu6", "squared relu"})
_POSITIVE = frozenset({"sigmoid", "exp", "softplus"})
_AT_MOST_ONE = frozenset({"sigmoid", "tanh"})
_SLOPES: Final[Mapping[str, float]] = {"leaky relu (0.01)": 0.01, "leaky relu (0.1)": 0.1, "leaky relu (0.2)": 0.2}
_UNEVEN = 3.0  # how much further than above 0 numbers may reach below it, before a slope flattens them
_SLACK = 1e-2
_SHARE = 0.02


def could_come_from(name: str, values: np.ndarray) -> bool:
    """True if values can be outputs of an activation: in its range, and with the zeros that it leaves."""
    told = values[np.isfinite(values)]
    if not told.size:
        return False
    low, high = float(told.min()), float(told.max())
    if name in _CUT_OFF:
        return low >= 0 and float(np.mean(told == 0)) > _SHARE
    if name in _POSITIVE:
        return low >= 0 and (high <= 1 + _SLACK or name not in _AT_MOST_ONE)
    if name in _AT_MOST_ONE and high > 1 + _SLACK:
        return False
    if name in _SLOPES and -low > _UNEVEN * _SLOPES[name] * high:
        return False
    return _LEAST.get(name, -np.inf) - _SLACK <= low < 0
