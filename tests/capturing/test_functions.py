from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from firstdiff.capturing import capture
from firstdiff.readers import open_trace
from tests.capturing.models import Function, captured, gpt, ids, keys, line, sources, values

F = nn.functional


def traced(forward: Callable[..., Any], *args: Any, tmp_path: Path, **options: Any) -> Any:
    return captured(Function(lambda _, *xs: forward(*xs)), tmp_path / "t", *args, **options)


@pytest.mark.parametrize(
    ("forward", "name", "attrs", "slots"),
    [
        (lambda x: F.softmax(x, dim=-1), "softmax", {"dim": -1}, ["input"]),
        (lambda x: x.softmax(1), "softmax", {"dim": 1}, ["input"]),
        (lambda x: torch.softmax(x, 0, dtype=torch.float64), "softmax", {"dim": 0, "dtype": "float64"}, ["input"]),
        (lambda x: x + x, "add", {}, ["input", "other"]),
        (lambda x: 2 + x, "add", {"other": 2}, ["input"]),
        (lambda x: torch.add(x, x, alpha=3), "add", {"alpha": 3}, ["input", "other"]),
        (lambda x: x - 1, "sub", {"other": 1}, ["input"]),
        (lambda x: 1 - x, "sub", {"input": 1}, ["other"]),
        (lambda x: 2 / x, "div", {"input": 2}, ["other"]),
        (lambda x: x / 4, "div", {"other": 4}, ["input"]),
        (lambda x: x**2, "pow", {"exponent": 2}, ["input"]),
        (lambda x: 2**x, "pow", {"input": 2}, ["exponent"]),
        (lambda x: -x, "neg", {}, ["input"]),
        (lambda x: x @ x, "matmul", {}, ["input", "other"]),
        (lambda x: torch.einsum("ij,jk->ik", x, x), "einsum", {"equation": "ij,jk->ik"}, ["operands.0", "operands.1"]),
        (lambda x: F.gelu(x, approximate="tanh"), "gelu", {"approximate": "tanh"}, ["input"]),
        (lambda x: F.layer_norm(x, (4,), eps=0.5), "layer_norm", {"normalized_shape": [4], "eps": 0.5}, ["input"]),
        (lambda x: F.rms_norm(x, (4,)), "rms_norm", {"normalized_shape": [4]}, ["input"]),
        (lambda x: F.linear(x, x), "linear", {}, ["input", "weight"]),
        (lambda x: torch.cat([x, x], dim=1), "cat", {"dim": 1}, ["tensors.0", "tensors.1"]),
        (lambda x: torch.concat((x, x)), "cat", {}, ["tensors.0", "tensors.1"]),
        (lambda x: x.chunk(2, -1), "chunk", {"chunks": 2, "dim": -1}, ["input"]),
        (lambda x: x.split([1, 3], dim=0), "split", {"split_size": [1, 3], "dim": 0}, ["input"]),
        (lambda x: x.cos(), "cos", {}, ["input"]),
        (lambda x: torch.outer(x[0], x[1]), "outer", {}, ["input", "other"]),
        (lambda x: x.masked_fill(x > 0, -1.0), "masked_fill", {"value": -1.0}, ["input", "mask"]),
        (lambda x: torch.where(x > 0, x, 0.0), "where", {"other": 0.0}, ["condition", "input"]),
        (lambda x: x.topk(2), "topk", {"k": 2}, ["input"]),
        (lambda x: x.cumsum(1), "cumsum", {"dim": 1}, ["input"]),
        (lambda x: F.conv1d(x[None], x[None], padding=1), "conv1d", {"padding": 1}, ["input", "weight"]),
        (lambda x: x.clip(min=0), "clamp", {"min": 0}, ["input"]),
    ],
)
def test_named_functions_go_by_torchs_words(
    forward: Callable[..., Any], name: str, attrs: dict[str, Any], slots: list[str], tmp_path: Path
) -> None:
    trace = traced(forward, torch.randn(4, 4), tmp_path=tmp_path, params="none")
    output = next(tensor for tensor in trace if tensor.name == f"root.{name}" and tensor.record.role == "output")
    said = dict(output.record.attrs)
    assert said.pop("inputs") == slots
    assert said == attrs
    assert output.record.op == name
    assert output.record.parent == "root"
    assert len(output.record.sources) == len(slots)


def test_attention_tells_what_it_was_called_with(tmp_path: Path) -> None:
    q = torch.randn(1, 2, 5, 8)
    trace = traced(
        lambda q: F.scaled_dot_product_attention(q, q, q, attn_mask=q[..., :5] > 0, scale=0.3), q, tmp_path=tmp_path
    )
    said = line(trace, "root.scaled_dot_product_attention")["attrs"]
    assert said["scale"] == 0.3
    assert said["inputs"] == ["query", "key", "value", "attn_mask"]
    assert sources(trace, "root.scaled_dot_product_attention") == [
        *["root:in.0"] * 3,
        "root.scaled_dot_product_attention:in.attn_mask",
    ]


def test_an_input_in_the_trace_is_named_and_one_that_is_not_is_recorded(tmp_path: Path) -> None:
    trace = captured(gpt(layers=1), tmp_path / "t", ids(), params="none")
    assert sources(trace, "layers.0.add") == ["wte", "layers.0.attn"]
    attention = "layers.0.attn.scaled_dot_product_attention"
    assert sources(trace, f"{attention}:in.query") == ["layers.0.attn.chunk"]
    assert line(trace, f"{attention}:in.query")["attrs"] == {"view": True}
    assert sources(trace, f"{attention}:in.key") == ["layers.0.attn.chunk:out.1"]
    assert sources(trace, attention) == [f"{attention}:in.{slot}" for slot in ("query", "key", "value")]


def test_every_function_can_be_done_again_from_what_was_recorded(tmp_path: Path) -> None:
    """Softmax from the masked scores, the masked scores from scores and mask, and so on: all that replay needs."""
    trace = captured(gpt(layers=1, fused=False), tmp_path / "t", ids(), params="none")
    softmax = "layers.0.attn.softmax"
    (scores,) = sources(trace, softmax)
    again = torch.softmax(torch.from_numpy(values(trace, scores)), -1)
    np.testing.assert_array_equal(values(trace, softmax), again)
    filled, mask = (torch.from_numpy(values(trace, key)) for key in sources(trace, "layers.0.attn.masked_fill"))
    np.testing.assert_array_equal(values(trace, scores), filled.masked_fill(mask, float("-inf")))


def test_functions_repeat_and_belong_to_the_module_that_calls(tmp_path: Path) -> None:
    trace = captured(gpt(layers=1), tmp_path / "t", ids())
    assert [key for key in keys(trace, "output") if ".add" in key] == ["layers.0.add", "layers.0.add@1"]
    assert line(trace, "layers.0.attn.chunk")["parent"] == "layers.0.attn"


@pytest.mark.parametrize(
    "write", [lambda x: x.add_(1), lambda x: x.__iadd__(1), lambda x: F.relu(x, inplace=True), lambda x: x.mul_(0)]
)
def test_what_a_function_writes_over_is_recorded_before(write: Callable[..., Any], tmp_path: Path) -> None:
    x = torch.tensor([-1.0, 2.0])
    trace = traced(lambda x: write(x * 2), x, tmp_path=tmp_path)
    name = keys(trace, "output")[1]
    assert line(trace, name)["attrs"]["inplace"] is True
    assert sources(trace, name) == ["root.mul"]
    np.testing.assert_array_equal(values(trace, "root.mul"), x * 2)
    np.testing.assert_array_equal(values(trace, name), write(x * 2))


def test_a_tensor_that_was_written_over_is_another_one(tmp_path: Path) -> None:
    def forward(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        y[0] = 0
        return y.sin()

    trace = traced(forward, torch.ones(3), tmp_path=tmp_path)
    assert sources(trace, "root.sin") == ["root.sin:in.input"]
    np.testing.assert_array_equal(values(trace, "root.sin:in.input"), [0, 2, 2])


def test_leaves_of_torch_are_not_doubled_but_own_leaves_are_looked_into(tmp_path: Path) -> None:
    class RMSNorm(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))

    trace = captured(nn.Sequential(nn.Linear(4, 4), RMSNorm()), tmp_path / "t", torch.ones(2, 4))
    assert keys(trace, "output") == [
        "0",
        *(f"1.{name}" for name in ("pow", "mean", "add", "rsqrt", "mul", "mul@1")),
        "1",
        "root",
    ]
    assert line(trace, "1.mul@1")["attrs"]["params"] == {"input": "1.weight"}
    assert sources(trace, "1.mul@1") == ["1.weight:param", "1.mul"]


def test_parameters_that_are_not_recorded_are_still_named(tmp_path: Path) -> None:
    weight = nn.Parameter(torch.randn(3, 4))
    model = Function(lambda self, x: x @ self.weight.t(), weight=weight)
    trace = captured(model, tmp_path / "t", torch.ones(2, 4), params="none")
    assert keys(trace) == ["root:in.0", "root.matmul", "root"]
    said = line(trace, "root.matmul")["attrs"]
    assert said == {"inputs": ["input"], "params": {"other": "weight"}, "views": ["other"]}


def test_parameters_are_still_known_after_an_update(tmp_path: Path) -> None:
    weight = nn.Parameter(torch.ones(3, 3))
    model = Function(lambda self, x: x @ self.weight, weight=weight)
    optimizer = torch.optim.SGD([weight], lr=0.5)
    with capture(model, tmp_path / "t"):
        for _ in range(2):
            model(torch.ones(2, 3)).sum().backward()
            optimizer.step()
    trace = open_trace(tmp_path / "t")
    assert sources(trace, "root.matmul") == ["root:in.0", "weight:param"]
    assert sources(trace, "root.matmul#s1") == ["root:in.0#s1"]
    assert line(trace, "root.matmul#s1")["attrs"] == {"inputs": ["input"], "params": {"other": "weight"}}


def test_level_op_records_all_that_gives_tensors(tmp_path: Path) -> None:
    model = Function(lambda self, x: self.fc(x.reshape(4, 2).transpose(0, 1)[..., :4]), fc=nn.Linear(4, 3))
    trace = captured(model, tmp_path / "t", torch.arange(8.0), level="op", params="none")
    assert keys(trace, "output") == [
        *("root.reshape", "root.transpose", "root.getitem", "fc.linear", "fc", "root"),
    ]
    assert line(trace, "root.transpose")["attrs"]["1"] == 0
    assert sources(trace, "root.transpose") == ["root.reshape"]


def test_level_module_records_no_functions(tmp_path: Path) -> None:
    model = gpt(layers=1)
    trace = captured(model, tmp_path / "t", ids(), level="module", params="none")
    assert {tensor.name for tensor in trace} <= {"root", *dict(model.named_modules())}


def test_functions_outside_the_model_are_not_recorded(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Tanh())
    with capture(model, tmp_path / "t"):
        torch.softmax(model(torch.ones(2)), -1)
    assert keys(open_trace(tmp_path / "t"), "output") == ["0", "root"]


def test_modes_of_users_go_on_working(tmp_path: Path) -> None:
    seen = []

    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(getattr(func, "__name__", ""))
            return func(*args, **(kwargs or {}))

    with Mode():
        trace = traced(torch.sin, torch.ones(1), tmp_path=tmp_path)
    assert "root.sin" in keys(trace)
    assert seen.count("sin") == 1
    seen.clear()
    model = Function(lambda _, x: torch.sin(x))
    with capture(model, tmp_path / "u"), Mode():
        model(torch.ones(1))
    assert seen.count("sin") == 1
    assert "root.sin" in keys(open_trace(tmp_path / "u"))
