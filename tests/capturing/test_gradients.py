from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from firstdiff.capturing import capture
from firstdiff.readers import open_trace
from tests.capturing.models import keys, values


@pytest.fixture
def model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))


def test_gradients_of_outputs_and_parameters_are_recorded(model: nn.Module, tmp_path: Path) -> None:
    x = torch.randn(5, 3)
    with capture(model, tmp_path / "t", grads=True, level="module"):
        model(x).sum().backward()
    trace = open_trace(tmp_path / "t")
    assert set(keys(trace, "grad")) == {
        *("root:grad", "2:grad", "1:grad", "0:grad"),
        *(f"{name}:grad" for name, _ in model.named_parameters()),
    }
    np.testing.assert_array_equal(values(trace, "0.weight:grad"), model[0].weight.grad)
    hidden = model[0](x).detach().requires_grad_()
    model[2](model[1](hidden)).sum().backward()
    np.testing.assert_array_equal(values(trace, "0:grad"), hidden.grad)


def test_gradients_come_after_the_forward_pass_and_backwards(model: nn.Module, tmp_path: Path) -> None:
    with capture(model, tmp_path / "t", grads=True, level="module"):
        model(torch.randn(5, 3)).sum().backward()
    trace = open_trace(tmp_path / "t")
    order = [key for key in keys(trace) if key in ("root", "0", "2:grad", "1:grad", "0:grad")]
    assert order == ["0", "root", "2:grad", "1:grad", "0:grad"]


def test_each_step_has_gradients_of_its_own(model: nn.Module, tmp_path: Path) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with capture(model, tmp_path / "t", grads=True, level="module"):
        for _ in range(2):
            optimizer.zero_grad()
            model(torch.ones(1, 3)).sum().backward()
            optimizer.step()
    trace = open_trace(tmp_path / "t")
    np.testing.assert_array_equal(values(trace, "0.weight:grad#s1"), model[0].weight.grad)
    assert not np.array_equal(values(trace, "0.weight:grad"), values(trace, "0.weight:grad#s1"))


def test_accumulated_gradients_are_told_one_by_one(model: nn.Module, tmp_path: Path) -> None:
    with capture(model, tmp_path / "t", grads=True, roles=["grad"]):
        for _ in range(2):
            model(torch.ones(1, 3)).sum().backward()
    trace = open_trace(tmp_path / "t")
    np.testing.assert_allclose(values(trace, "2.weight:grad") * 2, model[2].weight.grad, rtol=1e-6)


def test_a_second_backward_pass_through_one_graph_is_left_out_and_said(model: nn.Module, tmp_path: Path) -> None:
    def twice() -> None:
        with capture(model, tmp_path / "t", grads=True, roles=["grad"]):
            loss = model(torch.ones(1, 3)).sum()
            loss.backward(retain_graph=True)
            loss.backward()

    with pytest.warns(UserWarning, match="second backward pass"):
        twice()
    assert not open_trace(tmp_path / "t").warnings


def test_hooks_are_gone_afterwards(model: nn.Module, tmp_path: Path) -> None:
    with capture(model, tmp_path / "t", grads=True):
        result = model(torch.ones(1, 3))
    assert not result._backward_hooks
    assert not any(parameter._backward_hooks for parameter in model.parameters())
    result.sum().backward()
    assert not keys(open_trace(tmp_path / "t"), "grad")
