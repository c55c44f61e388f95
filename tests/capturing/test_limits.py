from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from firstdiff.capturing import CaptureWarning, capture
from firstdiff.errors import UsageError
from firstdiff.readers import open_trace
from tests.capturing.models import Function, captured, keys, line, values

INSIDE = "compiled, so only what goes in and what comes out is recorded"


@pytest.fixture
def compiler() -> Any:
    """torch.compile without code generation; what was compiled is forgotten afterwards."""
    torch._dynamo.reset()
    yield torch.compile
    torch._dynamo.reset()


def net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 3), nn.Tanh())


def test_a_compiled_model_is_recorded_from_outside(compiler: Any, tmp_path: Path) -> None:
    model = compiler(net(), backend="eager")
    x = torch.ones(2, 3)
    with torch.no_grad():
        plain = model(x)
    graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    with pytest.warns(CaptureWarning, match=INSIDE):
        trace = captured(model, tmp_path / "t", x)
    assert keys(trace) == ["0.weight:param", "0.bias:param", "root:in.0", "root"]
    np.testing.assert_array_equal(values(trace, "root"), plain)
    assert line(trace, "root")["op"] == "Sequential"
    assert line(trace, "root")["attrs"]["compiled"] is True
    assert INSIDE in trace.header["limits"][0]
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == graphs, "nothing was compiled again"


def test_an_exported_model_is_recorded_from_outside(tmp_path: Path) -> None:
    x = torch.ones(2, 3)
    model = torch.export.export(net().eval(), (x,)).module()
    with pytest.warns(CaptureWarning, match="root is one exported graph, so only what goes in and what comes out"):
        trace = captured(model, tmp_path / "t", x)
    assert keys(trace) == ["0.weight:param", "0.bias:param", "root:in.0", "root"]
    assert line(trace, "root")["attrs"]["exported"] is True
    traced = torch.fx.symbolic_trace(net())  # its graph calls modules, which hooks see
    assert "0" in keys(captured(traced, tmp_path / "fx", x))


def test_a_part_compiled_in_place_is_recorded_from_outside(compiler: Any, tmp_path: Path) -> None:
    inner = net()
    inner.compile(backend="eager")
    own = inner._compiled_call_impl
    model = Function(lambda self, x: torch.sin(self.inner(x) * 2), inner=inner)
    x = torch.ones(2, 3)
    with torch.no_grad():
        plain = model(x)
    with pytest.warns(CaptureWarning, match=INSIDE):
        trace = captured(model, tmp_path / "t", x, params="none")
    assert keys(trace, "output") == ["inner", "root.mul", "root.sin", "root"]
    np.testing.assert_array_equal(values(trace, "root"), plain)
    assert inner._compiled_call_impl is own


def test_a_part_that_is_compiled_loses_its_wrapper_in_names(compiler: Any, tmp_path: Path) -> None:
    model = Function(lambda self, x: self.inner(x) + 1, inner=compiler(net(), backend="eager"))
    with pytest.warns(CaptureWarning, match=f"inner is {INSIDE}"):
        trace = captured(model, tmp_path / "t", torch.ones(2, 3))
    assert keys(trace) == [
        *("inner.0.weight:param", "inner.0.bias:param", "root:in.0", "inner:in.0", "inner", "root.add", "root"),
    ]


@pytest.mark.filterwarnings("ignore::firstdiff.capturing.torch_model.CaptureWarning")
def test_a_mode_of_the_user_around_compiled_code_stays_in_place(compiler: Any, tmp_path: Path) -> None:
    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return func(*args, **(kwargs or {}))

    inner = compiler(net(), backend="eager")
    model = Function(lambda self, x: torch.sin(self.inner(x)), inner=inner)
    mode = Mode()
    with capture(model, tmp_path / "t"), mode:
        model(torch.ones(2, 3))
        assert torch.overrides._get_current_function_mode() is mode
    assert torch.overrides._get_current_function_mode_stack() == []
    assert "root.sin" in keys(open_trace(tmp_path / "t"))


def test_compiled_code_that_throws_leaves_everything_in_order(compiler: Any, tmp_path: Path) -> None:
    def fails(_: nn.Module, x: torch.Tensor) -> torch.Tensor:
        raise ValueError("inside")

    inner = Function(fails)
    inner.compile(backend="eager")
    model = Function(lambda self, x: self.inner(x), inner=inner)
    with pytest.warns(CaptureWarning), pytest.raises(ValueError, match="inside"), capture(model, tmp_path / "t"):
        model(torch.ones(1))
    assert torch.overrides._get_current_function_mode() is None


def test_wrappers_leave_no_trace_in_names(tmp_path: Path) -> None:
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

    model = nn.Sequential(checkpoint_wrapper(net()), nn.DataParallel(nn.Tanh()))
    trace = captured(model, tmp_path / "t", torch.ones(2, 3), level="module")
    assert keys(trace) == [
        *("0.0.weight:param", "0.0.bias:param", "root:in.0"),
        *("0:in.0", "0.0:in.0", "0.0", "0.1:in.0", "0.1", "0", "1:in.0", "1", "root"),
    ]


def test_sharded_parameters_are_recorded_as_this_process_holds_them(tmp_path: Path) -> None:
    from torch.distributed.fsdp import fully_shard

    store = torch.distributed.FileStore(str(tmp_path / "store"), 1)
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        mesh = torch.distributed.init_device_mesh("cpu", (1,))
        model = net()
        weight = model[0].weight.detach().clone()
        fully_shard(model, mesh=mesh)
        trace = captured(model, tmp_path / "t", torch.ones(2, 3), level="module")
    finally:
        torch.distributed.destroy_process_group()
    assert keys(trace, "input", "output") == ["root:in.0", "0:in.0", "0", "1:in.0", "1", "root"]
    np.testing.assert_array_equal(values(trace, "0.weight:param"), weight)


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
def test_torchscript_is_refused_as_a_whole_and_named_as_a_part(tmp_path: Path) -> None:
    scripted = torch.jit.script(net())
    with pytest.raises(UsageError, match="TorchScript"):
        capture(scripted, tmp_path / "t")
    model = Function(lambda self, x: self.inner(x) + 1, inner=scripted)
    with pytest.warns(CaptureWarning, match="inner is TorchScript"):
        trace = captured(model, tmp_path / "t", torch.ones(2, 3), params="none")
    assert keys(trace, "output") == ["root.add", "root"]


def test_layers_that_have_a_fused_path_are_named(tmp_path: Path) -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    x = torch.randn(2, 5, 8)
    with torch.no_grad():
        plain = layer(x)
    with pytest.warns(CaptureWarning, match="root .and 1 more. may take torch's fused path"):
        trace = captured(layer, tmp_path / "t", x)
    np.testing.assert_allclose(values(trace, "root"), plain, atol=1e-5)
    assert "linear1" in keys(trace, "output")
    captured(layer.train(), tmp_path / "u", x)


def test_limits_are_told_before_anything_is_written(compiler: Any, tmp_path: Path) -> None:
    model = compiler(net(), backend="eager")
    with pytest.raises(CaptureWarning), capture(model, tmp_path / "t"):
        pass
    assert not (tmp_path / "t").exists()
    with pytest.warns(CaptureWarning), capture(model, tmp_path / "t"):
        model(torch.ones(1, 3))
    assert "root" in keys(open_trace(tmp_path / "t"))
