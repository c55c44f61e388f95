from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.diagnose.pairs import Calls, assert_first, assert_not_sure_of, compared, randn

X = [2.0 * randn(2, 9, 32)]


@pytest.mark.parametrize(
    ("right", "wrong", "told"),
    [
        (functional.gelu, lambda x: functional.gelu(x, approximate="tanh"), "gelu (tanh)"),
        (lambda x: functional.gelu(x, approximate="tanh"), functional.gelu, "gelu (erf)"),
        (functional.gelu, lambda x: x * torch.sigmoid(1.702 * x), "gelu (quick)"),
        (functional.silu, functional.relu, "relu"),
        (functional.relu, functional.silu, "silu"),
        (functional.silu, functional.mish, "mish"),
        (functional.leaky_relu, lambda x: functional.leaky_relu(x, 0.2), "leaky relu (0.2)"),
    ],
)
def test_another_activation_is_named(tmp_path: Path, right: Any, wrong: Any, told: str) -> None:
    cause = assert_first(compared(Calls(right), Calls(wrong), X, tmp_path), "activation.kind")
    assert told in cause.evidence


def test_another_activation_is_named_from_the_candidates_values_alone(tmp_path: Path) -> None:
    wrong = Calls(lambda x: functional.gelu(x, approximate="tanh"))
    assert_first(compared(Calls(functional.gelu), wrong, X, tmp_path, bare=True), "activation.kind")


@pytest.mark.parametrize("right", [functional.relu, functional.gelu, functional.silu, torch.tanh])
def test_an_activation_that_is_not_applied(tmp_path: Path, right: Any) -> None:
    found = compared(Calls(right), Calls(torch.clone), X, tmp_path)
    assert_first(found, "activation.missing")


def test_a_healthy_activation_has_no_cause(tmp_path: Path) -> None:
    assert compared(Calls(functional.gelu), Calls(functional.gelu), X, tmp_path).verdict == "match"


@pytest.mark.parametrize("cause", ["activation.kind", "activation.missing"])
def test_a_scale_is_not_taken_for_another_activation(tmp_path: Path, cause: str) -> None:
    found = compared(nn.GELU(), Calls(lambda x: 1.07 * functional.gelu(x)), X, tmp_path)
    assert found.verdict == "mismatch"
    assert_not_sure_of(found, cause)


def test_a_softmax_in_half_precision_inside_a_float32_model_is_named(tmp_path: Path) -> None:
    def wrong(x: torch.Tensor) -> torch.Tensor:
        return functional.softmax(x.bfloat16(), dim=-1).float()

    found = compared(Calls(lambda x: functional.softmax(x, dim=-1)), Calls(wrong), [6.0 * randn(2, 9, 32)], tmp_path)
    cause = assert_first(found, "dtype.bf16", 0.7)
    assert "inputs" in cause.evidence
    assert "float32" in cause.fix
