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


class Lookup(nn.Module):
    """An embedding that is asked for other ids than those it was given."""

    def __init__(self, step: int, dtype: torch.dtype) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.Embedding(50, 8).to(dtype)
        given = self.table.forward
        self.table.forward = lambda ids: given((ids + step) % 50)  # type: ignore[method-assign]

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.table(ids) * 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rows_of_other_ids_are_named(tmp_path: Path, dtype: torch.dtype) -> None:
    for name, made in (("ref", Lookup(0, torch.float32)), ("cand", Lookup(1, dtype))):
        with torch.no_grad(), fd.capture(made, tmp_path / name):
            made(torch.tensor([[4, 9, 2, 33, 7, 7, 49]]))
    found = fd.compare(tmp_path / "ref", tmp_path / "cand")
    assert found.first_divergence is not None
    assert (found.first_divergence.key, found.diagnosis[0].cause) == ("table", "ids.mismatch")
    assert "5, 10, 3 in place of 4, 9, 2" in found.diagnosis[0].evidence
