"""Elementwise functions other than activations, softmax and the error function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from firstdiff.dtypes import doubles
from firstdiff.ops.arrays import operator, reals

# exp(z^2) erfc(z) (1 + 2z) for z >= 0 as a polynomial of t = (z - 3.75) / (z + 3.75): the Chebyshev expansion to
# degree 24, in powers of t. The remainder is below 1e-16.
_CENTRE = 3.75
_TAIL = (
    1.2375126308378275,
    -0.14024059858554697,
    0.0035854154854644293,
    0.0822767384901452,
    -0.10880393014174886,
    0.09230432116037748,
    -0.05869339858963677,
    0.028362277418956406,
    -0.009746579558029276,
    0.0017556258528952954,
    0.0002937136655913448,
    -0.0002901540805408417,
    5.164909889268241e-05,
    2.238423915508223e-05,
    -1.1444146237700524e-05,
    -9.73559896736775e-07,
    1.751637648849062e-06,
    -5.7218230603224086e-08,
    -2.5866850716155884e-07,
    2.3263508708859124e-08,
    3.8675334242222354e-08,
    -3.744210080962018e-09,
    -5.1739902140113095e-09,
    3.1114333809799254e-10,
    4.2514714447963895e-10,
)
# Taylor: erf(x) = x * sum of 2/sqrt(pi) (-1)^n x^2n / (n! (2n+1)), to 1e-17 for |x| < 0.5
_NEAR = (
    1.1283791670955126,
    -0.37612638903183754,
    0.11283791670955126,
    -0.026866170645131252,
    0.005223977625442188,
    -0.0008548327023450852,
    0.00012055332981789664,
    -1.492565035840625e-05,
    1.6462114365889246e-06,
    -1.6365844691234924e-07,
    1.4807192815879218e-08,
    -1.2290555301717926e-09,
)
_NEAR_LIMIT = 0.5
# block size: polynomials are evaluated on blocks that fit into the cache
_BLOCK = 1 << 13


def erfc(values: np.ndarray) -> np.ndarray:
    """1 - erf, accurate to the last digits also where erf is nearly 1.

    values: float64
    """
    flat = np.ascontiguousarray(reals(values)).reshape(-1)
    out = np.empty_like(flat)
    with np.errstate(all="ignore"):
        for start in range(0, flat.size, _BLOCK):
            out[start : start + _BLOCK] = _erfc_block(flat[start : start + _BLOCK])
    return out.reshape(np.shape(values))


def erf(values: np.ndarray) -> np.ndarray:
    """Return the error function, to 1e-15.

    values: float64
    """
    array = reals(values)
    near = np.abs(array) < _NEAR_LIMIT
    out = np.asarray(np.copysign(1.0 - erfc(np.abs(array)), array))
    inner = array[near]
    out[near] = inner * _polynomial(_NEAR, inner * inner)
    return out


def _erfc_block(x: np.ndarray) -> np.ndarray:
    z = np.abs(x)
    tail = _polynomial(_TAIL, 1.0 - 2 * _CENTRE / (z + _CENTRE))
    tail *= np.exp(-z * z)
    tail /= 1.0 + 2.0 * z
    np.subtract(2.0, tail, out=tail, where=x < 0)
    return tail


def _polynomial(coefficients: tuple[float, ...], t: np.ndarray) -> np.ndarray:
    total = np.full_like(t, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        total *= t
        total += coefficient
    return total


FUNCTIONS: dict[str, Callable[[np.ndarray], Any]] = {
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
    """Apply the function with a name such as "exp", element by element."""
    if kind not in FUNCTIONS:
        raise ValueError(f"no function is called {kind!r}; known are {', '.join(FUNCTIONS)}")
    return FUNCTIONS[kind](doubles(input))


@operator
def softmax(input: np.ndarray, *, dim: int = -1, scale: float = 1.0) -> Any:
    """Return weights that sum to 1 along `dim`; NaN where all scores are -inf.

    scale: multiplies the input first
    """
    return softmax_in_place(np.asarray(doubles(input) * scale), dim)


@operator
def log_softmax(input: np.ndarray, *, dim: int = -1, scale: float = 1.0) -> Any:
    """Return the logarithm of `softmax`."""
    shifted = np.asarray(doubles(input) * scale)
    if shifted.size == 0:
        return shifted
    axis = _softmax_axis(shifted, dim)
    shifted -= shifted.max(axis=axis, keepdims=True)
    shifted -= np.log(np.exp(shifted).sum(axis=axis, keepdims=True))
    return shifted


def softmax_in_place(scores: np.ndarray, dim: int) -> np.ndarray:
    """Compute softmax in place of its input."""
    if scores.size == 0:
        return scores
    axis = _softmax_axis(scores, dim)
    with np.errstate(all="ignore"):
        scores -= scores.max(axis=axis, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=axis, keepdims=True)
    return scores


def _softmax_axis(array: np.ndarray, dim: int) -> int | None:
    """Return the axis of softmax; None for a scalar."""
    return dim if array.ndim else None
