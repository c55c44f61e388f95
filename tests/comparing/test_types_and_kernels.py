"""Healthy runs in other types and by other kernels match, as whole comparisons; faults in them do not."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import firstdiff as fd
from firstdiff.schema import Comparison
from tests.capturing.models import captured


def seeded(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


class Cancelling(nn.Module):
    """Pads, then loses leading digits, so that the rounding of its input grows a hundredfold."""

    def __init__(self, factor: float = 1.0) -> None:
        super().__init__()
        self.factor = factor
        self.pad = nn.ZeroPad2d((1, 2, 0, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sub(self.pad(x) * self.factor, 1.0)


def compared_in(tmp_path: Path, first: torch.dtype, second: torch.dtype, factor: float = 1.0) -> Comparison:
    x = 1 + 1e-3 * seeded(0, 2, 3, 16, 16)
    reference = captured(Cancelling(), tmp_path / "r", x.to(first))
    return fd.compare(reference, captured(Cancelling(factor), tmp_path / "c", x.to(second)))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (torch.float32, torch.bfloat16),
        (torch.float32, torch.float16),
        (torch.bfloat16, torch.float16),
        (torch.float64, torch.float32),
    ],
)
def test_rounding_of_the_models_input_is_no_error_however_much_it_grows(
    tmp_path: Path, first: torch.dtype, second: torch.dtype
) -> None:
    found = compared_in(tmp_path, first, second)
    assert found.verdict == "match", found.first_divergence


def test_a_factor_on_a_rounded_input_is_found_where_it_is_applied(tmp_path: Path) -> None:
    found = compared_in(tmp_path, torch.float32, torch.bfloat16, factor=1.02)
    assert found.first_divergence is not None
    assert found.first_divergence.key == "root.mul"


def test_weights_too_small_for_the_digits_of_a_type_are_the_references_rounded(tmp_path: Path) -> None:
    model = nn.Linear(32, 32)
    model.weight.data = seeded(1, 32, 32) * 1e-7
    model.weight.data[0] *= 1e5
    other = nn.Linear(32, 32)
    other.load_state_dict(model.state_dict())
    x = seeded(2, 16, 32)
    reference = captured(model, tmp_path / "r", x, params="all")
    held = captured(other.half(), tmp_path / "c", x.half(), params="all")
    assert fd.compare(reference, held).verdict == "match"
    other.weight.data[0] *= 1.01
    assert fd.compare(reference, captured(other, tmp_path / "w", x.half(), params="all")).verdict == "mismatch"


def autocast(model: nn.Module, path: Path, x: torch.Tensor) -> object:
    def run() -> None:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            model(x)

    return captured(model, path, call=run, params="all")


def test_what_autocast_rounds_before_a_product_is_no_error(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Flatten(2), nn.Linear(196, 24))
    x = 5 + 0.1 * seeded(3, 2, 3, 16, 16)  # the mean of which a convolution takes away
    model[0].weight.data -= model[0].weight.data.mean((1, 2, 3), keepdim=True)
    reference = captured(model, tmp_path / "r", x, params="all")
    assert fd.compare(reference, autocast(model, tmp_path / "c", x)).verdict == "match"
    model[0].weight.data[3] *= 1.1
    found = fd.compare(reference, autocast(model, tmp_path / "w", x))
    assert found.first_divergence is not None
    assert found.first_divergence.key.startswith("0")


def test_norms_with_weights_wider_than_what_autocast_gives_them_are_right(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16)).eval()
    model[1].running_mean.data = 10 + seeded(7, 16)  # whose rounding is as large as the result
    model[0].bias.data = model[1].running_mean.data.clone()
    model[1].running_var.data = torch.rand(16, generator=torch.Generator().manual_seed(8)) + 0.1
    x = seeded(9, 2, 3, 16, 16)
    reference = captured(model, tmp_path / "r", x, params="all")
    assert fd.compare(reference, autocast(model, tmp_path / "c", x)).verdict == "match"
    model[1].eps = 0.02
    found = fd.compare(reference, autocast(model, tmp_path / "w", x))
    assert found.first_divergence is not None
    assert found.first_divergence.key.startswith("1")


@pytest.mark.filterwarnings("ignore:TF32 acceleration")
def test_a_convolution_by_another_algorithm_is_right(tmp_path: Path) -> None:
    """Torch without oneDNN takes Winograd's for batches of 16 and more, where it is built with nnpack."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(8, 16, 3), nn.PReLU(), nn.Conv2d(16, 24, 3))
    x = seeded(4, 16, 8, 30, 30)
    reference = captured(model, tmp_path / "r", x, params="all")
    with torch.backends.mkldnn.flags(enabled=False):
        other = captured(model, tmp_path / "c", x, params="all")
    assert fd.compare(reference, other).verdict == "match"
    model[2].weight.data[5] *= 1.0001
    with torch.backends.mkldnn.flags(enabled=False):
        wrong = captured(model, tmp_path / "w", x, params="all")
    found = fd.compare(reference, wrong)
    assert found.first_divergence is not None
    assert found.first_divergence.key.startswith("2")


def test_an_element_of_a_column_is_judged_by_the_size_of_all() -> None:
    column = seeded(5, 256, 1).relu().numpy()
    other = column.astype(np.float16).astype(np.float32)
    other[int(np.argmin(column))] = 1e-4  # where the reference has 0
    assert fd.compare({"x": column}, {"x": other.astype(np.float16)}).verdict == "match"
    other[int(np.argmin(column))] = 0.5
    assert fd.compare({"x": column}, {"x": other.astype(np.float16)}).verdict == "mismatch"


@pytest.mark.parametrize(
    "module",
    [
        nn.ZeroPad2d((1, 2, 0, 3)),
        nn.ConstantPad1d(2, 0.5),
        nn.ReflectionPad2d(1),
        nn.ReplicationPad2d((2, 0, 1, 1)),
        nn.CircularPad2d(1),
    ],
    ids=lambda module: type(module).__name__,
)
def test_modules_that_pad_are_computed_again(tmp_path: Path, module: nn.Module) -> None:
    x = seeded(6, 2, 3, 8, 8)
    reference = captured(nn.Sequential(module), tmp_path / "r", x)
    found = fd.compare(reference, captured(nn.Sequential(module).bfloat16(), tmp_path / "c", x.bfloat16()))
    row = next(pair for pair in found.pairs if pair.key == "0")
    assert row.isolated is not None
    assert row.isolated.status == "match", row.isolated.reason


def test_statistics_beyond_the_range_of_float16_are_an_error_where_they_are_used(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU()).eval()
    assert isinstance(model[1].running_var, torch.Tensor)
    x = seeded(4, 2, 3, 12, 12)
    model[0].weight.data[5] *= 2000
    model[1].running_var[5] = 3e4
    reference = captured(model, tmp_path / "r", x, params="all")
    healthy = captured(copy.deepcopy(model).half(), tmp_path / "h", x.half(), params="all")
    assert fd.compare(reference, healthy).verdict == "match"
    model[1].running_var[5] = 3e5  # infinite in float16, which makes zeros of the channel
    reference = captured(model, tmp_path / "r2", x, params="all")
    found = fd.compare(reference, captured(model.half(), tmp_path / "c", x.half(), params="all"))
    assert found.first_divergence is not None
    assert found.first_divergence.key == "1"
    assert found.first_divergence.origin == "introduced"


class Rearranged(nn.Module):
    """A module of no known operation that only moves values about."""

    def __init__(self, *, wrong: bool = False) -> None:
        super().__init__()
        self.wrong = wrong

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        moved = torch.ops.aten.permute(x, (0, 2, 1)).reshape(len(x), -1)
        return torch.ops.aten.mul(moved, 1.004) if self.wrong else moved


@pytest.mark.parametrize("wrong", [False, True])
def test_modules_that_only_move_values_are_judged_by_what_they_move(tmp_path: Path, *, wrong: bool) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv1d(4, 8, 3), Rearranged(), nn.Linear(80, 16)).eval()
    x = seeded(5, 3, 4, 12)
    reference = captured(model, tmp_path / "r", x, params="all")
    other = copy.deepcopy(model).bfloat16()
    other[1].wrong = wrong
    found = fd.compare(reference, captured(other, tmp_path / "c", x.bfloat16(), params="all"))
    pair = next(pair for pair in found.pairs if pair.key == "1")
    assert pair.isolated is not None
    assert pair.isolated.status == ("mismatch" if wrong else "match")
    assert found.verdict == ("mismatch" if wrong else "match")


@pytest.mark.parametrize(("gain", "wrong"), [(1.0, []), (1.01, ["7"])])
def test_taps_stored_in_half_precision_need_not_be_computed_in_it(
    tmp_path: Path, gain: float, wrong: list[str]
) -> None:
    model = nn.Sequential(*[nn.Linear(48, 48) for _ in range(12)])
    generator = torch.Generator().manual_seed(0)
    for layer in model:
        nn.init.orthogonal_(layer.weight, generator=generator)
    x = seeded(0, 64, 48)
    reference = captured(model, tmp_path / "r", x)
    with torch.no_grad():
        model[7].weight[3] *= gain
    candidate = captured(model, tmp_path / "c", x)
    taps = {one.name: one.values().read().astype(np.float16) for one in candidate if one.key.role == "output"}
    comparison = fd.compare(reference, taps, allow_missing=True)
    assert comparison.verdict == ("mismatch" if wrong else "match")
    assert [pair.key for pair in comparison.pairs if pair.status == "mismatch"] == wrong


class Tabled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("waves", 10000.0 ** (-torch.arange(32) / 32))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cos(x[:, None] * self.waves)


@pytest.mark.parametrize(("factor", "verdict"), [(1.0, "match"), (1.01, "mismatch")])
def test_tables_in_half_precision_are_the_references_rounded(tmp_path: Path, factor: float, verdict: str) -> None:
    x = torch.arange(24.0)
    reference = captured(Tabled(), tmp_path / "r", x)
    other = Tabled().bfloat16()
    other.waves *= factor
    found = fd.compare(reference, captured(other, tmp_path / "c", x.bfloat16()))
    assert found.verdict == verdict
    table = next(pair for pair in found.pairs if pair.key == "waves:buffer")
    assert table.status == verdict
