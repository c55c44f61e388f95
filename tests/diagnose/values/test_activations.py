"""Activations too many, too few, or others."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from firstdiff.diagnose.values.activations import KINDS, MAPS, inverse_above_zero
from tests.diagnose.values.planted import confidence_in, diagnosed, first_cause, noisy, normal

X = 2 * normal(4, 32, 64)


def made(name: str) -> np.ndarray:
    return np.asarray(MAPS[name](X.astype(np.float64)), np.float32)


@pytest.mark.parametrize("name", ["relu", "gelu (erf)", "silu", "tanh", "sigmoid", "softplus"])
def test_an_activation_that_is_missing_or_too_much_is_named(name: str) -> None:
    missing = diagnosed(made(name), noisy(X))
    assert missing[0].cause == "activation.missing"
    assert missing[0].fix == f"apply {name}"
    extra = diagnosed(X, noisy(made(name)))
    assert extra[0].cause == "activation.extra"
    assert extra[0].fix == f"leave out {name}"


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("gelu (erf)", "gelu (tanh)"),
        ("gelu (tanh)", "gelu (erf)"),
        ("gelu (erf)", "quick gelu"),
        ("gelu (erf)", "silu"),
        ("silu", "relu"),
        ("relu", "gelu (erf)"),
    ],
)
def test_another_activation_is_named(right: str, wrong: str) -> None:
    found = diagnosed(made(right), noisy(made(wrong)))
    assert found[0].cause == "activation.kind"
    assert found[0].fix == f"use {right} in place of {wrong}"


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_is_undone_above_0(name: str) -> None:
    above = np.linspace(0.01, 12, 400)
    back = inverse_above_zero(name, np.asarray(MAPS[name](above)))
    told = np.isfinite(back) & (np.asarray(MAPS[name](above)) < 0.999)
    assert np.allclose(back[told], above[told], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("size", [1.0, 1e-3, 1e-30])
def test_a_scale_is_no_activation(size: float) -> None:
    values = X * np.float32(size)
    found = diagnosed(values, noisy(values * 2))
    assert found[0].cause == "scale.constant"
    assert not [one.cause for one in found if one.cause.startswith("activation.")]


@pytest.mark.parametrize("change", [np.square, np.sin, lambda x: x**3 / 10])
def test_other_curves_are_not_called_activations(change: Callable[[np.ndarray], np.ndarray]) -> None:
    found = diagnosed(X, noisy(change(X).astype(np.float32)))
    assert not [one.cause for one in found if one.cause.startswith("activation.") and one.confidence > 0.5]


def test_true_and_false_have_no_activation() -> None:
    assert first_cause(X > 0, X > 0.5) == "attention.mask"


def test_whole_numbers_have_no_activation() -> None:
    whole = np.round(20 * X).astype(np.int32)
    found = diagnosed(whole, np.maximum(whole, 0))
    assert confidence_in("activation.extra", found) == 0.0
