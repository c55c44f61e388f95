from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from tests.diagnose.pairs import assert_first, assert_not_sure_of, compared, randn

WIDTH = 32
X = [randn(2, 40, WIDTH)]


def linear(seed: int = 0) -> nn.Linear:
    torch.manual_seed(seed)
    return nn.Linear(WIDTH, WIDTH)


def changed(change: Callable[[nn.Linear], None]) -> nn.Linear:
    made = copy.deepcopy(linear())
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


def test_weights_that_were_never_loaded(tmp_path: Path) -> None:
    found = compared(linear(), changed(fresh), X, tmp_path)
    assert {one.cause for one in found.diagnosis[:2]} == {"weights.missing", "weights.differ"}


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
