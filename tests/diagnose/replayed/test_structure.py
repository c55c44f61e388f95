from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from firstdiff.schema import Comparison
from tests.diagnose.pairs import Calls, assert_first, assert_not_sure_of, compared, randn

WIDTH = 32
X = [randn(2, 9, WIDTH)]


class Block(nn.Module):
    """A residual block: its input plus a branch."""

    def __init__(self, kept: str = "both", times: int = 1) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.norm, self.branch = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)
        self.kept, self.times = kept, times

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(self.times):
            x = self._once(x)
        return x

    def _once(self, x: torch.Tensor) -> torch.Tensor:
        if self.kept == "nothing":
            return x.clone()
        branch = self.branch(self.norm(x))
        return {"both": lambda: x + branch, "branch": branch.clone, "input": x.clone}[self.kept]()


class Model(nn.Module):
    def __init__(self, **options: Any) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.first, self.block = nn.Linear(WIDTH, WIDTH), Block(**options)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.block(self.first(x))  # type: ignore[no-any-return]


class Stack(nn.Module):
    """Blocks with weights of their own, run in the order given."""

    def __init__(self, kept: Sequence[int] = range(6), run: Sequence[int] | None = None) -> None:
        super().__init__()
        blocks = []
        for number in range(6):
            block = Block()
            torch.manual_seed(number)
            nn.init.normal_(block.branch.weight, std=0.2)
            blocks.append(block)
        self.layers = nn.ModuleList(copy.deepcopy(blocks[number]) for number in kept)
        self.norm = nn.LayerNorm(WIDTH)
        self.run = run

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for number in range(len(self.layers)) if self.run is None else self.run:
            x = self.layers[number](x)
        return self.norm(x)  # type: ignore[no-any-return]


def origins(found: Comparison) -> dict[str | None, int]:
    return dict(Counter(pair.origin for pair in found.pairs if pair.status == "mismatch" and pair.role != "param"))


@pytest.mark.parametrize(
    ("stack", "site", "fix"),
    [
        (Stack(kept=[0, 1, 3, 4, 5]), "layers.3", "layers.2 between layers.1 and layers.3 (the candidate's layers.2)"),
        (Stack(run=[0, 1, 3, 4, 5]), "layers.3", "layers.2 between layers.1 and layers.3"),
        (
            Stack(kept=[0, 1, 4, 5]),
            "layers.4",
            "layers.2 and layers.3 between layers.1 and layers.4 (the candidate's layers.2)",
        ),
        (Stack(kept=[0, 1, 2, 3, 4]), "norm", "layers.5 between layers.4 and norm"),
    ],
    ids=["renumbered", "not renumbered", "two", "the last"],
)
def test_layers_that_are_not_run_are_the_one_answer(stack: Stack, site: str, fix: str, tmp_path: Path) -> None:
    found = compared(Stack(), stack, X, tmp_path)
    assert found.first_divergence is not None
    assert found.first_divergence.key == f"{site}:in.0"
    assert assert_first(found, "op.skipped", 0.9).fix == f"run {fix}"
    assert origins(found)["introduced"] == 1
    assert set(origins(found)) == {"introduced", "inherited"}


@pytest.mark.parametrize(
    "stack",
    [Stack(kept=[0, 1, 2, 2, 3, 4, 5]), Stack(run=[0, 1, 2, 2, 3, 4, 5])],
    ids=["a copy", "again"],
)
def test_a_layer_that_is_run_again_is_the_one_answer(stack: Stack, tmp_path: Path) -> None:
    found = compared(Stack(), stack, X, tmp_path)
    assert found.first_divergence is not None
    assert found.first_divergence.key == "layers.3:in.0"
    assert assert_first(found, "op.repeated", 0.9).fix == "run layers.2 once"
    assert origins(found)["introduced"] == 1


def test_a_layer_of_other_weights_is_no_layer_that_is_not_run(tmp_path: Path) -> None:
    other = Stack()
    nn.init.normal_(other.layers[2].branch.weight, std=0.2)
    assert_first(compared(Stack(), other, X, tmp_path), "weights.differ", 0.9)


@pytest.mark.parametrize("kept", ["branch", "input"])
def test_a_sum_with_one_side_left_out(tmp_path: Path, kept: str) -> None:
    assert_first(compared(Model(), Model(kept=kept), X, tmp_path), "residual.missing", 0.85)


def test_a_block_that_is_not_run(tmp_path: Path) -> None:
    cause = assert_first(compared(Model(), Model(kept="nothing"), X, tmp_path), "op.skipped", 0.6)
    assert cause.fix == "run block"


def test_a_block_that_is_run_twice(tmp_path: Path) -> None:
    cause = assert_first(compared(Model(), Model(times=2), X, tmp_path), "op.repeated")
    assert cause.fix == "run block once"


def test_a_scale_behind_a_block_is_not_the_block_run_twice(tmp_path: Path) -> None:
    class Scaled(Model):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x).mul(1.1)

    found = compared(Model(), Scaled(), X, tmp_path)
    assert_not_sure_of(found, "op.repeated")
    assert_not_sure_of(found, "residual.missing")


def test_dropout_left_on(tmp_path: Path) -> None:
    torch.manual_seed(0)
    cause = assert_first(compared(nn.Dropout(0.1), nn.Dropout(0.1).train(), X, tmp_path), "dropout.active")
    assert "evaluation mode" in cause.fix


def test_zeros_alone_are_not_dropout(tmp_path: Path) -> None:
    found = compared(nn.Dropout(0.1), Calls(lambda x: functional.relu(x)), X, tmp_path)  # noqa: PLW0108
    assert_not_sure_of(found, "dropout.active")


def test_the_same_blocks_have_no_cause(tmp_path: Path) -> None:
    assert compared(Model(), Model(), X, tmp_path).verdict == "match"


@pytest.mark.parametrize("cause", ["residual.missing", "op.skipped", "op.repeated"])
def test_another_fault_is_not_taken_for_one_of_structure(tmp_path: Path, cause: str) -> None:
    made = Model()
    with torch.no_grad():
        made.block.branch.weight.mul_(1.3)
    found = compared(Model(), made, X, tmp_path)
    assert found.verdict == "mismatch"
    assert_not_sure_of(found, cause)
