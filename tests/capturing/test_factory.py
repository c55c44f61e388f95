from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from firstdiff.capturing.factory import build
from firstdiff.errors import ReadError, UsageError

MODELS = """
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(3, 2)
    def forward(self, x, scale=None):
        return self.fc(x) if scale is None else self.fc(x) * scale
def net(): return Net()
def with_inputs(): return Net(), {"x": torch.ones(1, 3)}
def with_tuple(): return Net(), (torch.ones(1, 3), 2.0)
def with_tensor(): return Net(), torch.ones(1, 3)
def number(): return 3
setting = 5
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Modules lie in the current folder; what was imported from it is forgotten afterwards."""
    lazy = "raise ModuleNotFoundError(\"Could not import module 'Net'\")"
    needs = "import not_installed_anywhere"
    for name, text in {"models": MODELS, "broken": "1 / 0", "needs": needs, "lazy": lazy}.items():
        (tmp_path / f"{name}_for_test.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    for name in [name for name in sys.modules if name.endswith("_for_test")]:
        del sys.modules[name]


def saved(folder: Path, **arrays: Any) -> Path:
    np.savez(folder / "x.npz", **arrays)
    return folder / "x.npz"


def test_arrays_are_arguments_by_name_or_by_position(folder: Path) -> None:
    x = np.ones((1, 3), np.float32)
    call = build("models_for_test:net", saved(folder, x=x, scale=np.float32(2)))
    assert call.args == ()
    assert set(call.kwargs) == {"x", "scale"}
    assert not call.model.training
    call = build("models_for_test:net", saved(folder, arg1=np.float32(2), arg0=x))
    assert [tuple(argument.shape) for argument in call.args] == [(1, 3), ()]


@pytest.mark.parametrize("name", ["with_inputs", "with_tuple", "with_tensor"])
def test_a_function_may_bring_the_inputs(name: str) -> None:
    call = build(f"models_for_test:{name}", None)
    assert call.model(*call.args, **call.kwargs).shape == (1, 2)


def test_inputs_in_a_file_take_precedence(folder: Path) -> None:
    call = build("models_for_test:with_inputs", saved(folder, x=np.zeros((4, 3), np.float32)))
    assert call.kwargs["x"].shape == (4, 3)


def test_the_seed_comes_before_the_model(folder: Path) -> None:
    weights = [build("models_for_test:with_inputs", None, seed=seed).model.fc.weight for seed in (1, 1, 2)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_the_mode_of_the_model_may_be_left() -> None:
    assert build("models_for_test:with_inputs", None, train=True).model.training


@pytest.mark.parametrize(
    ("factory", "sentence"),
    [
        ("models_for_test", r"names no function; write module:function"),
        (":net", "names no function"),
        ("no_such_module:net", "there is no module no_such_module in"),
        ("needs_for_test:net", "needs not_installed_anywhere, which is not there"),
        ("lazy_for_test:net", r"cannot be imported \(Could not import module 'Net'"),
        ("broken_for_test:net", r"cannot be imported \(ZeroDivisionError"),
        ("models_for_test:nett", r"has no nett \(did you mean net"),
        ("models_for_test:setting", "is int; it should be a function"),
        ("models_for_test:number", "gave int; it should give a torch.nn.Module"),
        ("models_for_test:net", "nothing to call the model with; give --input"),
    ],
)
def test_a_factory_that_is_none_is_told_apart(factory: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        build(factory, None)


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        ({"y": 1.0, "x": 1.0}, "forward takes no y; it takes x, scale"),
        ({"scal": 1.0, "x": 1.0}, r"takes no scal \(did you mean scale\?\)"),
        ({"scale": 1.0}, "missing a required argument: 'x'"),
        ({"arg0": 1.0, "x": 1.0}, "multiple values for argument 'x'"),
        ({"arg0": 1.0, "arg1": 1.0, "arg2": 1.0}, "too many positional arguments"),
    ],
)
def test_wrong_inputs_are_named(arrays: dict[str, float], sentence: str, folder: Path) -> None:
    with pytest.raises(UsageError, match=sentence):
        build("models_for_test:net", saved(folder, **arrays))


def test_files_that_are_no_inputs_say_why(folder: Path) -> None:
    with pytest.raises(ReadError, match=r"x\.npz: has arg0, arg2; positions start at arg0 without gaps"):
        build("models_for_test:net", saved(folder, arg0=1, arg2=1))
    np.save(folder / "one.npy", np.ones(3))
    with pytest.raises(ReadError, match=r"one\.npy: holds one array without a name"):
        build("models_for_test:net", folder / "one.npy")
    (folder / "bad.npz").write_text("no archive")
    with pytest.raises(ReadError, match=r"bad\.npz: cannot be read as \.npz"):
        build("models_for_test:net", folder / "bad.npz")
    with pytest.raises(ReadError, match=r"gone\.npz: cannot be read"):
        build("models_for_test:net", folder / "gone.npz")
