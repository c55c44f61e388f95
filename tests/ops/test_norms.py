from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from firstdiff.ops.norms import batch_norm, group_norm, layer_norm, lp_norm, rms_norm
from tests.ops.oracle import assert_agrees, double, dtypes, seeds, values

shapes = st.lists(st.integers(1, 6), min_size=1, max_size=4)
epsilons = st.sampled_from([0.0, 1e-12, 1e-6, 1e-5, 0.1])


@settings(max_examples=50)
@given(seed=seeds, shape=shapes, last=st.integers(1, 4), eps=epsilons, affine=st.integers(0, 2), dtype=dtypes)
def test_layer_norm_is_torchs(seed: int, shape: list[int], last: int, eps: float, affine: int, dtype: np.dtype) -> None:
    shape[-1] += 1
    own = shape[-min(last, len(shape)) :]
    x = values(seed, *shape, dtype=dtype, scale=3.0)
    weight = values(seed + 1, *own, dtype=dtype) if affine else None
    bias = values(seed + 2, *own, dtype=dtype) if affine > 1 else None
    found = layer_norm(x, weight, bias, axes=range(-len(own), 0), eps=eps)
    assert_agrees(found, functional.layer_norm(double(x), own, double(weight), double(bias), eps), 1e-11)


@settings(max_examples=50)
@given(seed=seeds, shape=shapes, eps=epsilons, affine=st.booleans(), dtype=dtypes)
def test_rms_norm_is_torchs(seed: int, shape: list[int], eps: float, affine: bool, dtype: np.dtype) -> None:
    x = values(seed, *shape, dtype=dtype, scale=3.0)
    weight = values(seed + 1, shape[-1], dtype=dtype) if affine else None
    found = rms_norm(x, weight, eps=eps)
    assert_agrees(found, functional.rms_norm(double(x), shape[-1:], double(weight), eps))


def test_one_plus_adds_one_to_the_weight() -> None:
    x, weight = values(1, 3, 8), values(2, 8)
    np.testing.assert_allclose(rms_norm(x, weight, one_plus=True), rms_norm(x, 1 + weight), rtol=1e-14)
    np.testing.assert_allclose(layer_norm(x, weight, one_plus=True), layer_norm(x, 1 + weight), rtol=1e-14)


def test_other_ways_to_normalise() -> None:
    x = values(1, 3, 8)
    centred = double(x) - double(x).mean(-1, keepdim=True)
    std = double(x).std(-1, keepdim=True)
    assert_agrees(layer_norm(x, unbiased=True, eps=0.5), centred / torch.sqrt(std**2 + 0.5))
    assert_agrees(layer_norm(x, unbiased=True, eps_outside=True, eps=0.5), centred / (std + 0.5))
    root = (double(x) ** 2).mean(-1, keepdim=True).sqrt()
    assert_agrees(rms_norm(x, eps_outside=True, eps=0.5), double(x) / (root + 0.5))


def test_channels_may_lie_anywhere() -> None:
    x, weight, bias = values(1, 2, 5, 3, 4), values(2, 5), values(3, 5)
    wanted = functional.layer_norm(double(x).movedim(1, -1), [5], double(weight), double(bias), 1e-6).movedim(-1, 1)
    assert_agrees(layer_norm(x, weight, bias, axes=(1,), eps=1e-6), wanted)


@settings(max_examples=40)
@given(
    seed=seeds,
    batch=st.integers(1, 3),
    groups=st.integers(1, 4),
    width=st.integers(1, 3),
    places=st.lists(st.integers(2, 4), max_size=2),
    affine=st.booleans(),
    eps=epsilons,
    dtype=dtypes,
)
def test_group_norm_is_torchs(
    seed: int, batch: int, groups: int, width: int, places: list[int], affine: bool, eps: float, dtype: np.dtype
) -> None:
    channels = groups * (width + 1)
    x = values(seed, batch, channels, *places, dtype=dtype)
    weight, bias = (values(seed + n, channels, dtype=dtype) if affine else None for n in (1, 2))
    found = group_norm(x, weight, bias, groups=groups, eps=eps)
    assert_agrees(found, functional.group_norm(double(x), groups, double(weight), double(bias), eps), 1e-11)


@settings(max_examples=40)
@given(
    seed=seeds,
    channels=st.integers(1, 5),
    places=st.lists(st.integers(1, 4), max_size=3),
    training=st.booleans(),
    affine=st.booleans(),
    eps=epsilons.filter(bool),
    dtype=dtypes,
)
def test_batch_norm_is_torchs(
    seed: int, channels: int, places: list[int], training: bool, affine: bool, eps: float, dtype: np.dtype
) -> None:
    x = values(seed, 3, channels, *places, dtype=dtype)
    mean, variance = values(seed + 1, channels), np.abs(values(seed + 2, channels))
    weight, bias = (values(seed + n, channels, dtype=dtype) if affine else None for n in (3, 4))
    found = batch_norm(x, mean, variance, weight, bias, eps=eps, batch_statistics=training)
    running = (double(mean).clone(), double(variance).clone())
    wanted = functional.batch_norm(double(x), *running, double(weight), double(bias), training, 0.1, eps)
    assert_agrees(found, wanted, 1e-11)


def test_without_running_statistics_the_batch_has_to_do() -> None:
    x = values(1, 4, 3)
    np.testing.assert_array_equal(batch_norm(x), batch_norm(x, np.ones(3), np.ones(3), batch_statistics=True))


@pytest.mark.parametrize(("p", "dim"), [(2.0, 1), (1.0, -1), (float("inf"), 0), (3.0, 1)])
def test_lp_norm_is_torchs(p: float, dim: int) -> None:
    x = values(1, 3, 4, 5)
    x[0] = 0
    assert_agrees(lp_norm(x, p=p, dim=dim), functional.normalize(double(x), p=p, dim=dim))


@pytest.mark.parametrize("scale", [1e-320, 1e-160, 1e150])
def test_tiny_and_huge_values(scale: float) -> None:
    x = values(1, 3, 8) * scale
    assert_agrees(layer_norm(x, eps=1e-5), functional.layer_norm(double(x), [8], eps=1e-5))
    assert_agrees(rms_norm(x, eps=1e-5), functional.rms_norm(double(x), [8], eps=1e-5))


def test_nan_and_infinity_stay_in_their_row() -> None:
    x = values(1, 3, 8)
    x[0, 2], x[1, 5] = np.nan, np.inf
    assert_agrees(layer_norm(x), functional.layer_norm(double(x), [8]))
    assert np.isfinite(layer_norm(x)[2]).all()


def test_nothing_normalised_is_nothing() -> None:
    assert layer_norm(np.zeros((0, 4))).shape == (0, 4)
    assert batch_norm(np.zeros((0, 4))).shape == (0, 4)


def test_a_constant_row_with_eps_0_is_nan_as_in_torch() -> None:
    x = np.ones((1, 4))
    assert_agrees(layer_norm(x, eps=0.0), functional.layer_norm(double(x), [4], eps=0.0))
