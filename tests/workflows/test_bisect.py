"""`firstdiff bisect`: the first divergence from runs that record a few tensors each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from firstdiff.trace import Record
from firstdiff.workflows.checkpoints import checkpoints_of
from tests.cli.conftest import Done
from tests.workflows.scratch import changed, write_port

Run = Callable[..., Done]

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
    assert runs <= 6  # log2(64)
    assert "Cause: offset.constant" in done.out
    assert f" of {63 - wrong} that depend on it differ" in done.out
    assert "does not persist" not in done.out


def test_a_divergence_that_heals_is_said(project: Path, firstdiff: Run) -> None:
    deep(project, 10, healed=50)
    done = firstdiff("bisect")
    assert done.code == 1
    assert "First divergence: layers.10.out[0]" in done.out
    assert "layers.10.out[0]" in done.out
    assert "does not persist" in done.err
    assert "there may be an earlier one" in done.out


def test_runs_that_agree_have_no_divergence(project: Path, firstdiff: Run) -> None:
    deep(project, -1)
    done = firstdiff("bisect")
    assert (done.code, "no checkpoint differs" in done.out) == (0, True)


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (b"no.such\nother\n", "record none of the 2 tensors, such as no.such"),
        (b"\xff\xfe\x00", "names.txt: cannot be read ("),
    ],
)
def test_names_that_cannot_be_searched_are_said(project: Path, firstdiff: Run, names: bytes, says: str) -> None:
    deep(project, 20)
    (project / "names.txt").write_bytes(names)
    done = firstdiff("bisect", "--names", "names.txt")
    assert (done.code, says in done.err) == (2, True), done.err


def test_tensors_that_the_port_lacks_are_passed_over(project: Path, firstdiff: Run, tmp_path: Path) -> None:
    deep(project, 20)
    port = (project / "port.py").read_text(encoding="utf-8")
    write_port(project, changed("    tap(", "    if layer % 2 == 0 and layer < 60: tap(", port))
    names = tmp_path / "names.txt"
    names.write_text("\n".join(f"layers.{layer}.out[0]" for layer in range(64)), encoding="utf-8")
    done = firstdiff("bisect", "--names", names)
    assert (done.code, "First divergence: layers.20.out[0]" in done.out) == (1, True), done.out


BRANCHED = """
import sys
from recorder import tap

x = [0.5 + k for k in range(8)]
tap("text.ids", x)
for layer in range(12):
    x = [value * 1.01 + 0.01 for value in x]
    if layer == WRONG:
        x = [value + 0.5 for value in x]
    tap(f"gpt.{layer}", x, **{"from": [layer]})
noise = tap("flow.noise", [0.1 * k for k in range(8)])
for step in range(3):
    noise = [a + 0.1 * b for a, b in zip(noise, x)]
    tap("flow.mix", noise, call=step, **{"from": [13 + 2 * step, 12]})
    if LOOP:
        noise = [value - 0.3 for value in noise]
    tap("flow.step", noise, call=step, **{"from": [14 + 2 * step]})
"""


def branched(folder: Path, wrong: int = -1, loop: int = 0) -> None:
    (folder / "reference.py").write_text(BRANCHED.replace("WRONG", "-1").replace("LOOP", "0"), encoding="utf-8")
    write_port(folder, BRANCHED.replace("WRONG", str(wrong)).replace("LOOP", str(loop)))


def test_a_tensor_that_depends_on_nothing_clears_nothing(project: Path, firstdiff: Run) -> None:
    branched(project, wrong=4)
    done = firstdiff("bisect")
    assert (done.code, done.err) == (1, "")
    assert "First divergence: gpt.4 (" in done.out
    assert "does not persist" not in done.out


def test_an_error_in_a_loop_is_named_where_it_is_first_made(project: Path, firstdiff: Run) -> None:
    """The second call of flow.mix differs, but flow.step of the round before comes first."""
    branched(project, loop=1)
    done = firstdiff("bisect")
    assert (done.code, done.err) == (1, "")
    assert "First divergence: flow.step (" in done.out
    assert "  flow.mix before it matches" in done.out


def test_a_tensor_in_the_middle_that_recovers_does_not_mislead(project: Path, firstdiff: Run) -> None:
    """Two errors, the first of which is undone before the second: the check of earlier tensors finds it."""
    deep(project, 8, healed=32)
    text = (project / "port.py").read_text(encoding="utf-8")
    write_port(project, changed("    tap(", "    if layer == 40: x = [value + 0.25 for value in x]\n    tap(", text))
    done = firstdiff("bisect")
    assert done.code == 1
    assert "First divergence: layers.8.out[0] (" in done.out
    assert "does not persist" in done.err


def test_a_port_that_is_not_finished_takes_few_runs(project: Path, firstdiff: Run) -> None:
    deep(project, -1)
    assert firstdiff("golden").code == 0
    text = (project / "port.py").read_text(encoding="utf-8")
    write_port(project, changed("    tap(", "    if layer < 9: tap(", text))
    done = firstdiff("bisect")
    assert done.code == 0, done.err
    runs = int(done.out.rpartition("(")[2].split()[0])
    assert runs <= 6


def test_commands_that_are_not_deterministic_are_said(project: Path, firstdiff: Run) -> None:
    deep(project, -1)
    text = (project / "port.py").read_text(encoding="utf-8")
    first_run = "FIRST = not __import__('os').path.exists('seen')\nopen('seen', 'w').close()\n"
    write_port(project, first_run + changed("layer == -1:\n        x = [value +", "FIRST:\n        x = [value +", text))
    done = firstdiff("bisect")
    assert done.code == 2
    assert "must be deterministic" in done.err


def test_dependence_is_what_the_recorder_says() -> None:
    records = [
        Record(name="tokens", seq=0),
        Record(name="block", role="input", seq=1, sources=(0,)),
        Record(name="block.norm.weight", role="param", parent="block.norm"),
        Record(name="block.norm", role="input", seq=2, parent="block", sources=(0,)),
        Record(name="block.norm", role="output", seq=3, parent="block"),
        Record(name="block", role="output", seq=4),
        Record(name="noise", role="tap", seq=5),
    ]
    tokens, norm, block, noise = checkpoints_of(records)
    assert (tokens.depends, norm.depends, block.depends, noise.depends) == (0, 0b1, 0b11, 0)
    assert norm.feeds == ("block.norm", "tokens", "block.norm.weight")
