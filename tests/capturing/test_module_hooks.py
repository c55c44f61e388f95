from __future__ import annotations

import copy
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from firstdiff.capturing import capture
from firstdiff.readers import open_trace
from tests.capturing.models import Function, captured, gpt, ids, keys, values


def hooks_of(model: nn.Module) -> list[int]:
    tables = ("_forward_hooks", "_forward_pre_hooks", "_forward_hooks_with_kwargs", "_forward_hooks_always_called")
    return [len(getattr(module, table)) for module in model.modules() for table in tables]


@pytest.fixture
def model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))


def add_hooks(module: nn.Module) -> None:
    module.register_forward_pre_hook(lambda _, args: (args[0] + 10,))
    module.register_forward_hook(lambda _, __, result: result * 100)


def test_what_callee_and_caller_receive_is_recorded_whatever_hooks_do(model: nn.Module, tmp_path: Path) -> None:
    add_hooks(model[0])
    x = torch.ones(2, 3)
    trace = captured(model, tmp_path / "t", x, level="module")
    np.testing.assert_array_equal(values(trace, "0:in.0"), x + 10)
    np.testing.assert_array_equal(values(trace, "0"), model[0](x).detach())
    np.testing.assert_array_equal(values(trace, "1:in.0"), values(trace, "0"))


def test_hooks_that_users_add_meanwhile_are_seen_too(model: nn.Module, tmp_path: Path) -> None:
    x = torch.ones(2, 3)
    with torch.no_grad(), capture(model, tmp_path / "t", level="module"):
        add_hooks(model[0])
        model(x)
    trace = open_trace(tmp_path / "t")
    np.testing.assert_array_equal(values(trace, "0:in.0"), x + 10)
    np.testing.assert_array_equal(values(trace, "0"), model[0](x).detach())


def test_an_input_that_a_late_hook_may_change_is_left_out_rather_than_wrong(model: nn.Module, tmp_path: Path) -> None:
    x = torch.ones(2, 3)

    def hooked() -> None:
        with torch.no_grad(), capture(model, tmp_path / "t", level="module"):
            add_hooks(model)
            model(x)
            model(x)

    with pytest.warns(UserWarning, match="registered after the capture began"):
        hooked()
    trace = open_trace(tmp_path / "t")
    assert "root:in.0" not in keys(trace)
    np.testing.assert_array_equal(values(trace, "root:in.0#s1"), x + 10)
    np.testing.assert_array_equal(values(trace, "root"), model(x).detach())


def test_full_backward_hooks_of_users_go_on_working(model: nn.Module, tmp_path: Path) -> None:
    seen: list[Any] = []
    model[0].register_full_backward_hook(lambda *_: seen.append(1))
    with capture(model, tmp_path / "t"):
        model(torch.ones(2, 3, requires_grad=True)).sum().backward()
    assert seen == [1]


@pytest.mark.parametrize("level", ["module", "function", "op"])
def test_results_are_the_same_bits_with_and_without_capture(level: Any, tmp_path: Path) -> None:
    for dtype in (torch.float32, torch.bfloat16):
        model, x = gpt().to(dtype), ids(batch=2)
        with torch.no_grad():
            plain = model(x)
            with capture(model, tmp_path / f"{dtype}", level=level):
                watched = model(x)
        assert torch.equal(plain, watched)


def test_gradients_are_the_same_bits_with_and_without_capture(tmp_path: Path) -> None:
    model, x = gpt(), ids()
    model(x).square().sum().backward()
    plain = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    with capture(model, tmp_path / "t", grads=True):
        model(x).square().sum().backward()
    assert all(torch.equal(one, two.grad) for one, two in zip(plain, model.parameters(), strict=True))


def test_nothing_is_left_on_the_model(tmp_path: Path) -> None:
    model = gpt()
    before, attributes = hooks_of(model), [sorted(vars(module)) for module in model.modules()]
    captured(model, tmp_path / "a", ids(), grads=True)
    with pytest.raises(RuntimeError), capture(model, tmp_path / "b"):
        model(torch.ones(1, 2, 3))
    assert hooks_of(model) == before
    assert [sorted(vars(module)) for module in model.modules()] == attributes
    assert torch.overrides._get_current_function_mode() is None


def test_neither_random_numbers_nor_gradient_mode_are_touched(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Dropout(0.5), nn.Linear(8, 8))
    x = torch.ones(4, 8)
    torch.manual_seed(3)
    plain = model(x)
    torch.manual_seed(3)
    with capture(model, tmp_path / "t", floor=False):
        watched = model(x)
        assert torch.is_grad_enabled()
    assert torch.equal(plain, watched)
    assert watched.requires_grad
    assert torch.equal(torch.rand(3), (torch.manual_seed(3), model(x), torch.rand(3))[2])


def test_a_model_can_be_copied_while_it_is_captured(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(2, 2))
    with torch.no_grad(), capture(model, tmp_path / "t", level="module"):
        twin = copy.deepcopy(model)
        twin(torch.ones(1, 2))
        model(torch.ones(1, 2))
    assert keys(open_trace(tmp_path / "t"), "output") == ["0", "root"]


def test_neither_tensors_nor_graphs_are_kept_alive(tmp_path: Path) -> None:
    saved: list[weakref.ref[torch.Tensor]] = []

    def forward(self: nn.Module, x: torch.Tensor) -> torch.Tensor:
        hidden = self.inner(x)
        saved.append(weakref.ref(hidden))
        return hidden * hidden  # whose graph keeps it for the backward pass

    model = Function(forward, inner=nn.Linear(2, 2))
    with capture(model, tmp_path / "t"):
        result = model(torch.ones(1, 2))
        assert saved[0]() is not None
        del result
        assert saved[0]() is None


def test_shared_modules_go_by_their_first_name(tmp_path: Path) -> None:
    shared = nn.Linear(2, 2)
    trace = captured(nn.Sequential(shared, nn.Tanh(), shared), tmp_path / "t", torch.ones(1, 2), level="module")
    assert keys(trace, "output") == ["0", "1", "0@1", "root"]


def test_a_child_called_root_does_not_collide_with_the_model(tmp_path: Path) -> None:
    model = Function(lambda self, x: self.root(x) + 1, root=nn.Tanh())
    trace = captured(model, tmp_path / "t", torch.ones(1), level="module")
    assert keys(trace, "output") == ["root", "root_"]
    assert trace.header["root"] == "root_"


def test_threads_do_not_mix_up_each_other(tmp_path: Path) -> None:
    model = gpt(layers=1)
    with capture(model, tmp_path / "t", level="module"), ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: model.layers[0](torch.full((1, 3, 32), float(n))), range(16)))
    trace = open_trace(tmp_path / "t")
    outputs = [tensor for tensor in trace if tensor.name == "layers.0.attn" and tensor.record.role == "output"]
    assert len(outputs) == 16
    assert {tensor.record.parent for tensor in outputs} == {"layers.0"}
    assert not trace.warnings


def test_steps_of_several_threads_stay_apart(tmp_path: Path) -> None:
    model = gpt(layers=2)
    with torch.no_grad():
        plain = [model(ids(tokens=n + 2)) for n in range(12)]
    with capture(model, tmp_path / "t", level="module", params="none"), ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: model(ids(tokens=n + 2)), range(12)))
    trace = open_trace(tmp_path / "t")
    assert not trace.warnings
    assert {key.partition("#")[0] for key in keys(trace)} == {
        key.partition("#")[0] for key in keys(trace) if "@" not in key
    }
    for step in range(12):
        suffix = f"#s{step}" if step else ""
        tokens = values(trace, f"root:in.0{suffix}").shape[1]
        np.testing.assert_array_equal(values(trace, f"root{suffix}"), plain[tokens - 2])
        assert values(trace, f"layers.1.attn{suffix}").shape[1] == tokens
