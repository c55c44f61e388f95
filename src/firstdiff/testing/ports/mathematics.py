"""Functions that ports in numpy share, in single precision."""

from __future__ import annotations

import math

import numpy as np

from firstdiff.testing.ports.port import Array

_erf = np.vectorize(math.erf, otypes=[np.float32])


def softmax(x: Array, axis: int = -1) -> Array:
    e = np.exp(x - x.max(axis, keepdims=True))
    return np.asarray(e / e.sum(axis, keepdims=True))


def layer_norm(x: Array, weight: Array | float, bias: Array | float, eps: float, ddof: int = 0) -> Array:
    centred = x - x.mean(-1, keepdims=True)
    variance = (centred * centred).sum(-1, keepdims=True) / np.float32(x.shape[-1] - ddof)
    return np.asarray(centred / np.sqrt(variance + np.float32(eps)) * weight + bias)


def rms_norm(x: Array, weight: Array | float, eps: float) -> Array:
    return np.asarray(x / np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(eps)) * weight)


def gelu(x: Array) -> Array:
    return np.asarray(0.5 * x * (1 + _erf(x / np.float32(math.sqrt(2)))))


def gelu_tanh(x: Array) -> Array:
    return np.asarray(0.5 * x * (1 + np.tanh(np.float32(0.7978845608) * (x + np.float32(0.044715) * x**3))))


def sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def silu(x: Array) -> Array:
    return np.asarray(x * sigmoid(x))


def causal(tokens: int, offset: int = 0) -> Array:
    """True where a later token is hidden."""
    return np.asarray(np.triu(np.ones((tokens, tokens), bool), 1 + offset))
