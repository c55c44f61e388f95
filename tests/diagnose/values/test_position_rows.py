"""A table of positions, read from another row on."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import firstdiff as fd
from firstdiff.schema import Diagnosis


class Positions(nn.Module):
    """The rows of a table that belong to the tokens at hand."""

    def __init__(self, start: int, rows: int = 16) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.weight = nn.Parameter(torch.randn(rows, 8))
        self.start = start

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.weight[self.start : self.start + x.shape[1]].clone()


def told(folder: Path, ours: nn.Module, theirs: nn.Module) -> tuple[Diagnosis, ...]:
    for name, model in (("ref", ours), ("cand", theirs)):
        with torch.no_grad(), fd.capture(nn.Sequential(model), folder / name):
            model(torch.zeros(2, 6, 8))
    return fd.compare(folder / "ref", folder / "cand").diagnosis


@pytest.mark.parametrize("start", [1, 2, 12])
def test_rows_from_further_on_are_another_position(tmp_path: Path, start: int) -> None:
    """From 12 on the table ends early, and the shapes differ."""
    found = told(tmp_path, Positions(0), Positions(start))
    assert found[0].cause == "position.offset"
    assert "start at position 0" in found[0].fix or "0" in found[0].evidence


def test_other_rows_are_not_other_positions(tmp_path: Path) -> None:
    other = Positions(0)
    with torch.no_grad():
        other.weight.copy_(other.weight.flip(0) + 1)
    found = told(tmp_path, Positions(0), other)
    assert not [one for one in found if one.cause == "position.offset"]
