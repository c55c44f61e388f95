from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from firstdiff.workflows.plan import Task
from firstdiff.workflows.plan_file import updated
from tests.cli.conftest import Done
from tests.workflows.scratch import changed, scratch_project, write_port

Run = Callable[..., Done]
WRONG = changed("x / 1.5", "x / 1.5 + 0.25")


def test_a_port_is_planned_fixed_and_finished(project: Path, firstdiff: Run) -> None:
    assert firstdiff("plan").code == 0
    assert "- [ ] reference data for short" in (project / "PLAN.md").read_text(encoding="utf-8")
    task = json.loads(firstdiff("plan", "--next", "--format", "json").out)["task"]
    assert task["check"] == "firstdiff golden --input short"

    assert firstdiff("golden").code == 0
    write_port(project, WRONG)
    assert firstdiff("validate").code == 1
    with (project / "PLAN.md").open("a", encoding="utf-8") as file:
        file.write("\nMy own line.\n- [ ] call the customer\n")
    firstdiff("plan")
    text = (project / "PLAN.md").read_text(encoding="utf-8")
    assert "- [x] reference data for short" in text
    assert "- [x] embedding: 1/1 checked" in text
    assert "- [ ] encoder: encoder.norm on short: VALUE MISMATCH: max 0.25, mean 0.25" in text
    assert "  - cause: `offset.constant`" in text
    assert "\nMy own line.\n- [ ] call the customer\n" in text
    task = json.loads(firstdiff("plan", "--next", "--format", "json").out)["task"]
    assert (task["component"], task["tensor"], task["cause"]) == ("encoder", "encoder.norm", "offset.constant")
    assert task["check"] == "firstdiff validate --component encoder"
    assert "evidence: " in firstdiff("plan", "--next").out

    write_port(project, WRONG + "\n# tried something\n")
    assert "run firstdiff validate" in firstdiff("plan", "--next").err
    done = firstdiff("validate")
    assert "FIXES.md: " in done.out
    fixes = (project / "FIXES.md").read_text(encoding="utf-8")
    assert "a change had no effect on short" in fixes
    assert "encoder.norm is as before: max 0.25, mean 0.25; cause `offset.constant`" in fixes

    write_port(project, changed("x / 1.5", "x / 1.5 + 0.0"))
    assert firstdiff("validate").code == 0
    fixes = (project / "FIXES.md").read_text(encoding="utf-8")
    assert "encoder.norm passes on short" in fixes
    assert "- encoder.norm: max 0.25, mean 0.25 before, max 0, mean 0 now; cause `offset.constant`" in fixes
    firstdiff("plan")
    text = (project / "PLAN.md").read_text(encoding="utf-8")
    assert "- [ ] encoder" not in text
    assert "fix:" not in text
    assert "My own line." in text
    assert firstdiff("plan", "--next").out == "everything passes; there is no next task\n"


def test_a_stage_counts_its_tensors_on_all_input_sets(project: Path, firstdiff: Run) -> None:
    scratch_project(project, more='[inputs.other]\nids = "ids.txt"')
    assert [firstdiff("golden").code, firstdiff("validate").code, firstdiff("plan").code] == [0, 0, 0]
    assert "- [x] encoder: 4/4 checked <!--" in (project / "PLAN.md").read_text(encoding="utf-8")


def test_the_check_of_a_task_ticks_it(golden: Path, project: Path, firstdiff: Run) -> None:
    def task() -> dict[str, str | None]:
        return json.loads(firstdiff("plan", "--next", "--format", "json").out)["task"]  # type: ignore[no-any-return]

    write_port(project, changed("2.0 * x", "3.0 * x", WRONG))
    assert firstdiff("validate").code == 1
    assert (task()["component"], task()["cause"]) == ("encoder", "offset.constant")
    write_port(project, changed("2.0 * x", "3.0 * x").replace("x / 1.5", "x / 1.5 * 1.25"))
    assert firstdiff("validate", "--component", "encoder").code == 1
    assert (task()["component"], task()["cause"]) == ("encoder", "scale.constant")
    assert "1.25 times" in (task()["evidence"] or "")
    write_port(project, changed("2.0 * x", "3.0 * x"))
    assert firstdiff("validate", "--component", "encoder").code == 0
    assert task()["component"] == "head"  # as it was when everything was validated, which a warning says
    assert "run firstdiff validate" in firstdiff("plan", "--next").err
    firstdiff("plan")
    assert "- [x] encoder: 2/2 checked" in (project / "PLAN.md").read_text(encoding="utf-8")
    assert firstdiff("validate").code == 1
    assert (task()["tensor"], task()["cause"]) == ("head.logits", "scale.constant")


def test_until_a_stage_passes(golden: Path, project: Path, firstdiff: Run) -> None:
    write_port(project, WRONG)
    done = firstdiff("plan", "--until", "embedding", "--completion-promise", "DONE")
    assert (done.code, done.out) == (0, "DONE\n")
    for iteration in (1, 2):
        done = firstdiff("plan", "--until", "head", "--completion-promise", "DONE", "--max-iterations", "2")
        assert done.code == 1
        assert "Next: encoder" in done.out
        assert f"(iteration {iteration} of 2)" in done.out
        assert "DONE" not in done.out
    done = firstdiff("plan", "--until", "head", "--max-iterations", "2")
    assert (done.code, "head does not pass after 2 iterations" in done.err) == (2, True)
    write_port(project, "raise SystemExit('no model')")
    done = firstdiff("plan", "--until", "embedding")
    assert (done.code, "no model" in done.err) == (1, True), done.out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--completion-promise", "X"), "go with --until COMPONENT"),
        (("--until", "encodr"), "has no component 'encodr' (did you mean encoder?)"),
    ],
)
def test_bad_usage_is_said(project: Path, firstdiff: Run, words: tuple[str, ...], says: str) -> None:
    done = firstdiff("plan", *words)
    assert (done.code, says in done.err) == (2, True)


def test_lines_stay_where_the_user_moved_them_and_marks_cannot_be_forged() -> None:
    tasks = [Task(id="a", title="first", done=False, text="x --> y"), Task(id="b", title="second", done=True)]
    text = updated("# Plan\n", tasks)
    assert "x -- > y" in text
    lines = text.splitlines()
    moved = "\n".join([lines[0], "note", lines[-1], "between", *lines[2:-1]]) + "\n"
    again = updated(moved, [tasks[0], Task(id="b", title="second", done=False)])
    assert again.splitlines()[1:4] == [
        "note",
        "- [ ] second <!-- fd:b -->",
        "  - check: `firstdiff validate` <!-- fd:b#check -->",
    ]
    assert updated(again, tasks).count("fd:a -->") == 1


def test_a_component_that_passes_on_golden_inputs_alone_is_no_fix(golden: Path, project: Path, firstdiff: Run) -> None:
    asks = "import firstdiff as fd\nembedded = [float(x) for x in fd.load_golden('embed.out', embedded).ravel()]\n"
    write_port(project, changed("normed = ", asks + "normed = ", changed("3.7 * n", "3.8 * n")))
    text = (project / "firstdiff.toml").read_text(encoding="utf-8")
    (project / "firstdiff.toml").write_text(text.replace('"-S", "port.py"', '"port.py"'), encoding="utf-8")
    write_port(project, changed("3.7 * n", "3.8 * n"))
    firstdiff("validate")
    firstdiff("plan")
    write_port(project, changed("normed = ", asks + "normed = ", changed("3.7 * n", "3.8 * n")))
    assert "head       PASS" in firstdiff("validate", "--isolate").out
    assert not (project / "FIXES.md").exists()


def test_the_plan_names_files_from_its_own_folder(project: Path, firstdiff: Run) -> None:
    firstdiff("plan")
    text = (project / "PLAN.md").read_text(encoding="utf-8")
    assert "reference data for short: golden/short: does not exist; `firstdiff golden` makes it" in text
