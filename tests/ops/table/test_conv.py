from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.ops.captured import assert_reproduced, function_call, operation

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
