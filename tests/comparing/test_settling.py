"""Rows that are what their own inputs give are excused, and no others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from onnx import helper
from torch import nn

import firstdiff as fd
from firstdiff.comparing import Options, explain_pair, settling
from firstdiff.comparing.rejudge import rejudge
from firstdiff.judge import Rules
from firstdiff.readers import open_trace
from firstdiff.schema import Comparison, Pair
from firstdiff.trace import Trace
from tests.capturing.models import captured
from tests.capturing.onnx_models import FLOAT, saved
from tests.capturing.onnx_models import model as model_of
from tests.locate.models import Shuffled, change, model, trace

VALUES = torch.randn(48, 64, generator=torch.Generator().manual_seed(2))


class Unknown(nn.Module):
    """An operation that no table has, with a tiny error to switch on."""

    def __init__(self, error: float) -> None:
        super().__init__()
        self.error = error

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        noise = torch.randn(x.shape, generator=torch.Generator().manual_seed(5))
        return torch.from_numpy(x.numpy() * (1 + self.error * noise.numpy()))


class Cancelling(nn.Module):
    """A sum that loses its leading digits, so that any error before it grows a thousandfold."""

    def __init__(self, *, error: float = 0.0, order: torch.Tensor | None = None, opaque: bool = True) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.product = Shuffled(64, 64)
        self.product.order = order
        self.inner = Unknown(error) if opaque else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sub(self.inner(torch.add(self.product(x), 1000.0)), 1000.0)


def side(path: Path, **options: object) -> Trace:
    return captured(Cancelling(**options), path, VALUES, params="all")  # type: ignore[arg-type]


def row_of(found: Comparison, key: str) -> Pair:
    return next(pair for pair in found.pairs if pair.key == key)


def test_rounding_that_a_sum_has_made_large_is_no_error(tmp_path: Path) -> None:
    order = torch.randperm(64, generator=torch.Generator().manual_seed(1))
    found = fd.compare(side(tmp_path / "r", opaque=False), side(tmp_path / "c", opaque=False, order=order))
    row = row_of(found, "root.sub")
    assert found.verdict == "match"
    assert row.systematic is not None
    assert "propagated rounding; the operation introduces nothing" in (row.systematic.note or "")


def test_an_error_of_an_operation_that_cannot_be_computed_again_is_not_excused(tmp_path: Path) -> None:
    """It passes where it is made; the row that shows it is what its own inputs give."""
    found = fd.compare(side(tmp_path / "r"), side(tmp_path / "c", error=1e-6))
    assert row_of(found, "inner").status == "match"
    shown = row_of(found, "root.sub")
    assert shown.isolated is not None
    assert (shown.status, shown.isolated.status) == ("mismatch", "match")
    assert found.verdict == "mismatch"


def test_explaining_a_row_judges_it_as_comparing_does(tmp_path: Path) -> None:
    order = torch.randperm(64, generator=torch.Generator().manual_seed(1))
    sides = side(tmp_path / "r", opaque=False), side(tmp_path / "c", opaque=False, order=order)
    found = explain_pair(*sides, "root.sub", Options())
    row = row_of(fd.compare(*sides), "root.sub")
    assert (found.status, found.reason, found.isolated) == (row.status, row.reason, row.isolated)
    assert found.status == "match"


@pytest.mark.parametrize("effort", [0, None])
def test_nothing_is_excused_that_there_was_no_time_for(tmp_path: Path, effort: float | None) -> None:
    found = fd.compare(side(tmp_path / "r"), side(tmp_path / "c", error=1e-6), effort=effort)
    assert found.verdict == "mismatch"


def test_an_alarm_is_proven_to_be_rounding_though_the_time_was_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = torch.randperm(64, generator=torch.Generator().manual_seed(1))
    sides = side(tmp_path / "r", opaque=False), side(tmp_path / "c", opaque=False, order=order)
    monkeypatch.setattr(settling, "_FOR_ALARMS", 1.0)  # nothing is left for rows that do not alarm
    monkeypatch.setattr(settling, "_SLIGHT", 1.0)
    assert fd.compare(*sides).verdict == "match"
    monkeypatch.setattr(settling, "_FOR_PROOFS", 0.0)
    assert fd.compare(*sides).verdict == "mismatch"


@pytest.mark.parametrize(("step", "verdict"), [(2.0**-23, "match"), (2.0**-20, "mismatch")])
def test_a_sigmoid_near_0_is_right_to_a_step_of_1(tmp_path: Path, step: float, verdict: str) -> None:
    low, signs = VALUES - 13.0, torch.where(VALUES > 0, 1.0, -1.0)
    reference = captured(nn.Sequential(nn.Sigmoid()), tmp_path / "r", low)
    other = nn.Sequential(nn.Sigmoid())
    other[0].register_forward_hook(lambda module, given, made: made + step * signs)
    found = fd.compare(reference, captured(other, tmp_path / "c", low))
    assert found.verdict == verdict


@pytest.mark.parametrize(("error", "verdict"), [(0.0, "match"), (1e-6, "mismatch")])
def test_a_kernels_own_rounding_needs_no_proof_of_what_came_before(tmp_path: Path, error: float, verdict: str) -> None:
    """What comes before cannot be computed again; exact results of both sides' inputs tell whether it matters."""

    def side(path: Path, error: float, step: float) -> Trace:
        made = nn.Sequential(Unknown(error), nn.Sigmoid(), nn.Flatten(0))
        signs = torch.where(VALUES > 0, 1.0, -1.0)
        made[1].register_forward_hook(lambda module, given, result: result + step * signs)
        return captured(made, path, VALUES - 13.0)

    found = fd.compare(side(tmp_path / "r", 0.0, 0.0), side(tmp_path / "c", error, 2.0**-23))
    assert row_of(found, "0").status == "match"
    assert found.verdict == verdict


def test_wrong_weights_are_found_in_another_precision(tmp_path: Path) -> None:
    made = change(model(shuffled=True, dtype=torch.bfloat16), "layers.1.attn.qkv!weight")
    found = fd.compare(trace(model(), tmp_path / "r"), trace(made, tmp_path / "c"))
    assert found.verdict == "mismatch"
    assert found.first_divergence is not None
    assert found.first_divergence.key == "layers.1.attn.qkv.linear"


def test_what_inherits_an_introduced_error_is_not_excused(tmp_path: Path) -> None:
    found = fd.compare(
        trace(model(), tmp_path / "r"), trace(change(model(shuffled=True), "layers.0.ln_1!eps"), tmp_path / "c")
    )
    assert found.first_divergence is not None
    assert found.first_divergence.key == "layers.0.ln_1"
    final = row_of(found, "head")
    assert final.isolated is not None
    assert (final.status, final.origin, final.isolated.status) == ("mismatch", "inherited", "match")
    assert not any("propagated" in (pair.systematic.note or "") for pair in found.pairs if pair.systematic)


class OtherOrder(nn.Linear):
    """A matrix product that is summed in another order."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        order = torch.randperm(self.in_features, generator=torch.Generator().manual_seed(4))
        return nn.functional.linear(x[:, order], self.weight[:, order], self.bias)


def ill_conditioned(path: Path, kind: type[nn.Linear], error: float = 0.0) -> Trace:
    """Products of which nearly nothing is left, then one that is sound."""
    torch.manual_seed(0)
    made = nn.Sequential(kind(64, 64, bias=False), nn.Linear(64, 16))
    weight = made[0].weight.data
    weight[:, 32:] = -weight[:, :32]
    weight += 1e-6 * torch.randn(64, 64, generator=torch.Generator().manual_seed(3))
    made[0].weight.data = weight * (1 + error)
    half = 1e3 * torch.randn(48, 32, generator=torch.Generator().manual_seed(1))
    return captured(made, path, torch.cat([half, half], 1), params="all", level="module")


def test_a_reference_that_rounding_decides_is_inconclusive_and_no_pass(tmp_path: Path) -> None:
    found = fd.compare(ill_conditioned(tmp_path / "r", nn.Linear), ill_conditioned(tmp_path / "c", OtherOrder))
    row = row_of(found, "0")
    assert row.status == "inconclusive"
    assert "the reference is ill-conditioned here" in (row.reason or "")
    assert row_of(found, "1").status == "match"
    assert found.verdict == "mismatch"


def test_an_error_larger_than_that_of_an_ill_conditioned_reference_is_one(tmp_path: Path) -> None:
    found = fd.compare(ill_conditioned(tmp_path / "r", nn.Linear), ill_conditioned(tmp_path / "c", OtherOrder, 0.1))
    assert row_of(found, "0").status == "mismatch"


class Scaled(nn.Module):
    """A tensor times a number, in one of two orders."""

    def __init__(self, *, first: bool) -> None:
        super().__init__()
        self.first = first
        self.register_buffer("factor", torch.tensor(0.998))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.mul(self.factor, x) if self.first else torch.mul(x, self.factor)


@pytest.mark.parametrize("first", [True, False])
def test_a_number_near_1_rounds_a_tensor_in_one_direction(tmp_path: Path, first: bool) -> None:
    """Kernels round the number to bfloat16, or the product, by which most values stay what they are."""
    reference = captured(Scaled(first=first), tmp_path / "r", VALUES)
    assert fd.compare(reference, captured(Scaled(first=first), tmp_path / "c", VALUES.bfloat16())).verdict == "match"


class Shifted(nn.Module):
    """A sum with a number, as an eps is added to a variance."""

    def __init__(self, number: float) -> None:
        super().__init__()
        self.number = number

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.rsqrt(torch.add(x * x + 1.0, self.number))


def test_an_eps_of_a_few_roundings_is_found_where_it_is_added(tmp_path: Path) -> None:
    sides = (captured(Shifted(eps), tmp_path / f"{eps}", VALUES) for eps in (1e-6, 3e-6))
    first = fd.compare(*sides).first_divergence
    assert first is not None
    assert first.key == "root.add@1"


class Gelu(nn.Module):
    def __init__(self, approximate: str) -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.gelu(x, approximate=self.approximate)


def test_a_small_error_counts_the_elements_beyond_the_tolerance(tmp_path: Path) -> None:
    values = 0.1 * VALUES
    values[::8, ::16] = 0.5
    found = fd.compare(*(captured(Gelu(kind), tmp_path / kind, values) for kind in ("none", "tanh")))
    first = row_of(found, "root.gelu")
    assert first.reason is not None
    assert first.reason.startswith("small, yet wrong")
    assert first.metrics is not None
    assert first.metrics.mismatched == 24


def unseen(comparison: Comparison) -> list[str]:
    return [note.text for note in comparison.notes if "would not show" in note.text]


def test_a_match_says_what_it_could_not_have_seen(tmp_path: Path) -> None:
    layers = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 8))
    sides = [
        captured(layers.to(dtype), tmp_path / str(dtype), VALUES.bfloat16().to(dtype))
        for dtype in (torch.float32, torch.bfloat16)
    ]
    assert unseen(fd.compare(*sides)) == ["An error within one rounding of bf16 in an operation would not show"]
    values = {name: VALUES.numpy() * scale for name, scale in (("x", 1), ("y", 3))}
    rounded = {name: array.astype("bfloat16") for name, array in values.items()}
    told = unseen(fd.compare(values, rounded))
    assert len(told) == 1
    assert told[0].startswith("2 rows were judged by values alone: a scale error below 0.")
    assert unseen(fd.compare(values, values)) == []
    assert unseen(fd.compare(values, {name: 1.02 * array for name, array in rounded.items()})) == []


class Stepped(nn.Module):
    """Whole numbers from products."""

    def __init__(self, *, order: torch.Tensor | None = None, opaque: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.product = Shuffled(64, 64)
        self.product.order = order
        self.inner = Unknown(1e-8) if opaque else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.mul(torch.floor(torch.mul(self.inner(self.product(x)), 2.0**18)), 0.5)


def stepped(path: Path, **options: object) -> Trace:
    return captured(Stepped(**options), path, VALUES, params="all")  # type: ignore[arg-type]


def one_step_off(made: Trace, path: Path, key: str, at: tuple[int, ...]) -> Trace:
    recorded = made[key].values().view().copy()
    held = next(file for file in sorted(path.rglob("*.npy")) if np.array_equal(np.load(file), recorded))
    recorded[at] += np.array(1 if recorded[at] % 2 == 0 else -1).astype(recorded.dtype)
    np.save(held, recorded)
    return open_trace(path)


ORDER = torch.randperm(64, generator=torch.Generator().manual_seed(1))


def test_rounding_that_crosses_a_step_is_no_error(tmp_path: Path) -> None:
    found = fd.compare(stepped(tmp_path / "r"), stepped(tmp_path / "c", order=ORDER))
    row = row_of(found, "root.floor")
    assert found.verdict == "match"
    assert row.metrics is not None
    assert row.metrics.max_abs == 1
    assert "by rounding that crossed a step; the operation introduces nothing" in (row.reason or "")
    assert any(note.text.startswith("1 row differs by rounding that crossed a step") for note in found.notes)
    assert rejudge(found, Rules()).verdict == "match"


def test_a_step_that_the_operation_itself_takes_is_an_error(tmp_path: Path) -> None:
    reference, candidate = stepped(tmp_path / "r"), stepped(tmp_path / "c", order=ORDER)
    found = fd.compare(reference, one_step_off(candidate, tmp_path / "c", "root.floor", (0, 0)))
    assert found.first_divergence is not None
    assert found.first_divergence.key == "root.floor"


def test_whole_numbers_behind_an_operation_that_cannot_be_computed_again_are_not_excused(tmp_path: Path) -> None:
    sides = stepped(tmp_path / "r", opaque=True), stepped(tmp_path / "c", order=ORDER, opaque=True)
    assert fd.compare(*sides).verdict == "mismatch"


@pytest.mark.parametrize(("at", "verdict"), [(0, "match"), (1, "mismatch")])
def test_a_kernel_may_round_either_way_beside_a_tie_alone(tmp_path: Path, at: int, verdict: str) -> None:
    """Kernels divide by the scale or multiply with its inverse before they round."""
    scale = np.float32(0.1)
    values = (np.arange(64, dtype=np.float32) * scale).reshape(1, 64)
    values[0, 0] = np.float32(10.5) * scale
    node = helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["y"])
    weights = {"scale": np.array(scale), "zero": np.array(0, np.uint8)}
    made = model_of([node], {"x": (FLOAT, (1, 64))}, ["y"], weights)
    path = saved(made, tmp_path)
    for run in ("r", "c"):
        fd.capture_onnx(path, {"x": values}, tmp_path / run)
    reference, candidate = open_trace(tmp_path / "r"), open_trace(tmp_path / "c")
    assert fd.compare(reference, one_step_off(candidate, tmp_path / "c", "y", (0, at))).verdict == verdict


@pytest.mark.parametrize("effort", [0, None])
def test_a_stated_tolerance_does_not_widen_the_limits_of_other_rows(tmp_path: Path, effort: float | None) -> None:
    """The error of a norm is allowed there; what comes after it is judged as if it were not."""
    rules = tmp_path / "rules.toml"
    rules.write_text('[[tolerances]]\nname = "layers[.]0[.]ln_1"\natol = 10.0\n', encoding="utf-8")
    sides = trace(model(), tmp_path / "r"), trace(change(model(shuffled=True), "layers.0.ln_1!eps"), tmp_path / "c")
    plain = fd.compare(*sides, effort=effort)
    stated = fd.compare(*sides, effort=effort, tolerances=rules)
    assert row_of(stated, "layers.0.ln_1").status == "match"
    for pair in plain.pairs:
        if pair.key != "layers.0.ln_1":
            assert row_of(stated, pair.key).status == pair.status, pair.key


def test_a_stated_tolerance_that_healthy_noise_needs_none_of_changes_nothing(tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text('[[tolerances]]\nname = ".*ln_1"\natol = 10.0\n', encoding="utf-8")
    sides = trace(model(), tmp_path / "r"), trace(model(shuffled=True, dtype=torch.bfloat16), tmp_path / "c")
    assert fd.compare(*sides, tolerances=rules).verdict == fd.compare(*sides).verdict == "match"


class SharedHeads(nn.Module):
    """Values of one head that three heads of queries share; how the values are made cannot be computed again."""

    def __init__(self, gain: float) -> None:
        super().__init__()
        self.inner = Gain(gain)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shared = self.inner(x)[:, None].expand(-1, 3, -1, -1).reshape(3, *x.shape[1:])
        return torch.matmul(torch.ones(3, 4, x.shape[1], dtype=x.dtype), shared)


class Gain(nn.Module):
    def __init__(self, gain: float) -> None:
        super().__init__()
        self.gain = gain

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made = x.float().numpy() * 1.7
        made[..., 3] *= self.gain
        return torch.from_numpy(made).to(x.dtype)


def test_a_copy_is_no_more_wrong_than_what_it_repeats(tmp_path: Path) -> None:
    """There are enough rows to tell one channel from the others only in the copy, and they are the same three times."""
    given = VALUES[None, :12, :32]
    ours = captured(SharedHeads(1.0), tmp_path / "r", given)
    found = fd.compare(ours, captured(SharedHeads(1.15).bfloat16(), tmp_path / "c", given.bfloat16()))
    assert row_of(found, "inner").status == "match"
    copy = row_of(found, "root.matmul:in.other")
    assert copy.isolated is not None
    assert (copy.status, copy.isolated.residual) == ("match", 0.0)
