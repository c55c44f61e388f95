from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from firstdiff.workflows import demo
from tests.cli.conftest import Done
from tests.cli.test_serve import Start, start  # noqa: F401 - a fixture

Run = Callable[..., Done]


def test_the_demo_opens_the_page_on_the_planted_bug(start: Start) -> None:  # noqa: F811
    served = start("demo", "--port", 0)
    comparison = served.path.rpartition("/")[2]
    for _ in range(600):
        entry = served.get(f"/comparisons/{comparison}")["entry"]
        if entry["state"] == "done":
            break
        time.sleep(0.1)
    assert entry["first"].startswith("First divergence: layers.2.ln_1")
    assert entry["name"] == demo.find_demo("gpt").title
    head = served.get(f"/comparisons/{comparison}")["comparison"]
    assert head["diagnosis"][0]["cause"] == "norm.eps"


def test_as_text_it_names_bug_and_cause(firstdiff: Run) -> None:
    done = firstdiff("demo", "--text")
    assert done.code == 0
    assert "First divergence: layers.2.ln_1, LayerNorm" in done.out
    assert "Cause: norm.eps" in done.out


def test_the_demo_of_the_sampler_names_bug_and_cause(firstdiff: Run) -> None:
    done = firstdiff("demo", "diffusion", "--text")
    assert done.code == 0
    assert "First divergence: staggered_score" in done.out
    assert "Cause: score.stagger" in done.out


def test_a_demo_that_is_not_there(firstdiff: Run) -> None:
    done = firstdiff("demo", "bert", "--text")
    assert (done.code, "there are gpt, diffusion" in done.err) == (2, True)


def test_the_traces_can_be_unpacked(firstdiff: Run, tmp_path: Path) -> None:
    done = firstdiff("demo", "-o", tmp_path / "demo")
    assert f"firstdiff compare {tmp_path / 'demo' / 'reference.trace'}" in done.out.replace("\n", " ")
    for side in ("reference", "candidate"):
        assert (tmp_path / "demo" / f"{side}.trace" / "tensors.jsonl").is_file()
    (tmp_path / "file").write_text("in the way")
    assert "cannot write the demo" in firstdiff("demo", "-o", tmp_path / "file").err


def test_an_installation_without_the_traces_says_so(
    firstdiff: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(demo, "_FOLDER", tmp_path)
    done = firstdiff("demo", "--text")
    assert (done.code, "install firstdiff again" in done.err) == (2, True)
