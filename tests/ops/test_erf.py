from __future__ import annotations

import math

import numpy as np
import torch

from firstdiff.ops.erf import erf, erfc

SAMPLES = np.concatenate(
    [np.linspace(-7, 7, 20_012), 10.0 ** np.linspace(-300, 0, 601), -(10.0 ** np.linspace(-20, 0, 41))]
)


def test_erf_is_that_of_the_c_library_to_the_last_digits() -> None:
    wanted = np.array([math.erf(x) for x in SAMPLES])
    assert np.max(np.abs(erf(SAMPLES) - wanted) / np.abs(wanted)) < 1e-15


def test_erfc_keeps_its_digits_in_the_tail() -> None:
    x = np.linspace(-6, 26, 10_007)
    wanted = np.array([math.erfc(value) for value in x])
    assert np.max(np.abs(erfc(x) - wanted) / wanted) < 1e-13


def test_erf_agrees_with_torch() -> None:
    assert np.max(np.abs(erf(SAMPLES) - torch.erf(torch.from_numpy(SAMPLES)).numpy())) < 1e-15


def test_infinities_nan_and_signed_zeros() -> None:
    found = erf(np.array([np.inf, -np.inf, np.nan, 0.0, -0.0]))
    np.testing.assert_array_equal(found, [1.0, -1.0, np.nan, 0.0, -0.0])
    assert np.signbit(found[-1])
    np.testing.assert_array_equal(erfc(np.array([np.inf, -np.inf, np.nan])), [0.0, 2.0, np.nan])


def test_shapes_are_kept_also_of_a_lone_number_and_of_none() -> None:
    assert erf(np.array(0.5)).shape == ()
    assert erf(np.zeros((0, 3))).shape == (0, 3)
    strided = np.linspace(-2, 2, 24).reshape(4, 6).T
    np.testing.assert_array_equal(erfc(strided), erfc(strided.copy()))
