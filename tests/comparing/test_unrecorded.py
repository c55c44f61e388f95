"""What one side could not record: weights that it left out, and the inside of compiled and exported models."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import firstdiff as fd
from firstdiff.reports.outline import other_rows
from firstdiff.reports.sentences import summary

torch = pytest.importorskip("torch")
X = torch.linspace(-2, 2, 48).reshape(6, 8)


def model(activation: Any = None) -> Any:
    torch.manual_seed(0)
    inner = torch.nn.Sequential(torch.nn.Linear(8, 16), activation or torch.nn.GELU(), torch.nn.Linear(16, 8))
    return torch.nn.Sequential(torch.nn.LayerNorm(8), inner).eval().requires_grad_(False)


def compiled(whole: Any) -> Any:
    return torch.compile(whole, backend="eager")


def compiled_inside(whole: Any) -> Any:
    whole[1].compile(backend="eager")
    return whole


def exported(whole: Any) -> Any:
    return torch.export.export(whole, (X,)).module()


def recorded(path: Path, whole: Any, params: Any = "auto") -> Path:
    with torch.no_grad(), fd.capture(whole, path, params=params):
        whole(X)
    return path


@pytest.fixture(autouse=True)
def forget_what_was_compiled() -> Any:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.filterwarnings("ignore:.*what goes in and what comes out")
@pytest.mark.parametrize("closed", [compiled, compiled_inside, exported])
def test_a_compiled_or_exported_model_is_compared_as_a_whole(tmp_path: Path, closed: Callable[[Any], Any]) -> None:
    plain, whole = recorded(tmp_path / "plain", model()), recorded(tmp_path / "closed", closed(model()))
    for sides in ((plain, whole), (whole, plain)):
        comparison = fd.compare(*sides)
        assert comparison.verdict == "match"
        assert comparison.summary.missing == comparison.summary.extra == 0
        apart = {pair.key for pair in comparison.pairs if pair.status == "rewritten"}
        assert {"1.0", "1.1", "1.2"} <= apart
        assert ("0" in apart) == (closed is not compiled_inside)
        assert any("it was compared as a whole" in note.text for note in comparison.notes)
        assert fd.compare(*sides, strict_functions=True).verdict == "mismatch"


@pytest.mark.filterwarnings("ignore:.*what goes in and what comes out")
@pytest.mark.parametrize("closed", [compiled, compiled_inside, exported])
def test_nothing_inside_is_excused_where_the_whole_differs(tmp_path: Path, closed: Callable[[Any], Any]) -> None:
    plain = recorded(tmp_path / "plain", model())
    comparison = fd.compare(plain, recorded(tmp_path / "tanh", closed(model(torch.nn.GELU(approximate="tanh")))))
    assert comparison.verdict == "mismatch"
    assert comparison.first_divergence is not None
    assert comparison.first_divergence.key == ("1" if closed is compiled_inside else "root")
    assert comparison.summary.missing > 4
    assert comparison.summary.rewritten == 0


def test_a_run_of_which_little_was_recorded_is_no_compiled_one(tmp_path: Path) -> None:
    plain = fd.open_trace(recorded(tmp_path / "plain", model()))
    outside = tuple(tensor for tensor in plain if tensor.record.name == "root" or tensor.key.role == "param")
    assert fd.compare(plain, replace(plain, tensors=outside)).verdict == "mismatch"


def test_weights_that_one_side_did_not_record_do_not_count(tmp_path: Path) -> None:
    whole, few = recorded(tmp_path / "all", model()), recorded(tmp_path / "few", model(), "none")
    for sides in ((few, whole), (whole, few)):
        comparison = fd.compare(*sides, strict_functions=True)
        assert comparison.verdict == "match"
        assert comparison.summary.rewritten == 6
    assert "6 weights not compared" in summary(comparison)
    advice = "which the candidate did not record; capture with params='all' to compare them"
    assert any(advice in line for line in other_rows(comparison))
    trace = fd.open_trace(few)
    silent = replace(trace, header={**trace.header, "left_out": ["0.weight"]})
    assert fd.compare(whole, silent).summary.missing == 5
