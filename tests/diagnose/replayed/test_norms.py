from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.diagnose.pairs import assert_first, assert_not_sure_of, compared, randn

WIDTH = 32
TOKENS = [0.2 * randn(2, 9, WIDTH) + 0.1]
IMAGES = [0.2 * randn(3, 8, 5, 5) + 0.1]


def with_weights(made: nn.Module) -> nn.Module:
    torch.manual_seed(3)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape))
    return made.eval()


def layer_norm() -> Any:
    return with_weights(nn.LayerNorm(WIDTH))


def batch_norm() -> Any:
    made = with_weights(nn.BatchNorm2d(8))
    made.running_mean.copy_(torch.linspace(-0.2, 0.3, 8))  # type: ignore[operator, union-attr]
    made.running_var.copy_(torch.linspace(0.02, 0.1, 8))  # type: ignore[operator, union-attr]
    return made


def replaced(made: nn.Module, forward: Any) -> nn.Module:
    """The same module with another computation."""
    other = copy.deepcopy(made)
    other.forward = lambda x: forward(other, x)  # type: ignore[method-assign]
    return other


@pytest.mark.parametrize(("eps", "told"), [(1e-3, "0.001"), (1e-2, "0.01"), (0.00123, "0.00123")])
def test_another_eps_is_solved_for(tmp_path: Path, eps: float, told: str) -> None:
    other = layer_norm()
    other.eps = eps
    cause = assert_first(compared(layer_norm(), other, TOKENS, tmp_path), "norm.eps")
    assert f"with eps {told} instead of 1e-05" in cause.evidence
    assert cause.fix == "set eps of root to 1e-05"


def test_another_eps_is_solved_for_without_the_candidates_attributes(tmp_path: Path) -> None:
    other = layer_norm()
    other.eps = 1e-3
    assert_first(compared(layer_norm(), other, TOKENS, tmp_path, bare=True), "norm.eps")


def test_a_norm_off_by_a_thousandth_is_its_eps(tmp_path: Path) -> None:
    """The classic: everything is off by about 1e-3."""
    other = layer_norm()
    other.eps = 1e-4
    found = compared(layer_norm(), other, TOKENS, tmp_path)
    assert 1e-4 < found.pairs[-1].metrics.max_abs < 1e-2  # type: ignore[union-attr, operator]
    assert_first(found, "norm.eps")


@pytest.mark.parametrize("lost", ["weight", "both"])
def test_a_norm_without_its_affine_part(tmp_path: Path, lost: str) -> None:
    other = layer_norm()
    other.weight = None
    if lost == "both":
        other.bias = None
    cause = assert_first(compared(layer_norm(), other, TOKENS, tmp_path), "norm.affine")
    assert "scale.channel" in cause.implies


def test_a_norm_without_its_bias_is_a_missing_bias(tmp_path: Path) -> None:
    other = layer_norm()
    other.bias = None
    found = compared(layer_norm(), other, TOKENS, tmp_path)
    assert_first(found, "bias.missing")
    assert_not_sure_of(found, "norm.affine")


def test_the_variance_divided_by_one_less(tmp_path: Path) -> None:
    def unbiased(made: Any, x: torch.Tensor) -> torch.Tensor:
        centred = x - x.mean(-1, keepdim=True)
        return centred / (x.var(-1, unbiased=True, keepdim=True) + made.eps).sqrt() * made.weight + made.bias

    assert_first(compared(layer_norm(), replaced(layer_norm(), unbiased), TOKENS, tmp_path), "norm.variance")


def test_eps_added_to_the_deviation(tmp_path: Path) -> None:
    def outside(made: Any, x: torch.Tensor) -> torch.Tensor:
        centred = x - x.mean(-1, keepdim=True)
        return centred / (x.var(-1, unbiased=False, keepdim=True).sqrt() + made.eps) * made.weight + made.bias

    reference = layer_norm()
    reference.eps = 1e-3
    assert_first(compared(reference, replaced(reference, outside), TOKENS, tmp_path), "norm.variance")


def test_a_norm_divided_by_the_variance(tmp_path: Path) -> None:
    def rootless(made: Any, x: torch.Tensor) -> torch.Tensor:
        variance = x.var(-1, unbiased=False, keepdim=True)
        return (x - x.mean(-1, keepdim=True)) / (variance + made.eps) * made.weight + made.bias

    found = compared(layer_norm(), replaced(layer_norm(), rootless), TOKENS, tmp_path, bare=True)
    assert "divided by the variance instead of the deviation" in assert_first(found, "norm.variance").evidence


def test_an_rms_norm_in_place_of_a_layer_norm(tmp_path: Path) -> None:
    def rms(made: Any, x: torch.Tensor) -> torch.Tensor:
        return functional.rms_norm(x, (WIDTH,), made.weight, made.eps) + made.bias

    found = compared(layer_norm(), replaced(layer_norm(), rms), TOKENS, tmp_path)
    assert_first(found, "norm.kind")
    assert_not_sure_of(found, "norm.eps")


def test_a_norm_over_the_wrong_axis(tmp_path: Path) -> None:
    def along_tokens(made: Any, x: torch.Tensor) -> torch.Tensor:
        return functional.layer_norm(x.transpose(1, 2), (9,), eps=made.eps).transpose(1, 2) * made.weight + made.bias

    assert_first(compared(layer_norm(), replaced(layer_norm(), along_tokens), TOKENS, tmp_path), "norm.kind")


def test_one_added_to_a_weight_that_should_be_taken_as_it_is(tmp_path: Path) -> None:
    def one_plus(made: Any, x: torch.Tensor) -> torch.Tensor:
        return functional.rms_norm(x, (WIDTH,), 1 + made.weight, made.eps)

    reference = with_weights(nn.RMSNorm(WIDTH, eps=1e-6))
    assert_first(compared(reference, replaced(reference, one_plus), TOKENS, tmp_path), "affine.one_plus")


def test_another_number_of_groups(tmp_path: Path) -> None:
    reference, other = with_weights(nn.GroupNorm(4, 8)), with_weights(nn.GroupNorm(4, 8))
    other.num_groups = 2  # type: ignore[assignment]
    cause = assert_first(compared(reference, other, IMAGES, tmp_path), "norm.groups")
    assert "with 2 groups instead of 4" in cause.evidence


def test_a_batch_norm_left_in_training(tmp_path: Path) -> None:
    other = batch_norm().train()
    found = compared(batch_norm(), other, IMAGES, tmp_path)
    cause = assert_first(found, "norm.batch_statistics")
    assert "evaluation mode" in cause.fix


def test_a_norm_skipped_and_a_norm_done_twice(tmp_path: Path) -> None:
    skipped = replaced(layer_norm(), lambda _, x: x.clone())
    assert_first(compared(layer_norm(), skipped, TOKENS, tmp_path), "op.skipped", 0.7)
    inner = layer_norm()
    twice = replaced(layer_norm(), lambda _, x: nn.LayerNorm.forward(inner, nn.LayerNorm.forward(inner, x)))
    assert_first(compared(layer_norm(), twice, TOKENS, tmp_path), "op.repeated", 0.7)


@pytest.mark.parametrize("made", [layer_norm, batch_norm], ids=["layer", "batch"])
def test_a_healthy_norm_has_no_cause(tmp_path: Path, made: Any) -> None:
    found = compared(made(), made(), TOKENS if made is layer_norm else IMAGES, tmp_path)
    assert found.verdict == "match"
    assert found.diagnosis == ()


@pytest.mark.parametrize(
    "cause", ["norm.eps", "norm.affine", "norm.kind", "norm.variance", "affine.one_plus", "op.skipped", "op.repeated"]
)
def test_another_fault_is_not_taken_for_one_of_the_norm(tmp_path: Path, cause: str) -> None:
    other = replaced(layer_norm(), lambda made, x: nn.LayerNorm.forward(made, x).roll(1, 1))
    found = compared(layer_norm(), other, TOKENS, tmp_path)
    assert found.verdict == "mismatch"
    assert_not_sure_of(found, cause)


class WrittenOutNorm(nn.Module):
    """As transformers writes it, for values so large that its eps is lost in its own output."""

    def __init__(self, eps: float) -> None:
        super().__init__()
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)


@pytest.mark.parametrize(("eps", "told"), [(1e-4, "0.0001"), (1e-3, "0.001")])
def test_an_eps_too_small_for_the_output_is_named_by_what_is_added(tmp_path: Path, eps: float, told: str) -> None:
    given = [3.0 * randn(2, 9, WIDTH)]
    found = compared(nn.Sequential(WrittenOutNorm(1e-6)), nn.Sequential(WrittenOutNorm(eps)), given, tmp_path)
    cause = assert_first(found, "norm.eps", 0.5)
    assert f"adds {told} where the reference adds 1e-06" in cause.evidence
    assert "set eps of 0 to 1e-06" in cause.fix
