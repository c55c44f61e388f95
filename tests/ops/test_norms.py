"""Normalisations against torch, and as modules and functions record them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

from firstdiff.ops import NotReplayable
from firstdiff.ops.norms import batch_norm, group_norm, layer_norm, lp_norm, normalise, rms_norm, standardise
from tests.ops.captured import assert_reproduced, function_call, operation
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


MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def test_images_are_normalised_by_channel() -> None:
    x = np.random.default_rng(1).integers(0, 256, (2, 3, 4, 5)).astype(np.uint8)
    mean, std = (torch.tensor(item, dtype=torch.float64).reshape(3, 1, 1) for item in (MEAN, STD))
    assert_agrees(normalise(x, MEAN, STD, rescale=1 / 255), (double(x) / 255 - mean) / std)


def test_one_number_may_do_for_all() -> None:
    x = values(1, 2, 7)
    assert_agrees(normalise(x, 0.5, np.array([2.0])), (double(x) - 0.5) / 2)
    assert_agrees(normalise(x, np.arange(7.0), np.full(7, 2.0), axis=-1), (double(x) - torch.arange(7.0)) / 2)


@pytest.mark.parametrize("unbiased", [False, True])
@pytest.mark.parametrize("outside", [False, True])
def test_values_are_standardised_by_their_own_statistics(unbiased: bool, outside: bool) -> None:
    x = values(1, 2, 50, scale=4.0)
    std, mean = torch.std_mean(double(x), -1, correction=int(unbiased), keepdim=True)
    width = std + 0.1 if outside else torch.sqrt(std**2 + 0.1)
    assert_agrees(standardise(x, eps=0.1, unbiased=unbiased, eps_outside=outside), (double(x) - mean) / width)


G = torch.Generator().manual_seed(1)
X = torch.randn(2, 5, 8, generator=G) * 0.1
IMAGE = torch.randn(3, 8, 4, 4, generator=G)


def filled(module: nn.Module) -> nn.Module:
    """Parameters and statistics that show."""
    for item in [*module.parameters(), *module.buffers()]:
        if item.is_floating_point():
            item.data = torch.rand(item.shape, generator=G) + 0.5
    return module.eval()


class LlamaRMSNorm(nn.Module):
    def __init__(self, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(8))
        self.variance_epsilon = eps

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        wide = hidden_states.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)
        return self.weight * wide.to(hidden_states.dtype)


class T5LayerNorm(LlamaRMSNorm):
    """An RMS norm by another name."""


class GemmaRMSNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.eps = 1e-6
        self.weight = nn.Parameter(torch.ones(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + self.eps)
        return (wide * (1.0 + self.weight.float())).type_as(x)


class OwnNorm(nn.Module):
    """One plus the weight, and nothing in the name or the attributes says so; not even eps is there."""

    def __init__(self) -> None:
        super().__init__()
        self.g = nn.Parameter(torch.ones(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-12) * (1 + self.g)


class LayerNorm(nn.Module):
    """A LayerNorm of one's own, without attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(8))
        self.bias = nn.Parameter(torch.ones(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.layer_norm(x, (8,), self.weight, self.bias, 1e-6)


class LayerNorm2d(nn.Module):
    """Over the channels of an image."""

    def __init__(self) -> None:
        super().__init__()
        self.eps = 1e-6
        self.weight = nn.Parameter(torch.ones(8))
        self.bias = nn.Parameter(torch.ones(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.layer_norm(x.movedim(1, -1), (8,), self.weight, self.bias, self.eps).movedim(-1, 1)


class FrozenBatchNorm2d(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.eps = 1e-5
        for name in ("weight", "bias", "running_mean", "running_var"):
            self.register_buffer(name, torch.ones(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = (self.weight * (self.running_var + self.eps).rsqrt()).reshape(1, -1, 1, 1)
        return (x - self.running_mean.reshape(1, -1, 1, 1)) * scale + self.bias.reshape(1, -1, 1, 1)


class MinMaxNorm(nn.Module):
    """A norm of a kind that is not known."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.weight * (x - x.amin(-1, keepdim=True)) / (x.amax(-1, keepdim=True) - x.amin(-1, keepdim=True))


OF_TORCH: list[tuple[Callable[[], nn.Module], torch.Tensor, str]] = [
    (lambda: nn.LayerNorm(8, eps=1e-3), X, "layer_norm"),
    (lambda: nn.LayerNorm((5, 8)), X, "layer_norm"),
    (lambda: nn.LayerNorm(8, elementwise_affine=False), X, "layer_norm"),
    (lambda: nn.LayerNorm(8, bias=False), X, "layer_norm"),
    (lambda: nn.RMSNorm(8, eps=1e-4), X, "rms_norm"),
    (lambda: nn.RMSNorm(8), X, "rms_norm"),
    (lambda: nn.GroupNorm(4, 8), IMAGE, "group_norm"),
    (lambda: nn.GroupNorm(2, 8, affine=False), IMAGE, "group_norm"),
    (lambda: nn.BatchNorm2d(8), IMAGE, "batch_norm"),
    (lambda: nn.BatchNorm1d(8, affine=False), IMAGE[..., 0], "batch_norm"),
    (lambda: nn.BatchNorm2d(8, track_running_stats=False), IMAGE, "batch_norm"),
    (lambda: nn.InstanceNorm2d(8), IMAGE, "group_norm"),
    (lambda: nn.InstanceNorm2d(8, affine=True), IMAGE, "group_norm"),
    (lambda: nn.InstanceNorm2d(8, track_running_stats=True), IMAGE, "batch_norm"),
]


@pytest.mark.parametrize(("module", "x", "operator"), OF_TORCH, ids=range(len(OF_TORCH)))
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_norms_of_torch(
    tmp_path: Path, module: Callable[[], nn.Module], x: torch.Tensor, operator: str, dtype: torch.dtype
) -> None:
    assert_reproduced(operation(filled(module()).to(dtype), tmp_path, x.to(dtype)), operator)


def test_batch_norm_in_training_goes_by_the_batch(tmp_path: Path) -> None:
    module = filled(nn.BatchNorm2d(8)).train()
    assert_reproduced(operation(module, tmp_path, IMAGE), "batch_norm", batch_statistics=True)


@pytest.mark.parametrize(
    ("module", "x", "operator", "settings"),
    [
        (LlamaRMSNorm, X, "rms_norm", {"eps": 1e-6, "one_plus": False}),
        (T5LayerNorm, X, "rms_norm", {"eps": 1e-6, "one_plus": False}),
        (GemmaRMSNorm, X, "rms_norm", {"eps": 1e-6, "one_plus": True}),
        (OwnNorm, X, "rms_norm", {"eps": 1e-12, "one_plus": True}),
        (LayerNorm, X, "layer_norm", {"eps": 1e-6, "one_plus": False}),
        (LayerNorm2d, IMAGE, "layer_norm", {"eps": 1e-6, "axes": (1,)}),
        (LayerNorm2d, IMAGE[..., :1].expand(3, 8, 4, 8), "layer_norm", {"axes": (1,)}),
        (FrozenBatchNorm2d, IMAGE, "batch_norm", {"eps": 1e-5, "batch_statistics": False}),
    ],
)
def test_norms_that_others_write(
    tmp_path: Path, module: Callable[[], nn.Module], x: torch.Tensor, operator: str, settings: dict[str, Any]
) -> None:
    assert_reproduced(operation(filled(module()), tmp_path, x), operator, **settings)


@pytest.mark.parametrize("module", [LlamaRMSNorm, GemmaRMSNorm])
def test_in_half_precision_too(tmp_path: Path, module: Callable[[], nn.Module]) -> None:
    assert_reproduced(operation(filled(module()).bfloat16(), tmp_path, X.bfloat16()), "rms_norm")


def test_a_norm_of_another_kind_is_left_alone(tmp_path: Path) -> None:
    found = operation(filled(MinMaxNorm()), tmp_path, X).reproduce()
    assert isinstance(found, NotReplayable)
    assert "does not give its recorded output again" in found.reason


@pytest.mark.parametrize(
    ("function", "operator"),
    [
        (lambda x: functional.layer_norm(x, (8,)), "layer_norm"),
        (lambda x: functional.layer_norm(x, (5, 8), eps=0.1), "layer_norm"),
        (lambda x: functional.rms_norm(x, (8,), eps=1e-3), "rms_norm"),
        (lambda x: functional.rms_norm(x, (8,)), "rms_norm"),
        (lambda x: functional.group_norm(x, 5), "group_norm"),
        (lambda x: functional.batch_norm(x, x[0, :, 0], x[0, :, 1].abs(), eps=1e-3), "batch_norm"),
        (lambda x: functional.batch_norm(x, x[0, :, 0].clone(), x[0, :, 1].abs(), training=True), "batch_norm"),
        (functional.instance_norm, "group_norm"),
        (lambda x: functional.normalize(x, dim=-1), "lp_norm"),
        (lambda x: functional.normalize(x, p=1.0, dim=0, eps=1e-3), "lp_norm"),
    ],
)
def test_norms_by_function(tmp_path: Path, function: Callable[..., Any], operator: str) -> None:
    assert_reproduced(function_call(function, tmp_path, X), operator)
