"""Functions of torch, recorded and replayed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from firstdiff.ops import Replayed, replay, reproduce
from tests.ops.captured import assert_reproduced, function_call
from tests.ops.oracle import values

G = torch.Generator().manual_seed(1)
X, Y = torch.randn(2, 5, 8, generator=G), torch.randn(2, 5, 8, generator=G) + 3
CHOSEN = torch.rand(2, 5, 8, generator=G) < 0.5

ARITHMETIC: list[Callable[..., Any]] = [
    lambda x, y: x + y,
    lambda x, y: torch.add(x, y, alpha=0.3),
    lambda x, y: x + 2,
    lambda x, y: 2 + x,
    lambda x, y: x - y,
    lambda x, y: 1 - x,
    lambda x, y: x * y,
    lambda x, y: 0.125 * x,
    lambda x, y: x / y,
    lambda x, y: 1 / y,
    lambda x, y: torch.div(x * 5, y, rounding_mode="floor"),
    lambda x, y: x // y,
    lambda x, y: x % y,
    lambda x, y: y**2,
    lambda x, y: torch.pow(y.abs(), x),
    lambda x, y: 2**x,
    torch.maximum,
    lambda x, y: torch.lerp(x, y, 0.3),
    lambda x, y: torch.addcmul(x, y, y, value=0.5),
    lambda x, y: torch.addcdiv(x, x, y),
    lambda x, y: x.clone().add_(y),
    lambda x, y: torch.mul(x, y[0, 0, 0]),
]
REDUCTIONS: list[Callable[..., Any]] = [
    lambda x, y: x.mean(-1, keepdim=True),
    lambda x, y: x.mean(1, True),
    lambda x, y: x.sum(),
    lambda x, y: x.sum((0, 2)),
    lambda x, y: torch.prod(x, 1),
    lambda x, y: x.amax(dim=-1),
    lambda x, y: x.amin((0, 1), True),
    lambda x, y: x.var(-1, unbiased=False),
    lambda x, y: x.var(-1),
    lambda x, y: x.var(-1, False, True),
    lambda x, y: x.std(False),
    lambda x, y: torch.std(x, dim=(0, 1), correction=0, keepdim=True),
    lambda x, y: torch.logsumexp(x, -1),
    lambda x, y: x.cumsum(1),
    lambda x, y: torch.cumprod(x, dim=0),
]
SHAPING: list[Callable[..., Any]] = [
    lambda x, y: torch.cat([x, y, x], dim=1),
    lambda x, y: torch.cat((x, y)),
    lambda x, y: torch.stack([x, y], -1),
    lambda x, y: x.chunk(3, -1),
    lambda x, y: torch.split(x, 3, dim=2),
    lambda x, y: x.split([2, 6], -1),
    lambda x, y: x.unbind(1),
    lambda x, y: x.flip(1),
    lambda x, y: torch.flip(x, [0, 2]),
    lambda x, y: x.roll(2, 1),
    lambda x, y: torch.roll(x, (1, 2), (0, 1)),
    lambda x, y: x.repeat_interleave(3, 1),
    lambda x, y: torch.where(CHOSEN, x, y),
    lambda x, y: torch.where(CHOSEN, x, 0.0),
    lambda x, y: x.masked_fill(CHOSEN, float("-inf")),
    lambda x, y: x.tril(),
    lambda x, y: torch.triu(x, diagonal=1),
    lambda x, y: torch.gather(x, 2, torch.zeros(2, 5, 3, dtype=torch.int64)),
    lambda x, y: x.index_select(1, torch.tensor([3, 0])),
    lambda x, y: functional.pad(x, (1, 2)),
    lambda x, y: functional.pad(x, (1, 2), mode="reflect"),
    lambda x, y: functional.pad(x, (1, 0, 2, 2), value=3.0),
    lambda x, y: x.topk(3, dim=-1),
    lambda x, y: torch.topk(x, 2, 1, False),
    lambda x, y: x.sort(descending=True),
    lambda x, y: x.argmax(-1),
    lambda x, y: functional.one_hot(torch.tensor([3, 0, 1]), 5),
    lambda x, y: x.index_add(1, torch.tensor([1, 1]), y[:, :2], alpha=2),
]
POOLING: list[Callable[..., Any]] = [
    lambda x, y: functional.interpolate(x, scale_factor=2),
    lambda x, y: functional.interpolate(x, size=11, mode="linear", align_corners=True),
    lambda x, y: functional.interpolate(x, scale_factor=1.3, mode="linear", recompute_scale_factor=True),
    lambda x, y: functional.max_pool1d(x, 3, 2, 1),
    lambda x, y: functional.avg_pool1d(x, 2),
    lambda x, y: functional.adaptive_avg_pool1d(x, 3),
    lambda x, y: functional.avg_pool2d(x, (2, 3), stride=1, padding=1, count_include_pad=False),
]
SOUND: list[Callable[..., Any]] = [
    lambda x, y: torch.stft(x.flatten(1), 16, 4, window=torch.hann_window(16), return_complex=True),
    lambda x, y: torch.stft(x.flatten(1), 16, center=False, normalized=True, return_complex=True),
    lambda x, y: torch.istft(torch.complex(x, y), 8, 2, window=torch.hann_window(8) + 0.1),
]


@pytest.mark.filterwarnings("ignore:A window was not provided")
@pytest.mark.parametrize(
    "function",
    [
        pytest.param(function, id=f"{family}-{number}")
        for family, functions in (
            ("arithmetic", ARITHMETIC),
            ("reductions", REDUCTIONS),
            ("shaping", SHAPING),
            ("pooling", POOLING),
            ("sound", SOUND),
        )
        for number, function in enumerate(functions)
    ],
)
def test_functions_come_out_again(tmp_path: Path, function: Callable[..., Any]) -> None:
    assert_reproduced(function_call(function, tmp_path, X, Y))


def test_residuals_in_half_precision_are_exact_to_rounding(tmp_path: Path) -> None:
    again = assert_reproduced(function_call(lambda x, y: x + y, tmp_path, X.bfloat16(), Y.bfloat16()), "add")
    assert again.residual is not None
    assert again.residual <= 0.5


@pytest.mark.parametrize("one_plus", [False, True])
def test_modulate_is_settled_by_the_numbers(one_plus: bool) -> None:
    x, shift, scale = values(1, 2, 5, 8), values(2, 2, 8), values(3, 2, 8)
    output = x * (scale[:, None] + one_plus) + shift[:, None]
    again = reproduce("modulate", {}, {"0": x, "1": shift, "2": scale}, {}, {"0": output})
    assert isinstance(again, Replayed)
    assert again.settings["one_plus"] is one_plus


def test_mean_and_deviation_of_a_transform() -> None:
    x = values(1, 2, 3, 4, 4)
    again = replay("Normalize", {"mean": [0.1, 0.2, 0.3], "std": [1.0, 2.0, 4.0]}, {"0": x}, {})
    assert isinstance(again, Replayed)
    np.testing.assert_allclose(again.outputs["0"][:, 2], (x[:, 2] - 0.3) / 4)
