from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from firstdiff.capturing import capture, module_tree
from firstdiff.readers import open_trace
from tests.capturing.models import Function, captured, keys, line, values


def test_parameters_and_buffers_come_before_the_first_call(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)).eval()
    trace = captured(model, tmp_path / "t", torch.ones(3, 2))
    names = [*dict(model.named_parameters()), *dict(model.named_buffers())]
    held = keys(trace, "param", "buffer")
    assert sorted(held) == sorted(
        f"{name}:{'buffer' if 'running' in name or 'num' in name else 'param'}" for name in names
    )
    assert keys(trace)[: len(held)] == held
    np.testing.assert_array_equal(values(trace, "0.weight:param"), model[0].weight.detach())
    assert line(trace, "0.weight:param")["op"] == "Linear"
    assert line(trace, "0.weight:param")["parent"] == "0"


def test_all_are_recorded_while_they_are_small_in_total(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(128, 128), nn.Linear(128, 129, bias=False))
    trace = captured(model, tmp_path / "t", torch.ones(1, 128))
    assert keys(trace, "param") == ["0.weight:param", "0.bias:param", "1.weight:param"]
    assert "left_out" not in trace.header


def test_beyond_the_total_only_small_ones_are_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = nn.Sequential(nn.Linear(128, 128), nn.Linear(128, 129, bias=False))
    total = sum(values.numel() * values.element_size() for values in model.parameters())
    monkeypatch.setattr(module_tree, "TOTAL_BYTES", total)
    assert len(keys(captured(model, tmp_path / "fits", torch.ones(1, 128)), "param")) == 3
    monkeypatch.setattr(module_tree, "TOTAL_BYTES", total - 1)
    trace = captured(model, tmp_path / "t", torch.ones(1, 128))
    assert keys(trace, "param") == ["0.weight:param", "0.bias:param"]
    assert trace.header["left_out"] == ["1.weight"]


def test_tied_weights_count_once_in_the_total(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = nn.Sequential(nn.Linear(200, 200, bias=False), nn.Linear(200, 200, bias=False))
    model[1].weight = model[0].weight
    monkeypatch.setattr(module_tree, "TOTAL_BYTES", 200 * 200 * 4)
    assert keys(captured(model, tmp_path / "t", torch.ones(1, 200)), "param") == ["0.weight:param"]


def test_large_ones_can_be_left_out_on_request(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(128, 128), nn.Linear(128, 129, bias=False))
    x = torch.ones(1, 128)
    small = captured(model, tmp_path / "small", x, params="small")
    assert keys(small, "param") == ["0.weight:param", "0.bias:param"]
    assert small.header["left_out"] == ["1.weight"]
    assert len(keys(captured(model, tmp_path / "all", x, params="all"), "param")) == 3
    assert not keys(captured(model, tmp_path / "none", x, params="none"), "param")


def test_they_are_those_of_the_first_call_not_of_the_beginning(tmp_path: Path) -> None:
    model = nn.Linear(2, 2, bias=False)
    with torch.no_grad(), capture(model, tmp_path / "t"):
        model.weight.fill_(3)
        model(torch.ones(1, 2))
        model.weight.fill_(4)
    np.testing.assert_array_equal(values(open_trace(tmp_path / "t"), "weight:param"), np.full((2, 2), 3))


def test_tied_weights_are_recorded_once_with_all_their_names(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    model[1].weight = model[0].weight
    trace = captured(model, tmp_path / "t", torch.ones(1, 2))
    assert keys(trace, "param") == ["0.weight:param"]
    assert line(trace, "0.weight:param")["attrs"]["aliases"] == ["1.weight"]


def test_parameters_of_the_model_itself_have_no_prefix(tmp_path: Path) -> None:
    model = Function(lambda self, x: x * self.scale, scale=nn.Parameter(torch.ones(1)))
    trace = captured(model, tmp_path / "t", torch.ones(1))
    assert keys(trace, "param") == ["scale:param"]
    assert line(trace, "scale:param")["parent"] == "root"


def test_lazy_parameters_are_left_until_they_exist(tmp_path: Path) -> None:
    model = nn.Sequential(nn.LazyLinear(2))
    trace = captured(model, tmp_path / "t", torch.ones(1, 3), level="module")
    assert keys(trace) == ["root:in.0", "0:in.0", "0", "root"]
