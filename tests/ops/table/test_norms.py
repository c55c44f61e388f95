from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from firstdiff.ops import NotReplayable
from tests.ops.captured import assert_reproduced, function_call, operation

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
