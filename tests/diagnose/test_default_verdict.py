"""Causes of rows that the default verdict fails as a whole, while each element is within rounding."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import torch
from torch import nn

import firstdiff as fd
from firstdiff.trace import Trace
from tests.capturing.models import captured

BF16 = np.dtype(ml_dtypes.bfloat16)


def runs(fault: str) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Three tensors and what a bfloat16 run makes of them, the last with a fault."""
    rng = np.random.default_rng(0)
    reference = {f"layer{n}": rng.standard_normal((64, 96)).astype(np.float32) * 3 for n in range(3)}
    candidate = {
        name: (values * (1 + 0.004 * rng.standard_normal(values.shape))).astype(np.float32)
        for name, values in reference.items()
    }
    wrong = candidate["layer2"]
    if fault == "scale":
        wrong *= 1.03
    elif fault == "channel":
        wrong[:, 7] *= 1.2
    return reference, {name: values.astype(BF16) for name, values in candidate.items()}


@pytest.mark.parametrize(("fault", "cause"), [("scale", "scale.constant"), ("channel", "scale.channel")])
def test_the_fault_is_named_and_not_the_type(fault: str, cause: str) -> None:
    reference, candidate = runs(fault)
    comparison = fd.compare(reference, candidate)
    assert comparison.first_divergence is not None
    assert comparison.first_divergence.key == "layer2"
    assert comparison.diagnosis[0].cause == cause


def test_the_channel_that_the_verdict_is_about_is_where_the_error_is() -> None:
    reference, candidate = runs("channel")
    pair = fd.compare(reference, candidate).pairs[2]
    assert pair.where is not None
    assert pair.where.dims[0].indices == (7,)


def test_a_healthy_run_has_no_cause() -> None:
    reference, candidate = runs("none")
    assert fd.compare(reference, candidate).verdict == "match"


def recorded(path: Path, dtype: torch.dtype, fault: str = "none") -> Trace:
    """A small model in a type, its weights recorded."""
    torch.manual_seed(0)
    hidden = nn.GELU(approximate="tanh" if fault == "tanh" else "none")
    made = nn.Sequential(nn.Linear(96, 128), hidden, nn.Linear(128, 64))
    if fault == "weights":
        made[2].weight.data *= 1.01
    values = 2 * torch.randn(64, 96, generator=torch.Generator().manual_seed(3))
    return captured(made.to(dtype), path, values.to(dtype), params="all")


@pytest.mark.parametrize(
    ("fault", "key", "cause"), [("weights", "2", "weights.differ"), ("tanh", "1", "activation.kind")]
)
def test_an_error_below_one_rounding_of_each_element_is_named(tmp_path: Path, fault: str, key: str, cause: str) -> None:
    found = fd.compare(recorded(tmp_path / "r", torch.float32), recorded(tmp_path / "c", torch.bfloat16, fault))
    assert found.first_divergence is not None
    assert found.first_divergence.key == key
    assert found.diagnosis[0].cause == cause
    assert not any("came in with them" in note.text for note in found.notes)
