from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm
from torch.nn.utils.parametrize import remove_parametrizations

import firstdiff as fd
from tests.diagnose.pairs import assert_first, assert_not_sure_of, compared, randn

WIDTH = 32
X = [randn(2, 40, WIDTH)]


def linear(seed: int = 0) -> nn.Linear:
    torch.manual_seed(seed)
    return nn.Linear(WIDTH, WIDTH)


def trained(seed: int = 0) -> nn.Linear:
    """No weights as a framework makes them."""
    made = linear(seed)
    with torch.no_grad():
        made.weight.pow_(3).mul_(20)
    return made


def changed(change: Callable[[nn.Linear], None], of: nn.Linear | None = None) -> nn.Linear:
    made = copy.deepcopy(of or linear())
    with torch.no_grad():
        change(made)
    return made


def no_bias(made: nn.Linear) -> None:
    made.bias = None


def zero_bias(made: nn.Linear) -> None:
    made.bias.zero_()


def bias_twice(made: nn.Linear) -> None:
    made.bias.mul_(2)


def transposed(made: nn.Linear) -> None:
    made.weight = nn.Parameter(made.weight.T.clone())


def of_another_layer(made: nn.Linear) -> None:
    made.weight.copy_(linear(1).weight)


def one_row(made: nn.Linear) -> None:
    made.weight[3] *= 1.05


def fresh(made: nn.Linear) -> None:
    made.weight.copy_(0.02 * randn(WIDTH, WIDTH, seed=9))
    made.bias.zero_()


def to_bf16(made: nn.Linear) -> None:
    made.weight.copy_(made.weight.bfloat16())


def to_fp16(made: nn.Linear) -> None:
    made.weight.copy_(made.weight.half())
    made.bias.copy_(made.bias.half())


def to_int8(made: nn.Linear) -> None:
    step = made.weight.abs().amax(1, keepdim=True) / 127
    made.weight.copy_((made.weight / step).round() * step)


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        (no_bias, "bias.missing"),
        (zero_bias, "bias.missing"),
        (bias_twice, "bias.repeated"),
        (transposed, "weights.transposed"),
        (of_another_layer, "weights.differ"),
        (one_row, "weights.differ"),
        (to_bf16, "dtype.bf16"),
        (to_fp16, "dtype.fp16"),
        (to_int8, "dtype.int8"),
    ],
)
def test_wrong_weights_are_named(tmp_path: Path, change: Callable[[nn.Linear], None], cause: str) -> None:
    assert_first(compared(linear(), changed(change), X, tmp_path), cause)


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        (no_bias, "bias.missing"),
        (transposed, "weights.transposed"),
        (to_bf16, "dtype.bf16"),
        (to_int8, "dtype.int8"),
    ],
)
def test_wrong_weights_are_named_although_the_candidate_recorded_none(
    tmp_path: Path, change: Callable[[nn.Linear], None], cause: str
) -> None:
    assert_first(compared(linear(), changed(change), X, tmp_path, bare=True), cause)


def test_other_weights_are_told_from_inputs_and_outputs(tmp_path: Path) -> None:
    found = compared(linear(), changed(of_another_layer), X, tmp_path, bare=True)
    assert_first(found, "weights.differ", 0.5)


def zeros(made: nn.Linear) -> None:
    made.weight.zero_()


def test_numbers_that_know_nothing_of_the_inputs_have_no_weights(tmp_path: Path) -> None:
    """There is one token more than a weight and a bias have numbers for."""
    made = linear()
    made.forward = lambda x: randn(*x.shape, seed=4)  # type: ignore[method-assign]
    found = compared(linear(), made, [randn(WIDTH + 2, WIDTH)], tmp_path, bare=True)
    assert found.diagnosis[0].cause == "values.uncorrelated"
    assert_not_sure_of(found, "weights.differ")


@pytest.mark.parametrize("change", [fresh, zeros])
def test_weights_that_were_never_loaded(tmp_path: Path, change: Callable[[nn.Linear], None]) -> None:
    cause = assert_first(compared(trained(), changed(change, trained()), X, tmp_path), "weights.missing", 0.8)
    assert "weights.differ" in cause.implies


def wide(seed: int) -> nn.Linear:
    torch.manual_seed(seed)
    made = nn.Linear(64, 256, bias=False)
    with torch.no_grad():
        made.weight.mul_(0.45)
    return made


def test_outputs_of_the_size_that_new_weights_give(tmp_path: Path) -> None:
    candidate = wide(0)
    with torch.no_grad():
        candidate.weight.copy_(0.02 * randn(256, 64, seed=9))
    found = compared(wide(0), candidate, [randn(2, 64)], tmp_path, bare=True)
    cause = assert_first(found, "weights.missing", 0.1)
    assert "random weights with a standard deviation of 0.02" in cause.evidence
    assert cause.confidence < 0.5
    assert "weights.missing" not in {
        one.cause for one in compared(wide(0), wide(1), [randn(2, 64)], tmp_path, bare=True).diagnosis
    }


def test_weights_of_another_training_are_not_new(tmp_path: Path) -> None:
    found = compared(trained(), trained(1), X, tmp_path)
    assert_first(found, "weights.differ")
    assert_not_sure_of(found, "weights.missing")


def some_rows(made: nn.Linear) -> None:
    made.weight[:9].copy_(linear(1).weight[:9])


def test_some_rows_of_a_weight_are_told_from_two_tokens_but_not_surely(tmp_path: Path) -> None:
    found = compared(linear(), changed(some_rows), [randn(2, WIDTH)], tmp_path, bare=True)
    cause = assert_first(found, "weights.differ", 0.1)
    assert cause.confidence < 0.5
    assert "9 of 32 outputs" in cause.evidence


def backwards(made: nn.Linear) -> None:
    made.weight.copy_(made.weight.flip(1))


def channels_last(made: nn.Linear) -> None:
    made.weight.copy_(made.weight.reshape(WIDTH, 4, 8).transpose(1, 2).reshape(WIDTH, WIDTH))


@pytest.mark.parametrize("bare", [False, True])
@pytest.mark.parametrize("change", [backwards, channels_last])
def test_columns_of_a_weight_in_another_order(tmp_path: Path, change: Callable[[nn.Linear], None], bare: bool) -> None:
    found = compared(linear(), changed(change), [randn(3, WIDTH)], tmp_path, bare=bare)
    assert_first(found, "weights.differ")


def test_a_row_of_weights_names_the_tensor(tmp_path: Path) -> None:
    cause = assert_first(compared(linear(), changed(one_row), X, tmp_path), "weights.differ")
    assert "weight" in cause.evidence
    assert "scale.channel" in cause.implies


def test_inputs_rounded_on_the_way_in(tmp_path: Path) -> None:
    made = linear()
    made.forward = lambda x: nn.functional.linear(x.bfloat16().float(), made.weight, made.bias)  # type: ignore[method-assign]
    found = compared(linear(), made, X, tmp_path, bare=True)
    assert_first(found, "dtype.bf16")


def test_the_same_weights_have_no_cause(tmp_path: Path) -> None:
    assert compared(linear(), linear(), X, tmp_path).verdict == "match"


@pytest.mark.parametrize(
    "cause", ["bias.missing", "weights.transposed", "weights.differ", "weights.missing", "dtype.bf16", "dtype.int8"]
)
def test_another_fault_is_not_taken_for_wrong_weights(tmp_path: Path, cause: str) -> None:
    made = linear()
    made.forward = lambda x: nn.functional.linear(x, made.weight, made.bias).clamp(-0.5, 0.5)  # type: ignore[method-assign]
    found = compared(linear(), made, X, tmp_path)
    assert found.verdict == "mismatch"
    assert_not_sure_of(found, cause)


def normed() -> nn.Module:
    """A convolution under weight normalisation, with lengths of all sizes."""
    torch.manual_seed(1)
    made = weight_norm(nn.ConvTranspose1d(WIDTH, 8, 4, stride=2))
    with torch.no_grad():
        made.parametrizations["weight"].original0.mul_(torch.linspace(0.5, 2.0, WIDTH)[:, None, None])  # type: ignore
    return nn.Sequential(made)


def folded(fold: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> nn.Module:
    """The same with a plain weight, made of the two parts."""
    made: Any = normed()
    parts = made[0].parametrizations["weight"]
    weight = fold(parts.original0.detach(), parts.original1.detach())
    remove_parametrizations(made[0], "weight")
    made[0].weight = nn.Parameter(weight)
    return nn.Sequential(made[0])


@pytest.mark.parametrize(
    ("fold", "words"),
    [
        (lambda g, v: v, "with weight_v as the weight"),
        (lambda g, v: g * v, "not divided by its length"),
        (lambda g, v: v / v.norm(dim=(1, 2), keepdim=True), "without weight_g"),
    ],
    ids=["v", "g times v", "direction"],
)
def test_weight_normalisation_that_was_not_folded(tmp_path: Path, fold: Any, words: str) -> None:
    x = [randn(1, WIDTH, 12)]
    found = assert_first(compared(normed(), folded(fold), x, tmp_path, bare=True), "weights.unfolded")
    assert words in found.evidence
    assert "weight_g * weight_v / |weight_v|" in found.fix


def test_weight_normalisation_that_was_folded_matches(tmp_path: Path) -> None:
    made = folded(lambda g, v: g * v / v.norm(dim=(1, 2), keepdim=True))
    found = compared(normed(), made, [randn(1, WIDTH, 12)], tmp_path, bare=True)
    assert found.first_divergence is None


@pytest.mark.parametrize(
    ("change", "told"), [(one_row, "channel 3 alone is off"), (of_another_layer, "channels are off"), (no_bias, None)]
)
def test_weights_that_nobody_recorded_are_what_is_left(
    tmp_path: Path, change: Callable[[nn.Linear], None], told: str | None
) -> None:
    for name, layer in (("ref", linear()), ("cand", changed(change))):
        with torch.no_grad(), fd.capture(nn.Sequential(layer), tmp_path / name, params="none"):
            layer(0.01 * X[0] if told is None else X[0])
    found = fd.compare(tmp_path / "ref", tmp_path / "cand")
    if told is None:
        assert_not_sure_of(found, "weights.differ")
        return
    cause = assert_first(found, "weights.differ", 0.5)
    assert told in cause.evidence
    assert "params='all'" in cause.fix
