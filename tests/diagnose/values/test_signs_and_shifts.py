"""Signs, and places along an axis."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.diagnose.values.planted import confidence_in, diagnosed, first_cause, noisy, normal

X = normal(2, 16, 64)


@pytest.mark.parametrize("part", [np.s_[...], np.s_[..., :32], np.s_[..., 7], np.s_[..., ::2], np.s_[1], np.s_[:, 4:]])
def test_a_sign_is_found_turned_wherever_it_is(part: tuple[slice, ...]) -> None:
    candidate = noisy(X)
    candidate[part] *= -1
    assert first_cause(X, candidate) == "sign.flip"


def test_signs_of_scattered_channels_are_told() -> None:
    candidate = noisy(X)
    candidate[..., [1, 2, 5, 11, 12, 30, 31, 44, 45, 50, 60]] *= -1
    found = diagnosed(X, candidate)
    assert found[0].cause == "sign.flip"
    assert "the sign of 11 of the 64 indices of" in found[0].evidence


def test_a_conjugate_is_a_sign() -> None:
    values = (normal(8, 16) + 1j * normal(8, 16, seed=2)).astype(np.complex64)
    found = diagnosed(values, values.conj())
    assert found[0].cause == "sign.flip"
    assert "conjugate" in found[0].fix


@given(lag=st.integers(-5, 5).filter(bool), axis=st.integers(0, 2), filled=st.sampled_from(["rolled", "zero", "other"]))
@settings(deadline=None, max_examples=20)
def test_a_shift_along_any_axis_is_found(lag: int, axis: int, filled: str) -> None:
    values = normal(11, 13, 17)
    candidate = np.roll(values, lag, axis)
    free = np.moveaxis(candidate, axis, 0)[slice(0, lag) if lag > 0 else slice(lag, None)]
    if filled != "rolled":
        free[...] = 0 if filled == "zero" else normal(*free.shape, seed=9)
    found = diagnosed(values, noisy(candidate))
    assert found[0].cause == "shift.sequence"
    assert f"{abs(lag)} place" in found[0].evidence
    assert ("late" if lag > 0 else "early") in found[0].evidence


def test_a_row_of_numbers_is_found_shifted() -> None:
    sound = normal(1000)
    assert first_cause(sound, np.roll(sound, 5)) == "shift.sequence"


def test_smooth_values_that_are_scaled_are_not_shifted() -> None:
    smooth = np.sin(np.arange(400, dtype=np.float32) / 40)
    assert first_cause(smooth, noisy(smooth * np.float32(1.1))) == "scale.constant"


def test_values_that_are_all_alike_along_an_axis_are_not_shifted_along_it() -> None:
    values = np.repeat(normal(1, 1, 32), 16, axis=1)
    assert confidence_in("shift.sequence", diagnosed(values, noisy(values * 2))) == 0.0


def test_channels_rolled_by_a_head_are_heads_in_another_order() -> None:
    values = normal(2, 16, 32)
    found = diagnosed(values, noisy(np.roll(values, -8, axis=-1)))
    assert found[0].cause == "layout.head_order"
    assert "shift.sequence" in [one.cause for one in found]
