from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

Run = Callable[..., tuple[int, str, str]]

RULES = """
[[rules]]
name = "logits"
check = "finite"

[[rules]]
name = "probs"
check = "sum"
"""


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    folder.mkdir()
    np.save(folder / "logits.npy", np.array([[1.0, np.nan], [2.0, 3.0]]))
    np.save(folder / "probs.npy", np.array([0.5, 0.5]))
    (tmp_path / "rules.toml").write_text(RULES)
    return folder


def test_a_broken_rule_is_told_with_key_index_and_value(firstdiff: Run, trace: Path, tmp_path: Path) -> None:
    code, out, err = firstdiff("check", trace, "--rules", tmp_path / "rules.toml")
    assert (code, err) == (1, "")
    assert out.splitlines() == [
        "FAILED  logits: finite (1 tensor)",
        "          logits: nan at [0, 1] is not finite",
        "ok      probs: sum (1 tensor)",
        f"1 of 2 rules failed in {trace}",
    ]


def test_a_trace_that_keeps_all_rules_exits_with_zero(firstdiff: Run, trace: Path, tmp_path: Path) -> None:
    np.save(trace / "logits.npy", np.ones(3))
    code, out, _ = firstdiff("check", trace, "--rules", tmp_path / "rules.toml")
    assert (code, out.splitlines()[-1]) == (0, f"all 2 rules hold in {trace}")


def test_the_json_is_valid_and_says_the_same(firstdiff: Run, trace: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    code, out, _ = firstdiff("check", trace, "--rules", tmp_path / "rules.toml", "--format", "json", "-o", report)
    found = json.loads(report.read_text())
    assert (code, out, found["schema"], found["verdict"]) == (1, "", "firstdiff/check/1", "fail")
    (failure,) = found["rules"][0]["failures"]
    assert (failure["key"], failure["index"], failure["value"], failure["count"]) == ("logits", [0, 1], "nan", 1)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[[rules]]\nname = "logit"\ncheck = "finite"', "'logit' matches no tensor"),
        ('[[rules]]\nname = "logits"\ncheck = "finte"', "there is no check 'finte' (did you mean finite?)"),
    ],
)
def test_a_wrong_rule_is_one_sentence(firstdiff: Run, trace: Path, tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "rules.toml").write_text(text)
    code, out, err = firstdiff("check", trace, "--rules", tmp_path / "rules.toml")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert says in err


def test_several_traces_are_references_only(firstdiff: Run, trace: Path, tmp_path: Path) -> None:
    code, _, err = firstdiff("check", trace, trace, "--rules", tmp_path / "rules.toml")
    assert (code, "check takes one trace, not 2" in err) == (2, True)
    code, _, err = firstdiff("check", trace, "--rules", tmp_path / "rules.toml", "--measure", tmp_path / "b.toml")
    assert (code, "there is nothing to measure" in err) == (2, True)


def test_long_lists_of_failures_are_cut_short(firstdiff: Run, tmp_path: Path) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(9):
        np.save(folder / f"x{number}.npy", np.array([np.inf]))
    (tmp_path / "rules.toml").write_text('[[rules]]\nname = "*"\ncheck = "finite"')
    _, out, _ = firstdiff("check", folder, "--rules", tmp_path / "rules.toml")
    assert "and 4 more tensors; --all shows them" in out
    _, out, _ = firstdiff("check", folder, "--rules", tmp_path / "rules.toml", "--all")
    assert out.count("inf at [0] is not finite") == 9
