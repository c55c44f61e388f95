"""Judging by a recorded floor, on a model of 12 layers run for real."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import firstdiff as fd
from tests.capturing.models import GPT, VOCABULARY

TOKENS, LAYER = 128, 7
IDS = torch.arange(TOKENS).reshape(1, TOKENS) * 7 % VOCABULARY


def model(dtype: torch.dtype, *, fused: bool = True) -> GPT:
    torch.manual_seed(0)
    return GPT(layers=12, width=128, heads=4, fused=fused).to(dtype).eval()


def captured(network: GPT, path: Path, **options: bool) -> Path:
    with torch.no_grad(), fd.capture(network, path, level="module", params="none", **options):
        network(IDS)
    return path


@pytest.fixture(scope="module", params=[torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
def reference(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[torch.dtype, Path]:
    folder = tmp_path_factory.mktemp("floor")
    return request.param, captured(model(request.param), folder / "reference", floor=True)


def test_another_order_of_the_same_operations_passes(reference: tuple[torch.dtype, Path], tmp_path: Path) -> None:
    dtype, path = reference
    other = captured(model(dtype, fused=False), tmp_path / "other")
    comparison = fd.compare(path, other)
    assert comparison.verdict == "match"
    assert {pair.tolerance.rule for pair in comparison.pairs if pair.role == "output"} == {"floor"}
    assert any(pair.metrics.max_abs for pair in comparison.pairs)


def test_a_channel_three_percent_larger_is_found_where_it_is(
    reference: tuple[torch.dtype, Path], tmp_path: Path
) -> None:
    dtype, path = reference
    broken = model(dtype, fused=False)
    with torch.no_grad():
        broken.layers[LAYER].mlp[0].weight[5] *= 1.03
        broken.layers[LAYER].mlp[0].bias[5] *= 1.03
    comparison = fd.compare(path, captured(broken, tmp_path / "broken"))
    assert comparison.first_divergence.key == f"layers.{LAYER}.mlp.0"


def test_a_relative_bug_of_a_thousandth_is_found_in_float32(
    reference: tuple[torch.dtype, Path], tmp_path: Path
) -> None:
    dtype, path = reference
    if dtype is not torch.float32:
        return
    broken = model(dtype, fused=False)
    with torch.no_grad():
        broken.layers[LAYER].mlp[2].weight *= 1.001
    comparison = fd.compare(path, captured(broken, tmp_path / "broken"))
    assert comparison.first_divergence.key == f"layers.{LAYER}.mlp.2"


def test_a_candidate_of_a_coarser_type_is_not_held_to_the_floor(
    reference: tuple[torch.dtype, Path], tmp_path: Path
) -> None:
    _, path = reference
    coarse = captured(model(torch.bfloat16), tmp_path / "coarse")
    assert fd.compare(path, coarse).verdict == "match"
