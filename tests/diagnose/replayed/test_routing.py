from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from tests.diagnose.pairs import assert_first, assert_not_sure_of, compared, randn

WIDTH, EXPERTS = 16, 6
X = [randn(10, WIDTH)]


class Experts(nn.Module):
    """Each token goes through the best few of the experts, weighed."""

    def __init__(self, chosen: int = 2, gate: str = "softmax", divided: bool = True) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.router = nn.Linear(WIDTH, EXPERTS)
        self.experts = nn.Parameter(torch.randn(EXPERTS, WIDTH, WIDTH) / WIDTH**0.5, requires_grad=False)
        self.chosen, self.gate, self.divided = chosen, gate, divided

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores = self.router(x)
        weights = torch.softmax(scores, dim=-1) if self.gate == "softmax" else torch.sigmoid(scores)
        weights, which = torch.topk(weights, self.chosen, dim=-1)
        if self.divided:
            weights = weights / weights.sum(dim=-1, keepdim=True)
        return torch.einsum("td,tkde,tk->te", x, self.experts[which], weights)


@pytest.mark.parametrize("bare", [False, True])
@pytest.mark.parametrize("chosen", [1, 3])
def test_another_number_of_experts(tmp_path: Path, chosen: int, bare: bool) -> None:
    cause = assert_first(compared(Experts(), Experts(chosen=chosen), X, tmp_path, bare=bare), "routing.top_k")
    assert f"{chosen} " in cause.evidence
    assert cause.fix.startswith("choose 2 in")


@pytest.mark.parametrize("bare", [False, True])
def test_weights_that_are_not_divided_by_their_sum(tmp_path: Path, bare: bool) -> None:
    cause = assert_first(compared(Experts(), Experts(divided=False), X, tmp_path, bare=bare), "routing.gate")
    assert "not divided by their sum" in cause.evidence


@pytest.mark.parametrize("bare", [False, True])
def test_a_sigmoid_in_place_of_a_softmax(tmp_path: Path, bare: bool) -> None:
    assert_first(compared(Experts(), Experts(gate="sigmoid"), X, tmp_path, bare=bare), "routing.gate")


def test_a_wrong_router_is_no_fault_of_the_choice(tmp_path: Path) -> None:
    candidate = Experts()
    with torch.no_grad():
        candidate.router.bias.zero_()
    found = compared(Experts(), candidate, X, tmp_path)
    assert_first(found, "bias.missing")
    for cause in ("routing.top_k", "routing.gate"):
        assert_not_sure_of(found, cause)


def test_softmax_of_attention_is_no_gate(tmp_path: Path) -> None:
    class Attended(nn.Module):
        def __init__(self, axis: int) -> None:
            super().__init__()
            self.axis = axis

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.softmax(x @ x.roll(1, -1).transpose(-1, -2), dim=self.axis) @ x

    found = compared(Attended(-1), Attended(-2), [randn(2, 8, 16)], tmp_path)
    assert_first(found, "softmax.axis")
    assert_not_sure_of(found, "routing.gate")
