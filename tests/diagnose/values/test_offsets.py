"""Numbers that are added: one for all, one for each channel, and means with deviations."""

from __future__ import annotations

import numpy as np
import pytest

from tests.diagnose.values.planted import confidence_in, diagnosed, first_cause, noisy, normal, uniform

X = normal(2, 16, 64)
IMAGE = uniform(2, 3, 24, 24)
MEAN = np.array([0.485, 0.456, 0.406], np.float32).reshape(3, 1, 1)
DEVIATION = np.array([0.229, 0.224, 0.225], np.float32).reshape(3, 1, 1)


@pytest.mark.parametrize("offset", [0.25, -3.0, 1e-3])
def test_a_constant_offset_is_found(offset: float) -> None:
    found = diagnosed(X, noisy(X + np.float32(offset)))
    assert found[0].cause == "offset.constant"
    assert f"{offset:.3g}" in found[0].evidence


def test_an_offset_from_a_token_on_is_found_there() -> None:
    candidate = noisy(X)
    candidate[:, 9:] += 1
    found = diagnosed(X, candidate)
    assert found[0].cause == "offset.constant"
    assert "indices >= 9 of axis 1" in found[0].evidence


@pytest.mark.parametrize("shape", [(2, 16, 64), (5, 32), (2, 3, 4, 24)])
def test_a_vector_along_the_channels_is_a_missing_bias(shape: tuple[int, ...]) -> None:
    values = normal(*shape)
    found = diagnosed(values, noisy(values - normal(shape[-1], seed=7)))
    assert found[0].cause == "bias.missing"
    assert "offset.channel" in found[0].implies


def test_the_bias_of_a_convolution_stands_along_the_second_axis() -> None:
    values = normal(2, 16, 40)
    found = diagnosed(values, noisy(values - normal(16, 1, seed=7)))
    assert found[0].cause == "bias.missing"
    assert "axis 1" in found[0].evidence


def test_two_rows_are_enough_for_offsets_of_channels() -> None:
    values = normal(2, 32)
    found = diagnosed(values, noisy(values + normal(32, seed=7)))
    assert found[0].cause == "offset.channel"
    assert not confidence_in("offset.channel", diagnosed(values, normal(2, 32, seed=3)))


def test_an_offset_of_some_channels_names_them() -> None:
    candidate = noisy(X)
    candidate[..., [3, 17]] += np.float32([0.5, -0.5])
    found = diagnosed(X, candidate)
    assert found[0].cause == "offset.channel"
    assert "3 and 17" in found[0].evidence


def test_one_row_alone_is_no_bias() -> None:
    values = normal(1, 64)
    assert confidence_in("bias.missing", diagnosed(values, values - normal(1, 64, seed=7))) == 0.0


@pytest.mark.parametrize("back", [False, True])
def test_the_mean_and_deviation_of_imagenet_are_named(back: bool) -> None:
    sides = [IMAGE, noisy((IMAGE - MEAN) / DEVIATION)]
    found = diagnosed(*(sides[::-1] if back else sides))
    assert found[0].cause == "normalise.mean_std"
    assert "ImageNet" in found[0].evidence


@pytest.mark.parametrize(("mean", "deviation"), [(0.5, 0.5), (-4.0, 4.0), (0.3, 0.7)])
def test_a_scale_with_an_offset_is_a_normalisation(mean: float, deviation: float) -> None:
    found = diagnosed(X, noisy((X - np.float32(mean)) / np.float32(deviation)))
    assert found[0].cause == "normalise.mean_std"


def test_values_brought_to_mean_0_and_deviation_1_are_told() -> None:
    values = 3 * normal(4, 500) + 7
    found = diagnosed(values, noisy((values - values.mean()) / values.std()))
    assert found[0].cause == "normalise.mean_std"
    assert "mean 0 and deviation 1" in found[0].evidence


def test_a_plain_scale_is_no_normalisation() -> None:
    assert confidence_in("normalise.mean_std", diagnosed(X, noisy(2 * X))) == 0.0


def test_a_scale_of_positive_values_is_no_offset() -> None:
    assert first_cause(IMAGE, noisy(IMAGE * np.float32(0.9))) == "scale.constant"
