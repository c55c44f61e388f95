from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from firstdiff.workflows.project import load_project
from firstdiff.workflows.random_inputs import draw_inputs, random_inputs, shrink
from tests.cli.conftest import Done
from tests.workflows.scratch import changed, gone, scratch_project, write_port

Run = Callable[..., Done]
FIRSTDIFF = [sys.executable, "-m", "firstdiff"]
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


def test_many_generated_inputs_that_pass_are_one_line(random_project: Path, firstdiff: Run) -> None:
    done = firstdiff("run", "--random", "21", "--jobs", "2")
    head, short, *rest = done.out.splitlines()
    assert (head.split()[0], short.split()[:2]) == ("input", ["short", "PASS"])
    assert rest == ["21 generated inputs pass", "PASS: 0 of 22 inputs differ"]


def test_many_failing_inputs_are_cut_short(
    random_project: Path, firstdiff: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("firstdiff.cli.run._MOST_FAILING", 6)
    write_port(random_project, changed("x / 1.5", "x / 1.6"))
    done = firstdiff("run", "--random", "8", "--jobs", "2")
    lines = done.out.splitlines()
    assert [line.split()[1] for line in lines[1:7]] == ["FAIL"] * 6
    assert lines[7:] == [
        "… and 3 more that fail (--format json lists all)",
        "9 inputs are kept, such as .firstdiff/failing/short",
        "to run random-0 again, add this to firstdiff.toml:",
        "[inputs.random-0]",
        'ids = ".firstdiff/failing/random-0/ids.txt"',
        "FAIL: 9 of 9 inputs differ",
    ]


def test_a_project_of_random_inputs_alone_says_so(random_project: Path, firstdiff: Run) -> None:
    text = (random_project / "firstdiff.toml").read_text(encoding="utf-8")
    (random_project / "firstdiff.toml").write_text(
        text.replace('[inputs.short]\nids = "ids.txt"\n', ""), encoding="utf-8"
    )
    assert firstdiff("run", "--random", "2").code == 0
    for words in (("run",), ("golden",), ("validate",)):
        done = firstdiff(*words)
        assert (done.code, "has no [inputs], but a command uses {input.ids}" in done.err) == (2, True), done.err


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


def test_ctrl_c_ends_every_job(random_project: Path) -> None:
    sleeps = "import os, time\nopen(f'{os.getpid()}.pid', 'w').close()\ntime.sleep(60)\n"
    write_port(random_project, sleeps)
    assert subprocess.run([*FIRSTDIFF, "golden"], cwd=random_project, check=False).returncode == 0
    before = {path: path.read_bytes() for path in random_project.glob("golden/short/*")}
    command = [*FIRSTDIFF, "run", "--random", "20", "--jobs", "3"]
    with subprocess.Popen(command, cwd=random_project, stderr=subprocess.PIPE, text=True) as process:
        while len(pids := list(random_project.glob("*.pid"))) < 3 and process.poll() is None:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert (process.returncode, "Traceback" in said) == (130, False), said
    assert all(gone(int(path.stem)) for path in pids)
    assert len(list(random_project.glob("*.pid"))) <= 3, "nothing was started after it"
    assert {path: path.read_bytes() for path in random_project.glob("golden/short/*")} == before
    assert [path.name for path in (random_project / "golden").iterdir()] == ["short"]
    assert not list((random_project / ".firstdiff").glob("run/*"))
    assert not (random_project / ".firstdiff" / "failing").exists()


def test_ctrl_c_keeps_what_was_found(random_project: Path) -> None:
    write_port(random_project, FAILS_ON_SEVEN + "\nimport time\ntime.sleep(60 if len(ids) == 3 else 0)\n")
    inputs = random_inputs(load_project(random_project / "firstdiff.toml"))
    drawn = [draw_inputs(inputs, 2, number)["ids"] for number in range(6)]
    hangs = next(number for number, ids in enumerate(drawn) if len(ids) == 3)
    failing = [number for number in range(hangs) if 7 in drawn[number][:3]]
    assert failing, "the seed must draw one that fails before one that hangs"
    command = [*FIRSTDIFF, "run", "--random", "6", "--seed", "2"]
    with subprocess.Popen(
        command, cwd=random_project, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        while not (random_project / ".firstdiff" / "run" / f"random-{hangs}" / "candidate").exists():
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, said = process.communicate(timeout=60)
    assert (process.returncode, f"{hangs + 1} of 7 inputs were run" in said) == (130, True), said
    kept = f".firstdiff/failing/random-{failing[0]}"
    assert f"random-{failing[0]} is kept in {kept}" in out
    assert f'[inputs.random-{failing[0]}]\nids = "{kept}/ids.txt"' in out


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
        ("[random.ids]\nshape = [3]\nhih = 3\n", "unknown entry hih (did you mean high"),
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
