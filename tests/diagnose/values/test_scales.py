"""Factors: one for all, for channels, for rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.diagnose.values.planted import bf16, confidence_in, diagnosed, first_cause, noisy, normal

X = normal(2, 16, 64)


@pytest.mark.parametrize(
    ("factor", "name"),
    [
        (8.0, "8"),
        (1 / 8, "1 / 8"),
        (8**-0.5, "sqrt(8)"),
        (255.0, "255"),
        (1 / 32768, "32768"),
        (127.5, "127.5"),
        (1.03, None),
    ],
)
def test_a_constant_scale_is_found_and_named(factor: float, name: str | None) -> None:
    found = diagnosed(X, noisy(X * np.float32(factor)))
    assert found[0].cause == "scale.constant"
    assert f"{factor:.6g}" in found[0].evidence
    assert name is None or name in found[0].evidence
    assert found[0].residual is not None
    assert found[0].residual < 1e-4 * factor * np.abs(X).max()


@given(
    factor=st.floats(0.01, 100).filter(lambda factor: abs(factor - 1) > 0.02),
    shape=st.sampled_from([(40,), (5, 7), (2, 3, 8), (1, 4, 6, 8)]),
)
@settings(deadline=None, max_examples=12)
def test_any_factor_of_any_shape_is_found(factor: float, shape: tuple[int, ...]) -> None:
    values = normal(*shape, seed=3)
    found = diagnosed(values, noisy(values * np.float32(factor)))
    assert "scale.constant" in [one.cause for one in found] or found[0].cause == "audio.log_base"


def test_an_outlier_does_not_hide_the_scale() -> None:
    candidate = noisy(X * np.float32(0.7))
    candidate[0, 0, 0] = 1e4
    assert confidence_in("scale.constant", diagnosed(X, candidate)) > 0.3


def test_the_scale_is_found_in_half_precision() -> None:
    assert first_cause(bf16(X), bf16(noisy(X * np.float32(1.5), 5e-3))) == "scale.constant"


def test_few_elements_leave_doubt() -> None:
    two = np.array([1.0, 2.0], np.float32)
    many = normal(64)
    assert confidence_in("scale.constant", diagnosed(two, two * 3)) < confidence_in(
        "scale.constant", diagnosed(many, many * 3)
    )
    assert confidence_in("scale.constant", diagnosed(two[:1], two[:1] * 3)) == 0.0


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_one_scaled_index_of_any_axis_is_named(axis: int) -> None:
    values = normal(6, 8, 10)
    candidate = noisy(values)
    np.moveaxis(candidate, axis, 0)[3] *= np.float32(1.03)
    found = diagnosed(values, candidate)
    assert found[0].cause in ("scale.channel", "scale.constant")
    assert "index 3" in found[0].evidence or "indices 3" in found[0].evidence


def test_one_head_scaled_is_a_scale_of_that_head() -> None:
    values = normal(2, 8, 16, 8)
    candidate = noisy(values)
    candidate[:, 5] *= 1.5
    found = diagnosed(values, candidate)
    assert found[0].cause == "scale.channel"
    assert "index 5 of axis 1 scaled by" in found[0].evidence


def test_evidence_counts_indices_that_are_too_many_to_name() -> None:
    values = normal(40, 24)
    factors = np.linspace(1.1, 1.4, 24, dtype=np.float32)
    found = {item.cause: item for item in diagnosed(values, noisy(values * factors))}
    assert found["scale.channel"].evidence.startswith("all 24 indices of the last axis scaled by 1.1 to 1.4: ")


def test_a_scale_for_every_channel_is_no_constant_one() -> None:
    found = diagnosed(X, noisy(X * np.linspace(0.5, 2.0, 64, dtype=np.float32)))
    assert found[0].cause == "scale.channel"
    assert "0.5" in found[0].evidence
    assert "2" in found[0].evidence


def test_a_constant_scale_is_not_told_as_one_for_every_channel() -> None:
    assert confidence_in("scale.channel", diagnosed(X, noisy(X * np.float32(1.5), 3e-3))) == 0.0


def test_a_factor_for_every_row_is_a_scale_of_rows() -> None:
    factors = np.linspace(0.9, 1.2, 32, dtype=np.float32).reshape(2, 16, 1)
    assert first_cause(X, noisy(X * factors)) == "scale.row"


def test_a_complex_scale_is_found() -> None:
    values = (normal(8, 16) + 1j * normal(8, 16, seed=2)).astype(np.complex64)
    assert first_cause(values, values * np.complex64(2j)) == "scale.constant"
