from __future__ import annotations

import dis
from pathlib import Path

import numpy as np
import torch
from torch import nn

from firstdiff.capturing import capture, record, tap, taps
from firstdiff.readers import open_trace
from tests.capturing.models import Function, captured, keys, line, sources, values


def test_without_a_recording_nothing_happens() -> None:
    value = object()
    assert tap("x", value) is value


def test_without_a_recording_a_tap_is_one_look_at_one_variable() -> None:
    """It is cheap since it makes no call, import or attribute lookup before it returns."""
    steps = [step.opname for step in dis.get_instructions(taps.tap)]
    before_return = steps[: steps.index("RETURN_VALUE")]
    assert before_return.count("LOAD_GLOBAL") == 1
    assert not any(name.startswith(("CALL", "IMPORT", "LOAD_ATTR", "LOAD_METHOD")) for name in before_return)


def test_taps_inside_a_captured_model_stand_among_its_tensors(tmp_path: Path) -> None:
    def forward(self: nn.Module, x: torch.Tensor) -> torch.Tensor:
        hidden = tap("hidden", self.inner(x), note="mine")
        tap("plain", np.arange(3))
        return torch.sin(hidden)

    model = Function(forward, inner=nn.Tanh())
    trace = captured(model, tmp_path / "t", torch.ones(2))
    assert keys(trace) == ["root:in.0", "inner:in.0", "inner", "hidden", "plain", "root.sin", "root"]
    assert line(trace, "hidden")["role"] == "tap"
    assert line(trace, "hidden")["parent"] == "root"
    assert line(trace, "hidden")["attrs"] == {"note": "mine"}
    assert sources(trace, "root.sin") == ["hidden"]


def test_taps_follow_the_steps_of_the_model(tmp_path: Path) -> None:
    model = Function(lambda _, x: tap("x", x))

    def call() -> None:
        model(torch.zeros(1))
        model(torch.ones(1))

    trace = captured(model, tmp_path / "t", call=call, level="module")
    assert values(trace, "x#s1") == 1


def test_the_innermost_recording_takes_the_taps(tmp_path: Path) -> None:
    model = nn.Tanh()
    with record(tmp_path / "outer"):
        tap("before", 1)
        with capture(model, tmp_path / "inner") as recording:
            tap("within", 2)
            recording.tap("own", 3)
            model(torch.ones(1))
        tap("after", 4)
    assert keys(open_trace(tmp_path / "outer")) == ["before", "after"]
    assert keys(open_trace(tmp_path / "inner"), "tap") == ["within", "own"]


def test_filters_hold_for_taps(tmp_path: Path) -> None:
    model = Function(lambda _, x: tap("a", tap("b", x)))
    trace = captured(model, tmp_path / "t", torch.ones(1), roles=["tap"], exclude=["b"])
    assert keys(trace) == ["a"]
