from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import firstdiff
from firstdiff.capturing import CaptureWarning, capture
from firstdiff.errors import UsageError, WriteError
from firstdiff.readers import open_trace
from tests.capturing.models import Function, captured, gpt, ids, keys, sources, values


def header(path: Path) -> dict[str, Any]:
    return json.loads((path / "trace.json").read_text(encoding="utf-8"))  # type: ignore[no-any-return]


def failing(after: int = 1) -> nn.Module:
    def forward(self: nn.Module, x: torch.Tensor) -> torch.Tensor:
        for _ in range(after):
            x = self.inner(x)
        raise ValueError("no such luck")

    return Function(forward, inner=nn.Tanh())


def test_the_header_tells_who_recorded_what(tmp_path: Path) -> None:
    with capture(gpt(), tmp_path / "t", seed=7, level="module") as recording:
        recording._model(ids())
    found = header(tmp_path / "t")
    assert found["producer"]["name"] == "firstdiff"
    assert found["producer"]["torch"] == torch.__version__
    assert found["producer"]["model"] == "GPT"
    assert {name: found[name] for name in ("seed", "level", "root", "complete", "steps")} == {
        **{"seed": 7, "level": "module", "root": "root", "complete": True, "steps": 1},
    }
    assert found["tensors"] == recording.tensors == len(open_trace(tmp_path / "t"))


def test_a_model_that_throws_keeps_what_was_recorded_and_its_own_exception(tmp_path: Path) -> None:
    model = failing()
    with pytest.raises(ValueError, match="no such luck") as caught, capture(model, tmp_path / "t"):
        model(torch.ones(2))
    assert not hasattr(caught.value, "__notes__")
    found = header(tmp_path / "t")
    assert found["complete"] is False
    assert found["error"] == "ValueError: no such luck"
    trace = open_trace(tmp_path / "t")
    assert keys(trace, "output") == ["inner"]
    assert any("no such luck" in warning for warning in trace.warnings)


def test_an_interrupt_passes_through(tmp_path: Path) -> None:
    def forward(_: nn.Module, x: torch.Tensor) -> torch.Tensor:
        raise KeyboardInterrupt

    model = Function(forward)
    with pytest.raises(KeyboardInterrupt), capture(model, tmp_path / "t"):
        model(torch.ones(1))
    assert header(tmp_path / "t")["error"].startswith("KeyboardInterrupt")
    assert torch.overrides._get_current_function_mode() is None


def test_an_existing_trace_is_replaced_only_on_request(tmp_path: Path) -> None:
    model = nn.Tanh()
    captured(model, tmp_path / "t", torch.ones(2))
    with pytest.raises(WriteError, match="holds a trace already"), capture(model, tmp_path / "t"):
        pass
    assert keys(open_trace(tmp_path / "t"), "output") == ["root"]
    np.testing.assert_array_equal(
        values(captured(model, tmp_path / "t", torch.zeros(3), overwrite=True), "root"), [0, 0, 0]
    )


def test_a_path_that_cannot_be_written_is_told_before_the_model_runs(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    model = nn.Tanh()
    with pytest.raises(WriteError, match="cannot write a trace to"), capture(model, tmp_path / "file" / "t"):
        pytest.fail("the body must not run")
    captured(model, tmp_path / "t", torch.ones(1))


FULL = """
import resource, sys, torch
from firstdiff.capturing import capture
from firstdiff.errors import WriteError

def no_more_files():  # as a full disk: nothing beyond this size can be written
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

model = torch.nn.Sequential(torch.nn.Tanh(), torch.nn.Linear(4, 100_000), torch.nn.Tanh())
x = torch.ones(1, 4)
plain = model(x)
no_more_files()
try:
    with capture(model, sys.argv[1], params="none", queue_bytes=1000):
        watched = model(x)
        if sys.argv[2:]:
            raise KeyError("mine")
except (WriteError, KeyError) as error:
    print(type(error).__name__, error, torch.equal(plain, watched))
print(sum(len(m._forward_hooks) for m in model.modules()))
"""


def full_disk(*words: object) -> str:
    done = subprocess.run([sys.executable, "-c", FULL, *map(str, words)], check=True, capture_output=True, text=True)
    return done.stdout


def test_a_full_disk_ends_the_recording_and_not_the_model(tmp_path: Path) -> None:
    said = full_disk(tmp_path / "t")
    assert said.startswith("WriteError cannot write 1 to")
    assert said.endswith("True\n0\n")
    found = header(tmp_path / "t")
    assert found["complete"] is False
    assert "cannot write 1" in found["error"]
    assert keys(open_trace(tmp_path / "t")) == ["root:in.0", "0:in.0", "0", "1:in.0"]


def test_a_full_disk_does_not_hide_the_exception_of_the_model(tmp_path: Path) -> None:
    assert full_disk(tmp_path / "t", "throw") == "KeyError 'mine' True\n0\n"


def test_a_failure_while_the_model_throws_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    model = failing()
    caplog.set_level(logging.WARNING, "firstdiff")
    with pytest.raises(ValueError, match="luck"), capture(model, tmp_path / "t") as recording:
        recording._session.fail(MemoryError("no room"))
        model(torch.ones(1))
    assert "MemoryError: no room" in caplog.text


def test_an_error_of_ours_ends_the_recording_and_not_the_model(tmp_path: Path) -> None:
    class Odd(dict):  # type: ignore[type-arg]
        def items(self) -> Any:
            raise RuntimeError("odd")

    model = Function(lambda self, x: (self.inner(x), Odd()), inner=nn.Tanh())
    result = None
    with pytest.raises(WriteError, match=r"stopped \(RuntimeError: odd\)"), capture(model, tmp_path / "t"):
        result = model(torch.ones(1))
    assert result is not None
    assert keys(open_trace(tmp_path / "t"), "output") == ["inner"]


def test_one_model_is_captured_once_at_a_time(tmp_path: Path) -> None:
    model = gpt()
    with capture(model, tmp_path / "a"):
        with pytest.raises(UsageError, match=r"being captured already, to .*a;"), capture(model, tmp_path / "b"):
            pass
        with pytest.raises(UsageError, match="being captured already"), capture(model.layers[0], tmp_path / "c"):
            pass
        captured(nn.Tanh(), tmp_path / "d", torch.ones(1))
        model(ids())
    captured(model, tmp_path / "e", ids())
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize("model", [lambda x: x, "model", nn.Linear])
def test_something_else_than_a_module_is_refused(model: Any, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"takes a torch\.nn\.Module, not"):
        capture(model, tmp_path / "t")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"level": "modules"}, "level is 'modules'; it takes one of module, function, op"),
        ({"params": "some"}, "params is 'some'"),
        ({"roles": ["outputs"]}, "'outputs' is no role .did you mean output"),
        ({"tokens": "3"}, "tokens is '3'; it takes a slice"),
        ({"tokens": "a:b"}, "tokens is 'a:b'"),
        ({"dtype": "int32"}, "dtype is 'int32'; it takes a floating-point type"),
        ({"max_bytes": 0}, "max_bytes is 0"),
    ],
)
def test_options_that_make_no_sense_are_named(options: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=sentence):
        capture(nn.Tanh(), tmp_path / "t", **options)
    assert not (tmp_path / "t").exists()


def test_the_path_may_come_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRSTDIFF_TRACE", str(tmp_path / "env"))
    model = nn.Tanh()
    with capture(model):
        model(torch.ones(1))
    assert keys(open_trace(tmp_path / "env"), "output") == ["root"]


def test_a_capture_that_saw_nothing_says_so(tmp_path: Path) -> None:
    with pytest.warns(CaptureWarning, match="no module of the model was called"), capture(nn.Tanh(), tmp_path / "t"):
        pass


def test_tensors_larger_than_max_bytes_are_left_out_and_counted(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(2, 100), nn.Linear(100, 2))
    trace = captured(model, tmp_path / "t", torch.ones(1, 2), max_bytes=64, params="none")
    assert keys(trace) == ["root:in.0", "0:in.0", "1", "root"]
    (skipped,) = trace.header["skipped"]
    assert skipped == {"reason": "larger than max_bytes=64", "count": 2, "examples": ["0", "1"]}


def test_tensors_that_cannot_be_copied_are_left_out_and_counted(tmp_path: Path) -> None:
    model = Function(lambda _, x: (x.to_sparse(), x))
    with pytest.warns(CaptureWarning, match="of layout sparse_coo"):
        trace = captured(model, tmp_path / "t", torch.eye(3))
    assert keys(trace, "output") == ["root:out.1"]


def test_the_rank_goes_into_the_lines_and_the_path(tmp_path: Path) -> None:
    store = torch.distributed.FileStore(str(tmp_path / "store"), 1)
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(2, 2)))
        with capture(model, tmp_path / "rank{rank}.trace", level="module"):
            model(torch.ones(1, 2))
    finally:
        torch.distributed.destroy_process_group()
    trace = open_trace(tmp_path / "rank0.trace")
    assert keys(trace) == ["0.weight:param", "0.bias:param", "root:in.0", "0:in.0", "0", "root"]
    assert trace.header["root"] == "root"


def test_the_function_is_public_whatever_was_imported_before(tmp_path: Path) -> None:
    model = nn.Tanh()
    with firstdiff.capture(model, tmp_path / "t"):
        model(torch.ones(1))
    assert keys(open_trace(tmp_path / "t"), "output") == ["root"]


def test_importing_capture_does_not_import_torch() -> None:
    code = "import sys, firstdiff.capturing; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_capture_that_cannot_begin_leaves_nothing_behind(tmp_path: Path) -> None:
    class Unwilling(nn.Module):
        def register_forward_pre_hook(self, *_: Any, **__: Any) -> Any:
            raise RuntimeError("no hooks")

    model = nn.Sequential(nn.Tanh(), Unwilling())
    with pytest.raises(RuntimeError, match="no hooks"), capture(model, tmp_path / "t"):
        pytest.fail("the body must not run")
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    assert header(tmp_path / "t")["complete"] is False
    assert "firstdiff-writer" not in {thread.name for thread in threading.enumerate()}
    captured(model[0], tmp_path / "u", torch.ones(1))


def test_fake_tensors_are_left_out(tmp_path: Path) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    model = nn.Tanh()
    with pytest.warns(CaptureWarning, match="without plain values"), FakeTensorMode():
        trace = captured(model, tmp_path / "t", torch.ones(2))
    assert keys(trace) == []


def test_inference_mode_is_recorded_as_any_other(tmp_path: Path) -> None:
    model, x = gpt(), ids()
    with torch.no_grad():
        plain = model(x)
    with torch.inference_mode():
        trace = captured(model, tmp_path / "t", x)
    np.testing.assert_array_equal(values(trace, "root"), plain)
    assert sources(trace, "layers.0.attn:in.0") == ["layers.0.ln_1"]
    assert sources(trace, "layers.0.attn.scaled_dot_product_attention:in.query") == ["layers.0.attn.chunk"]


def test_values_written_over_in_inference_mode_are_noticed(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU(inplace=True), nn.Tanh())
    x = torch.randn(4, 3)
    with torch.inference_mode():
        trace = captured(model, tmp_path / "t", x, level="module")
        before = model[0](x)
    np.testing.assert_array_equal(values(trace, "0"), before)
    np.testing.assert_array_equal(values(trace, "2:in.0"), before.relu())
    assert sources(trace, "2:in.0") == ["1"]
