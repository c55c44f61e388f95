"""Convolutions against torch, and as modules record them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

from firstdiff.ops import conv as module
from firstdiff.ops.conv import conv, conv_transpose
from tests.ops.captured import assert_reproduced, function_call, operation
from tests.ops.oracle import assert_agrees, double, dtypes, seeds, values

CONV = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}
TRANSPOSED = {1: functional.conv_transpose1d, 2: functional.conv_transpose2d, 3: functional.conv_transpose3d}


@st.composite
def cases(draw: st.DrawFn, most_axes: int = 2) -> dict[str, Any]:
    axes = draw(st.integers(1, most_axes))

    def each(low: int, high: int) -> Any:
        return draw(st.lists(st.integers(low, high), min_size=axes, max_size=axes))

    groups = draw(st.sampled_from([1, 2, 4]))
    return {
        "axes": axes,
        "batch": draw(st.integers(0, 3)),
        "channels": (groups * draw(st.integers(1, 3)), groups * draw(st.integers(1, 3))),
        "groups": groups,
        "kernel": each(1, 4),
        "length": each(1, 9),
        "stride": each(1, 3),
        "dilation": each(1, 3),
        "padding": each(0, 3),
        "bias": draw(st.booleans()),
    }


@settings(max_examples=80)
@given(case=cases(), seed=seeds, dtype=dtypes)
def test_conv_is_torchs(case: dict[str, Any], seed: int, dtype: np.dtype) -> None:
    spans = [gap * (size - 1) + 1 for gap, size in zip(case["dilation"], case["kernel"], strict=True)]
    padded = [length + 2 * edge for length, edge in zip(case["length"], case["padding"], strict=True)]
    assume(all(length >= span for length, span in zip(padded, spans, strict=True)))
    inputs, outputs = case["channels"]
    x = values(seed, case["batch"], inputs, *case["length"], dtype=dtype)
    weight = values(seed + 1, outputs, inputs // case["groups"], *case["kernel"], dtype=dtype)
    bias = values(seed + 2, outputs, dtype=dtype) if case["bias"] else None
    how = {name: case[name] for name in ("stride", "padding", "dilation", "groups")}
    wanted = CONV[case["axes"]](double(x), double(weight), double(bias), **how)
    assert_agrees(conv(x, weight, bias, **how), wanted)


@settings(max_examples=80)
@given(case=cases(), seed=seeds, dtype=dtypes, extra=st.integers(0, 2))
def test_conv_transpose_is_torchs(case: dict[str, Any], seed: int, dtype: np.dtype, extra: int) -> None:
    out = [min(extra, max(step, gap) - 1) for step, gap in zip(case["stride"], case["dilation"], strict=True)]
    lengths = [
        step * (n - 1) + gap * (size - 1) + 1 + more - 2 * edge
        for step, n, gap, size, more, edge in zip(
            case["stride"], case["length"], case["dilation"], case["kernel"], out, case["padding"], strict=True
        )
    ]
    assume(min(lengths) > 0 and case["batch"] > 0)
    inputs, outputs = case["channels"]
    x = values(seed, case["batch"], inputs, *case["length"], dtype=dtype)
    weight = values(seed + 1, inputs, outputs // case["groups"], *case["kernel"], dtype=dtype)
    bias = values(seed + 2, outputs, dtype=dtype) if case["bias"] else None
    how = {name: case[name] for name in ("stride", "padding", "dilation", "groups")} | {"output_padding": out}
    wanted = TRANSPOSED[case["axes"]](double(x), double(weight), double(bias), **how)
    assert_agrees(conv_transpose(x, weight, bias, **how), wanted)


def test_three_axes() -> None:
    x, weight = values(1, 2, 3, 5, 4, 6), values(2, 4, 3, 2, 3, 2)
    assert_agrees(conv(x, weight, stride=(1, 2, 1)), functional.conv3d(double(x), double(weight), stride=(1, 2, 1)))
    turned = weight.swapaxes(0, 1)
    wanted = functional.conv_transpose3d(double(x), double(turned), stride=2)
    assert_agrees(conv_transpose(x, turned, stride=2), wanted)


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths")
@pytest.mark.parametrize("mode", ["zeros", "reflect", "replicate", "circular"])
@pytest.mark.parametrize("padding", [2, "same", (1, 2)])
def test_padding_modes_are_those_of_the_module(mode: Any, padding: Any) -> None:
    torch_conv = nn.Conv2d(3, 4, (3, 4), padding=padding, padding_mode=mode).double()
    x = values(1, 2, 3, 7, 8)
    weight, bias = torch_conv.weight.detach().numpy(), torch_conv.bias.detach().numpy()
    assert_agrees(conv(x, weight, bias, padding=padding, padding_mode=mode), torch_conv(double(x)))


def test_padding_may_differ_before_and_after() -> None:
    x, weight = values(1, 1, 2, 6), values(2, 3, 2, 4)
    wanted = functional.conv1d(functional.pad(double(x), (3, 0)), double(weight))
    assert_agrees(conv(x, weight, padding=[(3, 0)]), wanted)


def test_a_sample_without_a_batch() -> None:
    x, weight = values(1, 2, 6), values(2, 3, 2, 4)
    assert_agrees(conv(x, weight), functional.conv1d(double(x), double(weight)))
    turned = weight.swapaxes(0, 1)
    assert_agrees(conv_transpose(x, turned), functional.conv_transpose1d(double(x), double(turned)))


def test_a_kernel_longer_than_the_input_is_refused() -> None:
    with pytest.raises(ValueError, match="window"):
        conv(values(1, 1, 2, 3), values(2, 3, 2, 4))
    with pytest.raises(ValueError, match="takes numbers"):
        conv(values(1, 1, 2, 3), values(2, 3, 2, 2), padding="half")


def test_blocks_give_what_one_piece_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    x, weight = values(1, 2, 4, 11, 9), values(2, 6, 2, 3, 2)
    whole = conv(x, weight, groups=2, stride=2, padding=1)
    monkeypatch.setattr(module, "_BLOCK", 1)
    np.testing.assert_allclose(conv(x, weight, groups=2, stride=2, padding=1), whole, rtol=1e-14, atol=1e-14)


G = torch.Generator().manual_seed(1)
ONE, TWO = torch.randn(2, 4, 15, generator=G), torch.randn(2, 4, 9, 8, generator=G)

MODULES: list[tuple[Callable[[], nn.Module], torch.Tensor]] = [
    (lambda: nn.Conv1d(4, 6, 3), ONE),
    (lambda: nn.Conv1d(4, 6, 5, stride=2, padding=3, dilation=2, groups=2, bias=False), ONE),
    (lambda: nn.Conv1d(4, 4, 7, padding="same", groups=4, padding_mode="reflect"), ONE),
    (lambda: nn.Conv2d(4, 6, (3, 2), stride=(2, 1), padding=(1, 0)), TWO),
    (lambda: nn.Conv2d(4, 6, 3, padding="valid", dilation=2), TWO),
    (lambda: nn.Conv3d(4, 2, 2), TWO[:, :, None].repeat(1, 1, 3, 1, 1)),
    (lambda: nn.ConvTranspose1d(4, 6, 8, stride=4, padding=2), ONE),
    (lambda: nn.ConvTranspose1d(4, 6, 5, stride=3, output_padding=2, groups=2, dilation=2), ONE),
    (lambda: nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1), TWO),
]


@pytest.mark.parametrize(("module", "x"), MODULES, ids=range(len(MODULES)))
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_convolutions(tmp_path: Path, module: Callable[[], nn.Module], x: torch.Tensor, dtype: torch.dtype) -> None:
    again = assert_reproduced(operation(module().to(dtype), tmp_path, x.to(dtype)))
    assert again.plan.assumed == ()


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("kind", [nn.Conv1d, nn.ConvTranspose1d])
def test_weight_normalisation_is_put_together(tmp_path: Path, kind: type[nn.Conv1d], dim: int) -> None:
    module = nn.utils.parametrizations.weight_norm(kind(4, 6, 3), dim=dim)
    module.parametrizations.weight.original0.data *= 1.5
    assert_reproduced(operation(module, tmp_path, ONE))


@pytest.mark.filterwarnings("ignore:.*weight_norm.* is deprecated")
def test_weight_normalisation_of_old(tmp_path: Path) -> None:
    module = nn.utils.weight_norm(nn.Conv1d(4, 6, 3))
    module.weight_g.data *= 1.5
    assert_reproduced(operation(module, tmp_path, ONE), "conv")


def test_functions_with_their_defaults(tmp_path: Path) -> None:
    weight = torch.randn(6, 4, 3, generator=G)
    assert_reproduced(function_call(lambda x: functional.conv1d(x, weight), tmp_path, ONE), "conv", stride=1)
    again = function_call(lambda x: functional.conv_transpose1d(x, weight[:4], stride=2), tmp_path, ONE)
    assert_reproduced(again, "conv_transpose")
