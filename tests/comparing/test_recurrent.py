"""Recurrent layers in a comparison: rounding along time matches, other weights are placed and named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

import firstdiff as fd
from firstdiff.schema import Comparison
from tests.capturing.models import captured

FRAMES = torch.randn(2, 40, 24, generator=torch.Generator().manual_seed(1))


class Speaker(nn.Module):
    """Recurrent layers of a kind between products."""

    def __init__(self, kind: type[nn.RNNBase]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.before = nn.Linear(24, 24)
        self.layers = kind(24, 48, 2, batch_first=True)
        self.after = nn.Linear(48, 16)
        with torch.no_grad():
            for values in self.layers.parameters():
                values.mul_(2.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.after(self.layers(self.before(x))[0])
        return made


def compared(
    path: Path,
    kind: type[nn.RNNBase],
    dtype: torch.dtype,
    change: Callable[[nn.RNNBase], None] = lambda layers: None,
    params: str = "all",
) -> Comparison:
    candidate = Speaker(kind)
    change(candidate.layers)
    reference = captured(Speaker(kind).eval(), path / "r", FRAMES, params="all")
    return fd.compare(reference, captured(candidate.eval().to(dtype), path / "c", FRAMES.to(dtype), params=params))


@torch.no_grad()
def _row(layers: nn.RNNBase) -> None:
    values = dict(layers.named_parameters())["weight_hh_l1"]
    values[2 * 48 + 17 if len(values) > 48 else 17] *= 1.3  # a gate of what is new


@torch.no_grad()
def _transposed(layers: nn.RNNBase) -> None:
    weight = dict(layers.named_parameters())["weight_hh_l0"]
    weight.copy_(weight.T.clone())


@torch.no_grad()
def _no_bias(layers: nn.RNNBase) -> None:
    dict(layers.named_parameters())["bias_hh_l1"].zero_()


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_another_precision_matches(tmp_path: Path, kind: type[nn.RNNBase], dtype: torch.dtype) -> None:
    found = compared(tmp_path, kind, dtype)
    assert found.verdict == "match", found.first_divergence
    judged = {pair.key: pair.isolated.status for pair in found.pairs if pair.isolated}
    assert judged["layers"] == "match"


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_wrong_weight_row_is_placed_and_named(tmp_path: Path, kind: type[nn.RNNBase], dtype: torch.dtype) -> None:
    found = compared(tmp_path, kind, dtype, _row)
    assert found.first_divergence is not None
    assert found.first_divergence.name == "layers"
    assert found.diagnosis[0].cause == "weights.differ"
    assert "layers.weight_hh_l1" in found.diagnosis[0].evidence


@pytest.mark.parametrize(
    ("change", "cause", "said"),
    [(_transposed, "weights.transposed", "weight_hh_l0"), (_no_bias, "bias.missing", "bias_hh_l1")],
)
def test_changed_weights_are_named_where_the_candidate_has_none(
    tmp_path: Path, change: Callable[[nn.RNNBase], None], cause: str, said: str
) -> None:
    found = compared(tmp_path, nn.RNN, torch.float32, change, params="none")
    assert found.first_divergence is not None
    assert found.first_divergence.name == "layers"
    assert found.diagnosis[0].cause == cause
    assert said in found.diagnosis[0].evidence
