from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from firstdiff.capturing import CaptureWarning, capture, tap
from firstdiff.measure.noise_floor import beyond_floor, spread_between
from firstdiff.readers import open_trace
from firstdiff.trace import Trace
from tests.capturing.models import GPT, Function, captured, gpt, ids, keys

TOKENS = 128


def exceeding(reference: Trace, candidate: Trace) -> dict[str, dict[str, float]]:
    """Return the tensors of a candidate that exceed the floors of the reference, in order."""
    partners = {tensor.key: tensor for tensor in candidate}
    found = {}
    for tensor in reference:
        partner = partners.get(tensor.key)
        if partner is not None and tensor.record.floor is not None:
            spread = spread_between(tensor.values().view(), partner.values().view())
            assert spread is not None
            if beyond := beyond_floor(spread.difference, tensor.record.floor):
                found[str(tensor.key)] = beyond
    return found


def deep(dtype: torch.dtype, **options: Any) -> GPT:
    return gpt(layers=12, width=128, **options).to(dtype)


def with_fault(model: GPT, change: Any) -> GPT:
    faulty = copy.deepcopy(model)
    with torch.no_grad():
        change(faulty.layers[7].mlp[2])
    return faulty


@pytest.fixture(scope="module", params=[torch.float32, torch.bfloat16], ids=["float32", "bf16"])
def reference(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[GPT, Trace]:
    """A model of 12 layers and its trace with floors."""
    model = deep(request.param)
    path = tmp_path_factory.mktemp("floor") / "reference"
    return model, captured(model, path, ids(TOKENS), params="none", floor=True)


def test_floors_are_stored_for_every_floating_tensor(reference: tuple[GPT, Trace]) -> None:
    _, trace = reference
    assert trace.header["floor"]["how"] == ["repeat", "threads", "ulp", "float64"]
    without = [str(tensor.key) for tensor in trace if tensor.record.floor is None]
    assert without == ["root:in.0", "wte:in.0"]
    floor = trace["layers.3.attn.out"].record.floor
    assert floor is not None
    assert set(floor) == {"max_abs", "rms", "channel_rms", "channel_gain", "runs", "how"}
    assert 0 < floor["rms"] < floor["max_abs"]


def test_another_order_of_the_same_operations_stays_within(reference: tuple[GPT, Trace], tmp_path: Path) -> None:
    model, trace = reference
    other = copy.deepcopy(model)
    for layer in other.layers:
        layer.attn.fused = False
    candidate = captured(other, tmp_path / "t", ids(TOKENS), params="none")
    assert not np.array_equal(*(side["root"].values().read().astype(float) for side in (trace, candidate)))
    assert exceeding(trace, candidate) == {}


def test_a_scaled_channel_is_found_where_it_is(reference: tuple[GPT, Trace], tmp_path: Path) -> None:
    """In bf16 no element alone tells a channel x1.03 from healthy noise; the floor of the channels does."""
    model, trace = reference

    def scale(linear: nn.Linear) -> None:
        linear.weight[5] *= 1.03
        linear.bias[5] *= 1.03

    candidate = captured(with_fault(model, scale), tmp_path / "t", ids(TOKENS), params="none")
    first, beyond = next(iter(exceeding(trace, candidate).items()))
    assert first == "layers.7.mlp.2"
    assert "channel_gain" in beyond
    if next(model.parameters()).dtype == torch.bfloat16:
        assert "max_abs" not in beyond


def test_a_relative_bug_of_a_thousandth_is_found_in_float32(reference: tuple[GPT, Trace], tmp_path: Path) -> None:
    model, trace = reference
    if next(model.parameters()).dtype != torch.float32:
        assert trace["root"].values().dtype == "bfloat16", "whose own steps are larger"
        return
    candidate = captured(with_fault(model, lambda linear: linear.weight.mul_(1.001)), tmp_path / "t", ids(TOKENS))
    assert next(iter(exceeding(trace, candidate))) == "layers.7.mlp.2"


def test_the_model_and_its_surroundings_are_left_alone(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5)).train()
    x = torch.randn(8, 4)
    torch.manual_seed(5)
    plain = copy.deepcopy(model)
    plain(x)
    expected, following = copy.deepcopy(plain.state_dict()), torch.rand(3)
    torch.manual_seed(5)
    threads = torch.get_num_threads()
    with capture(model, tmp_path / "t", floor=True):
        model(x)
    assert all(torch.equal(value, expected[name]) for name, value in model.state_dict().items())
    assert torch.equal(torch.rand(3), following)
    assert torch.get_num_threads() == threads
    assert torch.is_grad_enabled()
    assert open_trace(tmp_path / "t")["2"].record.floor is not None, "the same dropout can be drawn again"


def test_every_step_and_every_tap_has_its_floor(tmp_path: Path) -> None:
    model = Function(lambda self, x: tap("hidden", self.inner(x)), inner=nn.Linear(3, 3))

    def call() -> None:
        model(torch.ones(2, 3))
        model(torch.zeros(2, 3))

    trace = captured(model, tmp_path / "t", call=call, floor=True, params="none")
    assert [key for key in keys(trace) if trace[key].record.floor is None] == []
    assert "hidden#s1" in keys(trace)


def test_modules_called_before_the_model_do_not_shift_the_floors(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(3, 3))
    trace = captured(model, tmp_path / "t", call=lambda: model(model[0](torch.ones(2, 3))), floor=True)
    assert trace["0"].record.floor is None
    assert trace["0@1"].record.floor is not None


def refuses(model: nn.Module, tmp_path: Path, *args: Any) -> str:
    """Return the warning of a capture that stores no floor."""
    with pytest.warns(CaptureWarning) as noticed:
        trace = captured(model, tmp_path / "t", *args, floor=True)
    assert trace.header["complete"] is True
    assert not any(tensor.record.floor for tensor in trace)
    (sentence,) = trace.header["floor"]["not_measured"]
    assert sentence in str(noticed[0].message)
    return str(sentence)


def test_a_model_with_a_memory_says_that_it_cannot_be_repeated(tmp_path: Path) -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            return x * self.calls

    assert "called again with the same inputs, root.mul has other values" in refuses(
        Counting(), tmp_path, torch.ones(3)
    )


def test_a_model_that_cannot_be_copied_says_so(tmp_path: Path) -> None:
    model = Function(lambda _, x: x + 1)
    model.lock = __import__("threading").Lock()
    assert "the model cannot be copied (TypeError" in refuses(model, tmp_path, torch.ones(3))


def test_inputs_that_cannot_be_kept_say_so(tmp_path: Path) -> None:
    class Stubborn:
        def __deepcopy__(self, memo: Any) -> Any:
            raise RuntimeError("never")

    model = Function(lambda _, x, __: x + 1)
    with pytest.warns(CaptureWarning, match="the model itself was not called|could not be kept"):
        trace = captured(model, tmp_path / "t", torch.ones(3), Stubborn(), floor=True)
    assert "RuntimeError: never" in trace.header["floor"]["not_measured"][0]


def test_a_way_that_fails_leaves_the_others(tmp_path: Path) -> None:
    model = Function(lambda self, x: self.inner(x.float()), inner=nn.Linear(3, 3))
    trace = captured(model, tmp_path / "t", torch.ones(2, 3), floor=True)
    assert trace.header["floor"]["how"] == ["repeat", "threads", "ulp"]
    assert "without float64: the model throws RuntimeError" in trace.header["floor"]["not_measured"][0]
    assert trace["inner"].record.floor["how"] == ["repeat", "threads", "ulp"]  # type: ignore[index]


def test_floors_go_with_filters_parts_of_tokens_and_other_types(tmp_path: Path) -> None:
    options: dict[str, Any] = {"tokens": "2:6", "dtype": "float16", "include": ["layers.1*"]}
    trace = captured(gpt(), tmp_path / "t", ids(), floor=True, **options)
    assert keys(trace, "output")
    assert all(trace[key].record.floor for key in keys(trace, "output"))


@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad, torch.enable_grad])
def test_calls_are_repeated_in_the_mode_they_were_made_in(mode: Any, tmp_path: Path) -> None:
    seen = []

    def forward(self: nn.Module, x: torch.Tensor) -> torch.Tensor:
        seen.append((torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu")))
        return self.inner(x)

    model = Function(forward, inner=nn.Linear(3, 3))
    with capture(model, tmp_path / "t", floor=True), mode(), torch.autocast("cpu", torch.bfloat16):
        model(torch.ones(2, 3))
    assert len(seen) == 5
    assert len(set(seen)) == 1
    assert open_trace(tmp_path / "t")["inner"].values().dtype.name == "bfloat16"
