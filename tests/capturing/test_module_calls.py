from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import nn

from firstdiff.capturing import capture
from firstdiff.readers import open_trace
from tests.capturing.models import Function, captured, gpt, ids, keys, line, sources, values


def test_inputs_and_outputs_stand_in_the_order_of_execution(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
    trace = captured(model, tmp_path / "t", torch.ones(2, 3), level="module", params="none")
    assert keys(trace) == ["root:in.0", "0:in.0", "0", "1:in.0", "1", "root"]
    assert [tensor.record.seq for tensor in trace] == list(range(6))


def test_values_are_those_of_the_model(tmp_path: Path) -> None:
    model, x = gpt(), ids()
    trace = captured(model, tmp_path / "t", x)
    with torch.no_grad():
        embedded = model.wte(x)
        np.testing.assert_array_equal(values(trace, "layers.0:in.0"), embedded)
        np.testing.assert_array_equal(values(trace, "layers.0.ln_1"), model.layers[0].ln_1(embedded))
        np.testing.assert_array_equal(values(trace, "root"), model(x))


def test_keywords_are_slots_and_plain_values_are_attributes(tmp_path: Path) -> None:
    inner = Function(lambda _, x, *, mask, scale, skip=None: x * scale + mask)
    model = Function(lambda self, x: self.inner(x, mask=x + 1, scale=2.5), inner=inner)
    trace = captured(model, tmp_path / "t", torch.ones(2), level="module")
    assert keys(trace, "input") == ["root:in.0", "inner:in.0", "inner:in.mask"]
    assert line(trace, "inner")["attrs"]["args"] == {"scale": 2.5}


class Pair(NamedTuple):
    first: torch.Tensor
    second: torch.Tensor


@dataclasses.dataclass
class Output:
    logits: torch.Tensor
    hidden_states: tuple[torch.Tensor, ...]
    loss: torch.Tensor | None = None


@pytest.mark.parametrize(
    ("result", "slots"),
    [
        (lambda x: x, ["0"]),
        (lambda x: (x, x + 1), ["0", "1"]),
        (lambda x: [x, (x, None, {"k": x})], ["0", "1.0", "1.2.k"]),
        (lambda x: {"a": x, "b@:#": x}, ["a", "b___"]),
        (lambda x: Pair(x, x), ["first", "second"]),
        (lambda x: Output(x, (x, x)), ["logits", "hidden_states.0", "hidden_states.1"]),
        (lambda x: (x, 3, "text", object()), ["0"]),
        (lambda _: None, []),
    ],
)
def test_what_is_nested_has_slots_of_its_own(result: Any, slots: list[str], tmp_path: Path) -> None:
    model = Function(lambda _, x: result(x))
    trace = captured(model, tmp_path / "t", torch.ones(2), level="module")
    assert [tensor.key.slot for tensor in trace if tensor.record.role == "output"] == slots


def test_repeated_calls_are_numbered(tmp_path: Path) -> None:
    model = Function(lambda self, x: self.inner(self.inner(x)), inner=nn.Tanh())
    trace = captured(model, tmp_path / "t", torch.ones(2), level="module")
    assert keys(trace, "output") == ["inner", "inner@1", "root"]
    np.testing.assert_allclose(values(trace, "inner@1"), np.tanh(np.tanh(np.ones(2))), rtol=1e-6)


def test_each_call_of_the_model_is_a_step(tmp_path: Path) -> None:
    model = gpt()

    def generate() -> None:
        sequence = ids()
        for _ in range(3):
            sequence = torch.cat([sequence, model(sequence)[:, -1:].argmax(-1)], dim=1)

    trace = captured(model, tmp_path / "t", call=generate, level="module")
    assert [key for key in keys(trace, "output") if key.startswith("head")] == ["head", "head#s1", "head#s2"]
    assert values(trace, "head#s2").shape[1] == ids().shape[1] + 2
    assert trace.header["steps"] == 3


def test_what_runs_before_the_model_is_of_its_first_step(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(2, 2))

    def call() -> None:
        model(model[0](torch.ones(1, 2)))
        model(torch.ones(1, 2))

    trace = captured(model, tmp_path / "t", call=call, level="module")
    assert keys(trace, "output") == ["0", "0@1", "root", "0#s1", "root#s1"]
    assert line(trace, "0")["parent"] == "root"


def test_a_model_that_calls_itself_stays_within_the_step(tmp_path: Path) -> None:
    model = Function(lambda self, x, depth: x if depth == 0 else self(x + 1, depth - 1))
    trace = captured(model, tmp_path / "t", torch.zeros(1), 2, level="module")
    assert keys(trace, "output") == ["root@2", "root@1", "root"]


def test_values_are_copied_before_they_are_written_over(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU(inplace=True))
    x = torch.randn(4, 3)
    trace = captured(model, tmp_path / "t", x, level="module")
    before = model[0](x).detach()
    assert (before < 0).any()
    np.testing.assert_array_equal(values(trace, "0"), before)
    np.testing.assert_array_equal(values(trace, "1"), before.relu())


def test_attributes_tell_the_operation(tmp_path: Path) -> None:
    model = nn.Sequential(nn.LayerNorm(4, eps=1e-3), nn.GELU(approximate="tanh"), nn.Dropout(0.25))
    trace = captured(model.eval(), tmp_path / "t", torch.ones(2, 4), level="module")
    norm = line(trace, "0")
    assert norm["op"] == "LayerNorm"
    assert norm["attrs"] == {"normalized_shape": [4], "eps": 1e-3, "elementwise_affine": True, "training": False}
    assert line(trace, "1")["attrs"]["approximate"] == "tanh"
    assert line(trace, "2")["attrs"]["p"] == 0.25


def test_every_short_plain_attribute_is_told(tmp_path: Path) -> None:
    model = Function(lambda _, x: x)
    model.scale, model.heads, model.sizes, model.nothing = 0.5, 8, (1, 2), None
    model.act, model.kind, model.limit = torch.nn.functional.relu, torch.bfloat16, float("inf")
    model.config, model.long, model._private = object(), "x" * 1000, 1
    attrs = line(captured(model, tmp_path / "t", torch.ones(1)), "root")["attrs"]
    assert attrs == {
        **{"training": True, "scale": 0.5, "heads": 8, "sizes": [1, 2], "nothing": None},
        **{"act": "relu", "kind": "bfloat16", "limit": "inf"},
    }


def test_autocast_is_told(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(4, 4))
    with torch.autocast("cpu", torch.bfloat16):
        trace = captured(model, tmp_path / "t", torch.ones(2, 4), level="module")
    assert line(trace, "0")["attrs"]["autocast"] == "bfloat16"
    assert trace["0"].values().dtype.name == "bfloat16"


def test_the_parent_is_the_module_that_calls(tmp_path: Path) -> None:
    trace = captured(gpt(), tmp_path / "t", ids(), level="module")
    assert "parent" not in line(trace, "root")
    assert line(trace, "layers.0")["parent"] == "root"
    assert line(trace, "layers.0.attn.qkv")["parent"] == "layers.0.attn"


def test_an_input_names_the_tensor_it_is(tmp_path: Path) -> None:
    trace = captured(gpt(), tmp_path / "t", ids(), level="module")
    assert sources(trace, "wte:in.0") == ["root:in.0"]
    assert sources(trace, "layers.0.attn:in.0") == ["layers.0.ln_1"]
    assert sources(trace, "layers.1:in.0") == ["layers.0"]
    assert sources(trace, "layers.0.attn.out:in.0") == []


def test_values_that_are_there_already_are_not_written_again(tmp_path: Path) -> None:
    trace = captured(gpt(), tmp_path / "t", ids(), level="module", params="none")
    files = list((tmp_path / "t").glob("*.npy"))
    distinct = {tensor.values().read().tobytes() for tensor in trace}
    assert len(files) == len(distinct) < len(trace)


def test_a_digest_of_the_inputs_is_noted(tmp_path: Path) -> None:
    model = nn.Linear(2, 2)

    def digest(path: str, **arguments: torch.Tensor) -> str:
        return captured(model, tmp_path / path, call=lambda: model(**arguments)).header["inputs"]

    one = digest("a", input=torch.ones(1, 2))
    assert one.startswith("sha256:")
    assert one == digest("b", input=torch.ones(1, 2))
    assert one != digest("c", input=torch.ones(1, 2).double().float() * 2)


def test_a_forward_that_throws_does_not_confuse_those_after_it(tmp_path: Path) -> None:
    def fails(_: nn.Module, x: torch.Tensor) -> torch.Tensor:
        raise ValueError("no")

    def forward(self: nn.Module, x: torch.Tensor) -> torch.Tensor:
        try:
            return self.risky(x)
        except ValueError:
            return torch.softmax(x, -1)

    model = Function(forward, risky=Function(fails))
    trace = captured(model, tmp_path / "t", torch.ones(2))
    assert keys(trace, "output") == ["root.softmax", "root"]


def test_recomputed_activations_are_not_recorded_twice(tmp_path: Path) -> None:
    from torch.utils.checkpoint import checkpoint

    inner = nn.Linear(3, 3)
    model = Function(lambda self, x: checkpoint(self.inner, x, use_reentrant=False), inner=inner)
    with capture(model, tmp_path / "t", level="module"):
        model(torch.ones(2, 3, requires_grad=True)).sum().backward()
    assert keys(open_trace(tmp_path / "t"), "output") == ["inner", "root"]
