from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from firstdiff.workflows.project import load_project
from firstdiff.workflows.random_inputs import draw_inputs, random_inputs, shrink
from tests.cli.conftest import Done
from tests.workflows.scratch import changed, scratch_project, write_port

Run = Callable[..., Done]
RANDOM = """
[random.ids]
shape = ["1..12"]
dtype = "int64"
low = 0
high = 10
format = "txt"
"""
FAILS_ON_SEVEN = changed("x / 1.5", "x / (1.5 if 7 not in ids[:3] else 1.6)")


@pytest.fixture
def random_project(project: Path) -> Path:
    return scratch_project(project, more=RANDOM)


def test_both_commands_agree_on_named_and_random_inputs(random_project: Path, firstdiff: Run) -> None:
    done = firstdiff("run", "--random", "3")
    assert done.code == 0, done.out + done.err
    assert done.out.splitlines()[-1] == "PASS: 0 of 4 inputs differ"
    assert not (random_project / ".firstdiff" / "failing").exists()


def test_a_failing_input_is_named_kept_and_made_smaller(random_project: Path, firstdiff: Run) -> None:
    write_port(random_project, FAILS_ON_SEVEN)
    inputs = random_inputs(load_project(random_project / "firstdiff.toml"))
    drawn = [7 in draw_inputs(inputs, 2, number)["ids"][:3] for number in range(6)]
    assert 0 < sum(drawn) < 6
    done = firstdiff("run", "--random", "6", "--seed", "2", "--shrink", "--jobs", "2", "--format", "json")
    assert done.code == 1
    results = json.loads(done.out)["results"]
    assert [result["state"] for result in results] == ["pass", *("fail" if odd else "pass" for odd in drawn)]
    failing = next(result for result in results if result["state"] == "fail")
    assert (failing["first"], failing["component"]) == ("encoder.norm", "encoder")
    kept = random_project / failing["kept"]
    assert (kept / "ids.txt").read_text(encoding="utf-8") == "7"
    assert (kept / "candidate" / "tensors.jsonl").exists()
    assert "ids [1]" in failing["shrunk"]


def test_errors_of_either_side_are_told_apart(random_project: Path, firstdiff: Run) -> None:
    write_port(random_project, changed('tap("tokens"', "assert len(ids) != 5, 'five'\ntap('tokens'"))
    done = firstdiff("run")
    assert done.code == 1
    assert "short  ERROR" in done.out
    assert "AssertionError: five" in done.out
    (random_project / "reference.py").write_text("raise SystemExit('not supported')", encoding="utf-8")
    done = firstdiff("run")
    assert (done.code, "REJECTED" in done.out) == (1, True)
    assert done.out.splitlines()[-1] == "FAIL: 0 of 0 inputs differ, 1 rejected by the reference"


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ("", "has no [random]"),
        ("[random.ids]\n", "needs a shape"),
        ('[random.ids]\nshape = ["4..1"]\n', "shape has '4..1'"),
        ('[random.ids]\nshape = [3]\ndtype = "float99"\n', "dtype is 'float99'"),
        ("[random.ids]\nshape = [3]\nhih = 3\n", "hih is no entry of it (did you mean high"),
        ('[random.ids]\nshape = [3]\ndtype = "int8"\nlow = 5\nhigh = 5\n', "low is 5, which is not below high, 5"),
    ],
)
def test_a_wrong_table_is_named(project: Path, firstdiff: Run, table: str, says: str) -> None:
    scratch_project(project, more=table)
    done = firstdiff("run", "--random", "1")
    assert (done.code, says in done.err) == (2, True), done.err


def test_shrinking_finds_the_one_value_that_matters(random_project: Path) -> None:
    inputs = random_inputs(load_project(random_project / "firstdiff.toml"))
    found, _ = shrink(inputs, {"ids": np.array([3, 1, 9, 9, 2, 8])}, lambda arrays: 8 in arrays["ids"], 60)
    assert found["ids"].tolist() == [8]


DEEP = """
import sys
from recorder import tap

n = len(open(sys.argv[1]).read().split())
x = [0.5 + k for k in range(8)]
for layer in range(64):
    x = [value * 1.01 + 0.01 * layer for value in x]
    if layer == WRONG:
        x = [value + 0.5 for value in x]
    if layer == HEALED:
        x = [value - 0.5 * 1.01 ** (HEALED - WRONG) for value in x]
    tap(f"layers.{layer}.out[0]", x)
"""


def deep(folder: Path, wrong: int, healed: int = -1) -> None:
    healthy = DEEP.replace("WRONG", "-1").replace("HEALED", "-1")
    (folder / "reference.py").write_text(healthy, encoding="utf-8")
    write_port(folder, DEEP.replace("WRONG", str(wrong)).replace("HEALED", str(healed)))


@pytest.mark.parametrize("wrong", [0, 37])
def test_bisecting_names_the_first_divergence_in_few_runs(project: Path, firstdiff: Run, wrong: int) -> None:
    deep(project, wrong)
    done = firstdiff("bisect")
    assert done.code == 1
    assert f"First divergence: layers.{wrong}.out[0] (" in done.out
    runs = int(done.out.split(f"layers.{wrong}.out[0] (")[1].split()[0])
    assert runs <= 9  # log2(64), the last tensors, earlier ones, and the check
    assert "Cause: offset.constant" in done.out
    assert "checked: sampled tensors before it match, those after it differ" in done.out


def test_a_divergence_that_heals_is_said(project: Path, firstdiff: Run) -> None:
    deep(project, 10, healed=50)
    done = firstdiff("bisect")
    assert done.code == 1
    assert "layers.10.out[0]" in done.out
    assert "the last tensor, layers.63.out[0], matches" in done.err
    assert "does not persist" in done.out


def test_runs_that_agree_have_no_divergence(project: Path, firstdiff: Run) -> None:
    deep(project, -1)
    done = firstdiff("bisect")
    assert (done.code, "no checkpoint differs" in done.out) == (0, True)


def test_tensors_that_the_port_lacks_are_passed_over(project: Path, firstdiff: Run, tmp_path: Path) -> None:
    deep(project, 20)
    port = (project / "port.py").read_text(encoding="utf-8")
    write_port(project, changed("    tap(", "    if layer % 2 == 0 and layer < 60: tap(", port))
    names = tmp_path / "names.txt"
    names.write_text("\n".join(f"layers.{layer}.out[0]" for layer in range(64)), encoding="utf-8")
    done = firstdiff("bisect", "--names", names)
    assert (done.code, "First divergence: layers.20.out[0]" in done.out) == (1, True), done.out
