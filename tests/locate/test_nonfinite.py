from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from firstdiff.locate import Located
from firstdiff.locate.nonfinite import At, cause
from tests.capturing.models import Function, captured
from tests.locate.compared import located

Forward = Callable[..., torch.Tensor]


def compared(path: Path, reference: Forward, candidate: Forward, x: torch.Tensor, **children: nn.Module) -> Located:
    ours = captured(Function(reference, **children), path / "r", x)
    return located(ours, captured(Function(candidate, **children), path / "c", x))


@pytest.mark.parametrize(
    ("shift", "function", "story"),
    [
        (1.0, torch.log, "root.log (log), -Inf at index [1]; its input (root.sub) has none that the reference lacks: "
         "the logarithm of zero"),
        (3.0, torch.sqrt, "root.sqrt (sqrt), NaN at index [0]"),
        (1.0, lambda x: 1 / x, "a division by zero"),
        (1.0, lambda x: x / x, "zero divided by zero"),
        (-200.0, torch.exp, "exp(202) is beyond the range of float32"),
    ],
)  # fmt: skip
def test_what_led_there(tmp_path: Path, shift: float, function: Callable[[Any], Any], story: str) -> None:
    x = torch.tensor([2.0, 1.0, 3.0])
    found = compared(tmp_path, lambda _, x: function(torch.sub(x, 0.5)), lambda _, x: function(torch.sub(x, shift)), x)
    (note,) = [note.text for note in found.notes if "NaN or Inf" in note.text]
    assert note.startswith("The candidate's first NaN or Inf is in root.")
    assert story in note


def test_a_fully_masked_row(tmp_path: Path) -> None:
    def forward(rows: int) -> Forward:
        hidden = torch.zeros(4, 4, dtype=torch.bool)
        hidden[1, :rows] = True
        return lambda _, x: torch.softmax(x.masked_fill(hidden, float("-inf")), dim=-1) + 1

    found = compared(tmp_path, forward(3), forward(4), torch.randn(2, 4, 4))
    (note,) = [note.text for note in found.notes if "NaN or Inf" in note.text]
    assert note.startswith("The candidate's first NaN or Inf is in root.softmax (softmax), NaN at index [0, 1, 0]")
    assert note.endswith("softmax of a fully masked row")


@pytest.mark.parametrize("mask", [np.zeros((3, 4), bool), np.full((3, 4), -np.inf, np.float32)])
def test_attention_that_may_look_at_nothing(mask: np.ndarray) -> None:
    output = np.full((2, 3, 8), np.nan, np.float32)
    at = At("scaled_dot_product_attention", {}, {"attn_mask": mask}, (1, 2, 0), output, output.dtype, 0.5)
    assert cause(at) == "the mask hides every key from this query: a fully masked row"
    seen = mask.copy()
    seen[2, 3] = True if mask.dtype == bool else 0.0
    assert "fully masked" not in str(cause(replace(at, inputs={"attn_mask": seen})))


@pytest.mark.parametrize("op", ["matmul", "pow", "RMSNorm"])
def test_squares_and_products_beyond_the_range_of_half_precision(op: str) -> None:
    values = np.full((2, 4), 300.0, np.float16)
    output = np.full((2, 4), np.inf, np.float16)
    at = At(op, {}, {"0": values}, (0, 0), output, output.dtype, 4.0)
    assert cause(at) == "its inputs reach 300: products of such numbers are beyond the 65504 that float16 holds"
    assert cause(replace(at, inputs={"0": values / 2})) is None


def test_the_range_of_half_precision(tmp_path: Path) -> None:
    forward: Forward = lambda _, x: (x * x).to(x.dtype) + 1  # noqa: E731
    module = Function(forward)
    wide = captured(module, tmp_path / "r", torch.tensor([1.0, 300.0]))
    half = captured(module, tmp_path / "c", torch.tensor([1.0, 300.0]).half())
    (note,) = [note.text for note in located(wide, half).notes if "NaN or Inf" in note.text]
    assert note == (
        "The candidate's first NaN or Inf is in root.mul (mul), Inf at index [1]; its input (root:in.0) has none that "
        "the reference lacks: the reference has 90000 there, beyond the 65504 that float16 holds"
    )


def test_nan_in_the_reference_is_told() -> None:
    bad = np.array([1.0, np.nan])
    found = located({"a": np.ones(2), "b": bad}, {"a": np.ones(2), "b": bad})
    assert (
        found.notes[-1].text
        == "The reference itself has NaN, first in b: rows that are computed from it cannot be judged"
    )


def test_without_inputs_it_says_what_to_record() -> None:
    found = located({"a": np.ones(2)}, {"a": np.array([1.0, np.inf])})
    texts = [note.text for note in found.notes]
    assert any(text.endswith("Inf at index [1]; record inputs too, to find what led to it") for text in texts)


def test_only_the_first_of_a_spread_is_told(tmp_path: Path) -> None:
    def forward(shift: float) -> Forward:
        return lambda _, x: (torch.log(x + shift) * 2).sum()

    found = compared(tmp_path, forward(1.0), forward(0.0), torch.tensor([0.0, 1.0]))
    notes = [note.text for note in found.notes if "NaN or Inf" in note.text]
    assert len(notes) == 1
    assert "root.log" in notes[0]
