from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.diagnose.pairs import Calls, assert_first, assert_not_sure_of, compared, randn

X = [randn(2, 6, 40)]
IMAGE = [randn(1, 3, 8, 8)]


def conv(**options: Any) -> nn.Conv1d:
    torch.manual_seed(0)
    return nn.Conv1d(6, 8, 3, **{"padding": 1} | options)


def with_forward(made: nn.Conv1d, forward: Any) -> nn.Conv1d:
    made.forward = lambda x: forward(made, x)  # type: ignore[method-assign]
    return made


def causal(made: nn.Conv1d, x: torch.Tensor) -> torch.Tensor:
    return functional.conv1d(functional.pad(x, (2, 0)), made.weight, made.bias)


def other_phase(made: nn.Conv1d, x: torch.Tensor) -> torch.Tensor:
    return functional.conv1d(functional.pad(x, (0, 2)), made.weight, made.bias, stride=2)


def flipped(made: nn.Conv1d, x: torch.Tensor) -> torch.Tensor:
    return functional.conv1d(x, made.weight.flip(-1), made.bias, padding=1)


@pytest.mark.parametrize(
    ("reference", "candidate", "cause"),
    [
        (conv(), with_forward(conv(), causal), "conv.padding"),
        (conv(), conv(padding_mode="reflect"), "conv.padding"),
        (conv(stride=2), with_forward(conv(), other_phase), "conv.stride"),
        (conv(), with_forward(conv(), flipped), "conv.flipped"),
        (conv(), conv(dilation=2, padding=2), "conv.dilation"),
    ],
    ids=["causal", "reflect", "phase", "flipped", "dilation"],
)
def test_a_convolution_with_one_thing_changed(
    tmp_path: Path, reference: nn.Module, candidate: nn.Module, cause: str
) -> None:
    assert_first(compared(reference, candidate, X, tmp_path), cause)
    assert_first(compared(reference, candidate, X, tmp_path, bare=True), cause)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        (lambda x: functional.avg_pool2d(x, 2), lambda x: functional.max_pool2d(x, 2)),
        (lambda x: x.mean(-1), lambda x: x.amax(-1)),
        (lambda x: x.sum(1), lambda x: x.mean(1)),
    ],
    ids=["pool", "greatest", "sum"],
)
def test_another_way_of_pooling(tmp_path: Path, right: Any, wrong: Any) -> None:
    assert_first(compared(Calls(right), Calls(wrong), IMAGE, tmp_path, bare=True), "pool.kind")


@pytest.mark.parametrize("wrong", [{"mode": "nearest"}, {"mode": "bilinear", "align_corners": True}])
def test_another_way_of_stretching(tmp_path: Path, wrong: dict[str, Any]) -> None:
    def stretched(**how: Any) -> Calls:
        return Calls(lambda x: functional.interpolate(x, scale_factor=2, **how))

    found = compared(stretched(mode="bilinear", align_corners=False), stretched(**wrong), IMAGE, tmp_path)
    assert_first(found, "resize.mode")


def test_the_same_convolution_has_no_cause(tmp_path: Path) -> None:
    assert compared(conv(), conv(), X, tmp_path).verdict == "match"


@pytest.mark.parametrize("cause", ["conv.padding", "conv.flipped", "conv.dilation", "conv.stride"])
def test_another_fault_is_not_taken_for_one_of_the_convolution(tmp_path: Path, cause: str) -> None:
    made = conv()
    with torch.no_grad():
        made.weight[2] *= 1.2
    found = compared(conv(), made, X, tmp_path)
    assert found.verdict == "mismatch"
    assert_not_sure_of(found, cause)
