"""Logarithms and exponents of spectrograms."""

from __future__ import annotations

import numpy as np
import pytest

from tests.diagnose.values.planted import confidence_in, diagnosed, first_cause, noisy, normal, uniform

POWERS = uniform(2, 80, 50) ** 3 + np.float32(1e-3)
LOGS = np.log(POWERS)


@pytest.mark.parametrize(
    ("factor", "says"),
    [
        (1 / np.log(10), "log10(e)"),
        (np.log(10), "ln(10)"),
        (10 / np.log(10), "to decibels"),
        (1 / np.log(2), "log2(e)"),
    ],
)
def test_another_base_is_named(factor: float, says: str) -> None:
    found = diagnosed(LOGS, noisy(LOGS * np.float32(factor)), "log_mel")
    assert found[0].cause == "audio.log_base"
    assert says in found[0].evidence
    assert "scale.constant" in found[0].implies


@pytest.mark.parametrize(("exponent", "says"), [(2, "the square"), (0.5, "the root")])
def test_powers_in_place_of_amplitudes(exponent: float, says: str) -> None:
    found = diagnosed(POWERS, noisy(POWERS ** np.float32(exponent)), "spectrogram")
    assert found[0].cause == "audio.power"
    assert says in found[0].evidence


def test_twice_the_logarithm_is_a_power() -> None:
    assert first_cause(LOGS, noisy(2 * LOGS), "mel") == "audio.power"


@pytest.mark.parametrize("name", ["hidden", "head.logits"])
def test_twice_anything_else_is_a_scale(name: str) -> None:
    hidden = normal(2, 80, 50)
    found = diagnosed(hidden, noisy(2 * hidden), name)
    assert found[0].cause == "scale.constant"
    assert confidence_in("audio.power", found) == 0.0


def test_the_factor_of_a_base_elsewhere_leaves_doubt() -> None:
    hidden = normal(2, 80, 50)
    found = diagnosed(hidden, noisy(hidden * np.float32(np.log(10))), "hidden")
    assert confidence_in("audio.log_base", found) < 0.8
