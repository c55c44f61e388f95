"""Residuals of operations replayed on the candidate's own inputs."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from firstdiff.judge.alone import parts_alone

BF16 = np.dtype(ml_dtypes.bfloat16)
COMPUTED = np.random.default_rng(4).standard_normal((64, 96))
NOISE = np.random.default_rng(5).standard_normal(COMPUTED.shape)


def parts(own: np.ndarray, *, once: bool = True, each_element: bool = False) -> set[str]:
    return {part.part for part in parts_alone(COMPUTED, own.astype(BF16), BF16, once=once, each_element=each_element)}


@pytest.mark.parametrize("once", [True, False])
@pytest.mark.parametrize("each_element", [True, False])
def test_one_rounding_of_the_result_passes(once: bool, each_element: bool) -> None:
    assert not parts(COMPUTED, once=once, each_element=each_element)


def test_an_operation_of_several_roundings_may_be_noisier() -> None:
    noisy = COMPUTED * (1 + 2**-8 * NOISE)
    assert "level" in parts(noisy)
    assert not parts(noisy, once=False)


@pytest.mark.parametrize("once", [True, False])
def test_a_scale_is_no_rounding(once: bool) -> None:
    assert "scale" in parts(COMPUTED * 1.03, once=once)


def test_an_activation_of_another_formula_shows_in_its_tail() -> None:
    """Its values there are too small to matter beside a row of ordinary ones."""
    own = COMPUTED.copy()
    own[np.abs(own) < 0.02] *= 1.2
    assert parts(own, each_element=True) == {"local"}
