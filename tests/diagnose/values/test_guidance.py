"""Loops that are guided, or integrated, by another rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from firstdiff.comparing import compare
from firstdiff.schema import Comparison
from tests.diagnose.pairs import assert_first, assert_not_sure_of, compared, randn, stripped, traced

W = 0.7
GIVEN = [randn(1, 9, 16), randn(2, 9, 16, seed=1)]
Rule = Callable[[Tensor, Tensor], Tensor]


class Guidance(nn.Module):
    def __init__(self, rule: Rule) -> None:
        super().__init__()
        self.rule = rule

    def forward(self, both: Tensor) -> Tensor:
        return self.rule(both[:1], both[1:])


class Step(nn.Module):
    def __init__(self, rule: Rule) -> None:
        super().__init__()
        self.rule = rule

    def forward(self, x: Tensor, velocity: Tensor) -> Tensor:
        return self.rule(x, velocity)


class Loop(nn.Module):
    """Three guided steps from noise."""

    def __init__(self, guide: Rule, step: Rule) -> None:
        super().__init__()
        self.model = nn.Linear(16, 16)
        nn.init.orthogonal_(self.model.weight, generator=torch.Generator().manual_seed(0))
        nn.init.zeros_(self.model.bias)
        self.guidance, self.step = Guidance(guide), Step(step)

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        for _ in range(3):
            x = self.step(x, self.guidance(self.model(x.repeat(2, 1, 1) + condition)))
        return x


def outside(c: Tensor, u: Tensor) -> Tensor:
    return (1 + W) * c - W * u


def euler(x: Tensor, velocity: Tensor) -> Tensor:
    return x + velocity / 4


def ported(candidate: nn.Module, folder: Path) -> Comparison:
    """The comparison with a port that taps what its modules give back, and nothing else."""
    ours = traced(Loop(outside, euler).eval(), GIVEN, folder / "reference.trace")
    theirs = stripped(traced(candidate, GIVEN, folder / "candidate.trace", other_order=True))
    taps = tuple(one for one in theirs if one.name in ("model", "guidance", "step") and one.record.role == "output")
    noise = tuple(one for one in theirs if one.name == "root" and one.record.role == "input")
    return compare(ours, replace(theirs, tensors=(*noise, *taps)), allow_missing=True)


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (lambda c, u: u + W * (c - u), "u + w (c - u) in place of 1.7 c - 0.7 u"),
        (lambda c, u: (1 + W) * u - W * c, "c and u exchanged"),
        (lambda c, u: c, "c alone, without guidance,"),
        (lambda c, u: 2.5 * c - 1.5 * u, "2.5 c - 1.5 u in place of 1.7 c - 0.7 u"),
    ],
    ids=["from u", "exchanged", "none", "stronger"],
)
def test_another_formula_of_guidance_is_named(tmp_path: Path, rule: Rule, words: str) -> None:
    found = assert_first(ported(Loop(rule, euler), tmp_path), "guidance.formula", 0.8)
    assert words in found.evidence
    assert "1.7 c - 0.7 u" in found.fix


def test_a_step_in_the_wrong_direction_is_named(tmp_path: Path) -> None:
    backwards = Loop(outside, lambda x, velocity: x - velocity / 4)
    found = assert_first(ported(backwards, tmp_path), "integrator.sign")
    assert "turn the sign of guidance" in found.fix


def test_a_healthy_port_has_neither(tmp_path: Path) -> None:
    assert ported(Loop(outside, euler), tmp_path).first_divergence is None


def test_a_step_of_another_size_has_its_sign(tmp_path: Path) -> None:
    found = ported(Loop(outside, lambda x, velocity: x + velocity / 3), tmp_path)
    assert_not_sure_of(found, "integrator.sign")
    assert found.verdict == "mismatch"


def test_an_average_with_other_weights_is_no_guidance(tmp_path: Path) -> None:
    reference, candidate = Step(lambda x, y: 0.3 * x + 0.7 * y), Step(lambda x, y: 0.4 * x + 0.6 * y)
    found = compared(reference, candidate, [randn(1, 9, 16), randn(1, 9, 16, seed=1)], tmp_path)
    assert found.verdict == "mismatch"
    assert_not_sure_of(found, "guidance.formula")
