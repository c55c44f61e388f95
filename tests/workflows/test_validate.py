"""The golden workflow end to end, through the command line and with real programs."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import Done
from tests.workflows.scratch import COMPONENTS, PROGRAM, changed, gone, scratch_project, write_port

Run = Callable[..., Done]


def test_a_faithful_port_passes(golden: Path, firstdiff: Run) -> None:
    done = firstdiff("validate")
    assert (done.code, done.out.splitlines()[0]) == (
        0,
        "PASS short: 4 of 4 components pass, 5 of 5 golden tensors checked",
    )
    assert "candidate | done with 5" in done.err
    header = json.loads((golden / "trace.json").read_text(encoding="utf-8"))
    assert set(header["golden"]["code"]) == {"recorder.py", "reference.py"}
    assert set(header["files"]) == {"weights"}


def test_the_first_broken_component_and_its_cause_are_named(golden: Path, project: Path, firstdiff: Run) -> None:
    write_port(project, changed("x / 1.5", "x / 1.5 + 0.25"))
    done = firstdiff("validate", "--format", "json")
    result = json.loads(done.out)
    assert done.code == 1
    assert [component["state"] for component in result["components"]] == ["pass", "pass", "fail", "fail"]
    assert (result["first"], result["cause"]) == ("encoder.norm", "offset.constant")
    text = firstdiff("validate").out
    assert "VALUE MISMATCH  encoder.norm  max 0.25, mean 0.25" in text
    assert "Cause: offset.constant" in text


def test_a_transposed_tensor_says_what_would_fit(golden: Path, project: Path, firstdiff: Run) -> None:
    turned = "[embedded[n * 4 + k] / 1.5 for k in range(4) for n in range(len(ids))], [4, len(ids)]"
    write_port(project, changed("[x / 1.5 for x in embedded], [len(ids), 4]", turned))
    done = firstdiff("validate", "--component", "encoder")
    assert done.code == 1
    assert "SHAPE MISMATCH  encoder.norm  expected [5, 4], got [4, 5]; it would fit as 'a b -> b a'" in done.out
    assert "tokenizer" not in done.out
    assert "1 components" not in done.out.replace("0 of 1 components", "")


def test_a_component_is_recorded_alone(golden: Path, project: Path, firstdiff: Run) -> None:
    assert firstdiff("validate", "--component", "embedding").code == 0
    lines = (project / ".firstdiff" / "candidate" / "short" / "tensors.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["name"] for line in lines] == ["embed.out"]


def test_a_tensor_nobody_recorded_is_no_pass(golden: Path, project: Path, firstdiff: Run) -> None:
    write_port(project, changed('tap("encoder.norm", ', "(lambda x, shape: x)("))
    assert firstdiff("validate").code == 0
    done = firstdiff("validate", "--require-all")
    assert done.code == 1
    assert "NOT RECORDED: the candidate did not record encoder.norm" in done.out
    write_port(project, changed('tap("embed.out", ', "(lambda x, shape: x)("))
    done = firstdiff("validate")
    assert done.code == 1
    assert "embedding  NOT CHECKED      0/1" in done.out


def test_a_folder_that_may_not_be_read_is_said(golden: Path) -> None:
    held = golden.parent
    held.chmod(0)
    try:
        for words, code in ((["validate"], 2), (["golden", "--check"], 2), (["plan", "--next"], 0)):
            done = unprivileged(*words)
            assert (done.returncode, "Traceback" in done.stderr) == (code, False), done.stderr
            assert "may not be read; check its permissions" in done.stdout + done.stderr
    finally:
        held.chmod(0o755)


def test_inputs_that_may_not_be_looked_at_are_said(golden: Path, project: Path) -> None:
    (project / "inputs").mkdir()
    (project / "ids.txt").rename(project / "inputs" / "ids.txt")
    text = (project / "firstdiff.toml").read_text(encoding="utf-8")
    (project / "firstdiff.toml").write_text(text.replace('"ids.txt"', '"inputs/ids.txt"'), encoding="utf-8")
    (project / "inputs").chmod(0)
    try:
        done = unprivileged("validate")
    finally:
        (project / "inputs").chmod(0o755)
    assert (done.returncode, "Traceback" in done.stderr) == (2, False), done.stderr
    assert "inputs/ids.txt: Permission denied" in done.stderr


def unprivileged(*words: str) -> subprocess.CompletedProcess[str]:
    """Run firstdiff as somebody whom the permissions of files hold back, which root is not."""
    less = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
    command = [*less, sys.executable, "-m", "firstdiff", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)


def test_a_form_that_does_not_exist_is_refused_before_anything_runs(golden: Path, firstdiff: Run) -> None:
    done = firstdiff("validate", "--format", "yaml")
    assert (done.code, "candidate |" in done.err) == (2, False)
    assert "--format is 'yaml'; it takes one of text, json, md, github" in done.err


def test_a_component_that_matches_nothing_fails_and_says_so(project: Path, firstdiff: Run) -> None:
    scratch_project(project, components=COMPONENTS + 'vocoder = ["head.logit"]\n')
    firstdiff("golden")
    done = firstdiff("validate")
    assert done.code == 1
    says = "head.logit matches no tensor of the golden (did you mean head.logits"
    assert says in done.out
    done = firstdiff("validate", "--component", "vocoder")
    assert (done.code, done.out, f"component 'vocoder': {says}" in done.err) == (2, "", True)


def test_a_component_that_the_port_does_not_record_is_said(golden: Path, project: Path, firstdiff: Run) -> None:
    write_port(project, changed('tap("embed.out", ', "(lambda x, shape: x)("))
    done = firstdiff("validate", "--component", "embedding")
    assert (done.code, "ran, but its trace holds no tensor that fits embed.*" in done.err) == (2, True)
    done = firstdiff("validate", "--component", "encodr")
    assert done.code == 2
    assert "has no component 'encodr' (did you mean encoder" in done.err


@pytest.mark.parametrize(
    ("file", "says"),
    [("ids.txt", "input ids changed since the golden"), ("weights.bin", "file weights changed since the golden")],
)
def test_other_inputs_are_the_answer_and_no_cause_is_looked_for(
    golden: Path,
    project: Path,
    firstdiff: Run,
    file: str,
    says: str,
) -> None:
    (project / file).write_text("3 1 4 1 6", encoding="utf-8")
    done = firstdiff("validate")
    assert done.code == 1
    assert says in done.out
    assert "Cause" not in done.out
    assert json.loads(firstdiff("validate", "--format", "json").out)["cause"] is None
    assert firstdiff("golden", "--check").code == 1
    assert firstdiff("golden").code == 0
    assert firstdiff("validate").code == 0


def test_what_recordings_state_comes_first(project: Path, firstdiff: Run) -> None:
    """Stated with `record(metadata=…)`, and the weights recorded in their own role."""
    program = """
import firstdiff as fd
with fd.record(metadata={"vocab_size": SIZE, "language": "en"}) as rec:
    rec.tap("embed.weight", [[float(n)] for n in range(SIZE)], role="param")
    rec.tap("embed.out", [1, 2], role="input")
    rec.tap("embed.out", [0.5, 0.25])
"""
    (project / "reference.py").write_text(program.replace("SIZE", "4"), encoding="utf-8")
    write_port(project, program.replace("SIZE", "5"))
    settings = project / "firstdiff.toml"
    settings.write_text(settings.read_text(encoding="utf-8").replace('"-S", ', ""), encoding="utf-8")
    assert firstdiff("golden").code == 0
    done = firstdiff("validate", "--all")
    assert done.code == 1
    assert "vocab_size differs: 4 in the reference, 5 in the candidate" in done.out
    assert "Cause" not in done.out
    assert "SHAPE MISMATCH  embed.weight:param" in done.out


def test_a_recording_in_numpy_that_names_its_operation_has_a_cause(project: Path, firstdiff: Run) -> None:
    program = """
import numpy as np
import firstdiff as fd
x = np.sin(np.arange(48.0, dtype="f4")).reshape(6, 8)
w = np.cos(np.arange(64.0, dtype="f4") ** 2).reshape(8, 8)
with fd.record() as rec:
    rec.tap("head.fc.weight", w, role="param")
    rec.tap("head.fc", x, role="input")
    rec.tap("head.fc", x @ WEIGHT, op="Linear")
"""
    (project / "reference.py").write_text(program.replace("WEIGHT", "w.T"), encoding="utf-8")
    write_port(project, program.replace("WEIGHT", "w"))
    settings = project / "firstdiff.toml"
    settings.write_text(settings.read_text(encoding="utf-8").replace('"-S", ', ""), encoding="utf-8")
    assert firstdiff("golden").code == 0
    assert "Cause: weights.transposed" in firstdiff("validate", "--component", "head").out


def test_what_both_runs_say_of_their_vocabulary_comes_first(project: Path, firstdiff: Run) -> None:
    text = (project / "firstdiff.toml").read_text(encoding="utf-8")
    for side, size in (("reference", 100), ("candidate", 101)):
        text = text.replace(f"[{side}]\n", f"[{side}]\nenv = {{ HEADER = '{{\"vocab_size\": {size}}}' }}\n")
    (project / "firstdiff.toml").write_text(text, encoding="utf-8")
    firstdiff("golden")
    done = firstdiff("validate")
    assert done.code == 1
    assert "had different inputs, files or settings, so no cause is searched for:\n  the vocabulary sizes" in done.out
    assert "the vocabulary sizes differ: 100 in the reference, 101 in the candidate" in done.out


@pytest.mark.parametrize(("digest", "code"), [("sha256:aa", 0), ("sha256:bb", 1)])
def test_recorders_that_state_a_digest_of_their_inputs_are_compared_by_it(
    project: Path, firstdiff: Run, digest: str, code: int
) -> None:
    """As fd.capture does: a digest of input tensors, which is none of the input files."""
    text = (project / "firstdiff.toml").read_text(encoding="utf-8")
    for side, stated in (("reference", "sha256:aa"), ("candidate", digest)):
        text = text.replace(f"[{side}]\n", f'[{side}]\nenv = {{ HEADER = \'{{"inputs": "{stated}"}}\' }}\n')
    (project / "firstdiff.toml").write_text(text, encoding="utf-8")
    assert firstdiff("golden").code == 0
    done = firstdiff("validate")
    assert done.code == code
    assert ("the two runs had different inputs" in done.out) == (code == 1)


def test_a_golden_needs_no_reference_command_to_be_checked_against(golden: Path, project: Path, firstdiff: Run) -> None:
    """The reference may run elsewhere, where its hardware or its licence is."""
    head, _, rest = (project / "firstdiff.toml").read_text(encoding="utf-8").partition("[candidate]")
    (project / "firstdiff.toml").write_text(f"[candidate]{rest}", encoding="utf-8")
    assert "[reference]" in head
    done = firstdiff("validate")
    assert (done.code, "warning" in done.out) == (0, False), done.out + done.err
    (project / "ids.txt").write_text("3 1 4", encoding="utf-8")
    assert "input ids changed since the golden was made" in firstdiff("validate").out


@pytest.mark.parametrize(
    "damage", [{"golden": "x"}, {"golden": {"inputs": [1], "code": 3}, "files": [1]}, {"golden": None}]
)
def test_a_golden_with_a_damaged_header_is_compared_all_the_same(
    golden: Path, firstdiff: Run, damage: dict[str, object]
) -> None:
    header = golden / "trace.json"
    header.write_text(json.dumps(json.loads(header.read_text(encoding="utf-8")) | damage), encoding="utf-8")
    assert "5 of 5 golden tensors checked" in firstdiff("validate").out
    done = firstdiff("golden", "--check")
    assert ("does not say what it was made from" in done.out) != ("stale: " in done.out)


def test_a_crash_on_one_input_set_does_not_hide_the_others(project: Path, firstdiff: Run) -> None:
    scratch_project(project, more='[inputs.other]\nids = "other.txt"')
    (project / "other.txt").write_text("2 7", encoding="utf-8")
    assert firstdiff("golden").code == 0
    for ids, passing in (("3 1 4", "other"), ("2 7", "short")):
        crash = f"import sys\nif open(sys.argv[1]).read().startswith({ids!r}): sys.exit('no memory')\n"
        write_port(project, crash + PROGRAM)
        done = firstdiff("validate")
        assert (done.code, f"PASS {passing}: " in done.out) == (2, True), done.out + done.err
        assert "ended with exit code 1" in done.err
        assert "no memory" in done.err


def test_a_folder_of_several_goldens_is_no_golden(
    golden: Path, project: Path, firstdiff: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    goldens = shutil.move(golden.parent, project.parent / "goldens")
    monkeypatch.chdir(project.parent)
    assert firstdiff("validate", "--golden", "goldens", "goldens/short").code == 0
    shutil.copytree(goldens / "short", goldens / "long")
    done = firstdiff("validate", "--golden", "goldens", "goldens/short")
    assert done.code == 2
    assert "goldens: holds the goldens long, short; name one, such as --golden goldens/long" in done.err


def test_given_tensors_that_differ_come_first(project: Path, firstdiff: Run) -> None:
    scratch_project(project, more='inputs = ["embed.*"]', port=changed("3.7 * n", "3.8 * n"))
    firstdiff("golden")
    done = firstdiff("validate")
    assert "input embed.out differs: " in done.out
    assert "Cause" not in done.out


def test_changed_code_of_the_reference_and_another_version_are_said(
    golden: Path,
    project: Path,
    firstdiff: Run,
) -> None:
    header = json.loads((golden / "trace.json").read_text(encoding="utf-8"))
    header["golden"]["firstdiff"] = "0.0.7"
    (golden / "trace.json").write_text(json.dumps(header), encoding="utf-8")
    with (project / "reference.py").open("a", encoding="utf-8") as file:
        file.write("# more\n")
    done = firstdiff("validate")
    assert done.code == 0
    assert "reference code reference.py changed since the golden was made" in done.out
    assert "the golden was made with firstdiff 0.0.7" in done.out
    (golden / "trace.json").write_text(json.dumps({**header, "version": 9}), encoding="utf-8")
    done = firstdiff("validate")
    assert (done.code, "is a trace of version 9" in done.err) == (2, True)


@pytest.mark.parametrize(
    ("port", "says", "code"),
    [
        ("raise SystemExit('no weights')", "the candidate command ended with exit code 1 after", 2),
        ("print('nothing')", "recorded nothing: it must write a trace", 2),
        ("import recorder", "its trace holds no tensor; does it tap any?", 2),
        (changed("mixed = ", "1 / 0\nmixed = "), "ERROR: the candidate command ended with exit code 1", 1),
        (changed("mixed = ", "import os; os.kill(os.getpid(), 9)\nmixed = "), "was ended by SIGKILL", 1),
    ],
)
def test_a_port_that_fails_says_why(
    golden: Path,
    project: Path,
    firstdiff: Run,
    port: str,
    says: str,
    code: int,
) -> None:
    assert firstdiff("validate").code == 0
    write_port(project, port)
    done = firstdiff("validate")
    assert done.code == code
    assert says in done.out + done.err
    if code == 2:  # what was recorded earlier is still there
        kept = project / ".firstdiff" / "candidate" / "short" / "tensors.jsonl"
        assert len(kept.read_text(encoding="utf-8").splitlines()) == 5
    else:
        assert "PASS          encoder.norm" in done.out
        assert "its last lines: " in done.out or "SIGKILL" in says
        assert "^" not in done.out  # marks of a traceback, alone on their lines


def test_a_command_that_is_not_there_or_cannot_run(golden: Path, project: Path, firstdiff: Run) -> None:
    text = (project / "firstdiff.toml").read_text(encoding="utf-8")
    (project / "prot").write_text("", encoding="utf-8")
    start, end = text.index("command", text.index("[candidate]")), text.index("timeout")
    for command, says in (
        ("./port", "'./port' does not exist (did you mean"),
        ("./prot", "cannot be started (Permission"),
    ):
        changed_text = f'{text[:start]}command = "{command}"\n{text[end:]}'
        (project / "firstdiff.toml").write_text(changed_text, encoding="utf-8")
        done = firstdiff("validate")
        assert (done.code, says in done.err) == (2, True), done.err


def test_a_port_that_hangs_is_stopped_with_its_children(golden: Path, project: Path, firstdiff: Run) -> None:
    text = (project / "firstdiff.toml").read_text(encoding="utf-8")
    (project / "firstdiff.toml").write_text(text.replace("timeout = 20", "timeout = 1"), encoding="utf-8")
    child = "subprocess.Popen([sys.executable, '-S', '-c', 'import time; time.sleep(60)'])"
    write_port(
        project, f"import subprocess, sys\nchild = {child}\n" + "print('child', child.pid, flush=True)\nchild.wait()\n"
    )
    done = firstdiff("validate")
    assert done.code == 2
    assert "was stopped after 1 s, the time limit" in done.err
    pid = int(done.err.split("child ")[1].split()[0])
    assert gone(pid)


def test_ctrl_c_ends_the_port_and_keeps_the_golden(golden: Path, project: Path) -> None:
    write_port(project, "import os, time\nprint('pid', os.getpid(), flush=True)\ntime.sleep(60)\n")
    command = [sys.executable, "-m", "firstdiff", "validate"]
    with subprocess.Popen(command, cwd=project, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        pid = next(int(line.split()[-1]) for line in process.stderr if "pid" in line)
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()
    assert process.returncode == 130
    assert "stopped" in said
    assert gone(pid)
    assert not list((project / ".firstdiff" / "candidate").iterdir())
    assert not (project / ".firstdiff" / "running.json").exists()


def test_half_a_trace_of_the_reference_does_not_replace_a_golden(golden: Path, project: Path, firstdiff: Run) -> None:
    before = (golden / "tensors.jsonl").read_bytes()
    with (project / "reference.py").open("a", encoding="utf-8") as file:
        file.write("raise SystemExit(3)\n")
    done = firstdiff("golden")
    assert (done.code, "the reference command ended with exit code 3" in done.err) == (2, True)
    (project / "reference.py").write_text(
        changed("print(", "import recorder; recorder.LINES.write('{\"na'); recorder.LINES.flush()\nprint("),
        encoding="utf-8",
    )
    done = firstdiff("golden")
    assert (done.code, "left half a trace" in done.err) == (2, True)
    assert (golden / "tensors.jsonl").read_bytes() == before
    assert [path.name for path in golden.parent.iterdir()] == ["short"]


@pytest.mark.parametrize("blocked", ["golden", ".firstdiff"])
def test_a_folder_that_cannot_be_written_is_said(project: Path, firstdiff: Run, blocked: str) -> None:
    """A file in the folder's place stops every user, root as well."""
    if blocked == ".firstdiff":
        assert firstdiff("golden").code == 0
        shutil.rmtree(project / blocked)
    before = sorted(project.glob("golden/short/*"))
    (project / blocked).write_text("", encoding="utf-8")
    done = firstdiff("golden" if blocked == "golden" else "validate")
    assert (done.code, f"cannot write to {project / blocked}" in done.err) == (2, True), done.err
    assert "Traceback" not in done.err
    assert sorted(project.glob("golden/short/*")) == before


@pytest.mark.parametrize(
    ("words", "blocked", "says"),
    [
        (("run",), ".firstdiff/run/", "cannot write to {}/.firstdiff/run ("),
        (("plan", "--until", "full"), ".firstdiff/.loop.json.part", "cannot write {}/.firstdiff/loop.json ("),
    ],
)
def test_state_that_cannot_be_written_is_said(
    golden: Path, project: Path, firstdiff: Run, words: tuple[str, ...], blocked: str, says: str
) -> None:
    """A file where a folder is needed, or a folder for a file, stops root as well."""
    place = project / blocked
    place.parent.mkdir(exist_ok=True)
    place.write_text("", encoding="utf-8") if blocked.endswith("/") else place.mkdir()
    done = firstdiff(*words)
    assert (done.code, done.err.startswith(f"firstdiff: {says.format(project)}")) == (2, True), done.err


def test_a_golden_folder_below_a_file_is_said(project: Path, firstdiff: Run) -> None:
    text = (project / "firstdiff.toml").read_text(encoding="utf-8")
    (project / "firstdiff.toml").write_text(
        text.replace("[golden]", '[golden]\ndir = "ids.txt/golden"'), encoding="utf-8"
    )
    done = firstdiff("golden")
    assert (done.code, f"cannot write to {project}/ids.txt/golden (Not a directory)" in done.err) == (2, True), done.err
    done = firstdiff("validate")
    assert (done.code, "`firstdiff golden` makes it" in done.err) == (2, True), done.err


def test_two_folders_without_a_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, firstdiff: Run) -> None:
    monkeypatch.chdir(tmp_path)
    for side, gain in (("golden", 1.0), ("mine", 1.0), ("wrong", 1.5)):
        (tmp_path / side).mkdir()
        np.save(tmp_path / side / "mel.npy", np.linspace(1, 2, 12, dtype=np.float32) * gain)
        np.save(tmp_path / side / "ids.npy", np.arange(5))
    assert firstdiff("validate", "--golden", "golden", "mine").code == 0
    done = firstdiff("validate", "--golden", "golden", "wrong")
    assert done.code == 1
    assert "mel        FAIL       1/1" in done.out
    assert firstdiff("validate", "--golden", "golden", "wrong", "--component", "ids").code == 0
    assert firstdiff("validate", "--golden", "golden", "wrong", "--atol", "2").code == 0
    done = firstdiff("validate")
    assert (done.code, "`firstdiff init` writes one" in done.err) == (2, True)
    done = firstdiff("validate", "--golden", "nowhere", "wrong")
    assert (done.code, "nowhere: does not exist; `firstdiff golden` makes it" in done.err) == (2, True)


def test_a_floor_is_measured_by_more_runs(project: Path, firstdiff: Run) -> None:
    noisy = "tap('encoder.norm', [x / 1.5 + 0.01 * random.random() for x in embedded]"
    text = "import random\n" + PROGRAM.replace('tap("encoder.norm", [x / 1.5 for x in embedded]', noisy)
    (project / "reference.py").write_text(text, encoding="utf-8")
    done = firstdiff("golden", "--floor", "4")
    assert (done.code, "5 tensors, 3 with a noise floor" in done.out) == (0, True), done.out + done.err
    assert firstdiff("validate").code == 0


def test_a_reference_that_repeats_itself_to_the_bit_has_no_floor(project: Path, firstdiff: Run) -> None:
    done = firstdiff("golden", "--floor", "2")
    assert "5 tensors, 0 with a noise floor" in done.out, done.out + done.err
    write_port(project, changed("math.sin(3.7 * n + k)", "math.sin(3.7 * n + k) * (1 + 3e-7 * (-1) ** n)"))
    assert firstdiff("validate").code == 0  # rounding that a floor of zero would not allow


def test_a_port_that_asks_for_golden_inputs_is_judged_component_by_component(
    golden: Path,
    project: Path,
    firstdiff: Run,
) -> None:
    asks = "import firstdiff as fd\nembedded = [float(x) for x in fd.load_golden('embed.out', embedded).ravel()]\n"
    wrong = changed("3.7 * n", "3.8 * n")
    write_port(project, changed("normed = ", asks + "normed = ", wrong))
    text = (project / "firstdiff.toml").read_text(encoding="utf-8")
    (project / "firstdiff.toml").write_text(text.replace('"-S", "port.py"', '"port.py"'), encoding="utf-8")
    states = [
        part["state"] for part in json.loads(firstdiff("validate", "--isolate", "--format", "json").out)["components"]
    ]
    assert states == ["pass", "fail", "pass", "pass"]


REPLAYED = """
import math, sys
from recorder import tap

ids = [int(word) for word in open(sys.argv[1]).read().split()]
x = tap("embed.out", [math.sin(3.7 * n + k) for n in ids for k in range(4)], [len(ids), 4])
for source, layer in ((0, "encoder"), (2, "head")):
    tap(f"{layer}.act", x, [len(ids), 4], role="input", slot="0", **{"from": [source]})
    x = [value / (1 + math.exp(-value)) for value in x]
    tap(f"{layer}.act", x, [len(ids), 4], role="output", slot="0", op="SiLU")
"""


def test_a_component_that_is_right_on_its_own_inputs_passes_alone(project: Path, firstdiff: Run) -> None:
    """The port asks for nothing: its operations are replayed on the inputs that it recorded."""
    scratch_project(project, components=COMPONENTS.replace('tokenizer = ["tokens*"]\n', ""))
    (project / "reference.py").write_text(REPLAYED, encoding="utf-8")
    assert firstdiff("golden").code == 0
    gelu = "0.5 * value * (1 + math.erf(value / math.sqrt(2)))"
    wrong = changed("value / (1 + math.exp(-value))", f"({gelu} if layer == 'encoder' else SILU)", REPLAYED)
    write_port(project, wrong.replace("SILU", "value / (1 + math.exp(-value))"))

    def states(*words: str) -> list[str]:
        done = firstdiff("validate", "--format", "json", *words)
        assert done.code == 1
        return [part["state"] for part in json.loads(done.out)["components"]]

    assert states() == ["pass", "fail", "fail"]
    assert states("--isolate") == ["pass", "fail", "pass"]
    assert "right on its own inputs; inherited max" in firstdiff("validate", "--isolate").out


def test_annotations_for_a_job_on_github(
    golden: Path, project: Path, firstdiff: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(project / "summary.md"))
    write_port(project, changed("x / 1.5", "x / 1.5 + 0.25"))
    done = firstdiff("validate", "--format", "github")
    assert done.code == 1
    assert done.out.startswith("::error title=short%3A encoder FAIL::encoder.norm: VALUE MISMATCH: max 0.25")
    assert "| encoder | FAIL | 2/2 |" in (project / "summary.md").read_text(encoding="utf-8")


def test_markdown_lists_failing_tensors_and_with_all_every_one(golden: Path, project: Path, firstdiff: Run) -> None:
    write_port(project, changed("x / 1.5", "x / 1.5 + 0.25"))
    assert "| tokens | PASS |" not in firstdiff("validate", "--format", "md").out
    done = firstdiff("validate", "--format", "md", "--all").out
    assert "| tokens | PASS | max 0, mean 0 |" in done
    assert "| encoder.norm | VALUE MISMATCH | max 0.25, mean 0.25 |" in done


def test_watching_validates_again_after_a_change(golden: Path, project: Path) -> None:
    command = [sys.executable, "-m", "firstdiff", "validate", "--watch"]
    with subprocess.Popen(command, cwd=project, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = iter(process.stdout)
        assert next(lines).startswith("PASS short")
        next(line for line in lines if line.startswith("waiting"))
        write_port(project, changed("x / 1.5", "x / 1.5 + 0.25"))
        assert next(line for line in lines if line.strip()) == "port.py changed\n"
        assert next(lines).startswith("FAIL short")
        next(line for line in lines if line.startswith("waiting"))
        (project / "firstdiff.toml").write_text("[candidat]", encoding="utf-8")
        write_port(project, "print()\n")
        next(line for line in lines if line.startswith("waiting"))
        process.send_signal(signal.SIGINT)
        _, said = process.communicate()
    assert process.returncode == 130
    assert "unknown entry candidat" in said


def test_a_transposed_result_has_no_figures_that_mean_nothing(project: Path, firstdiff: Run) -> None:
    assert firstdiff("golden").code == 0
    write_port(
        project,
        changed("[2.0 * x for x in mixed], [len(ids), 4]", "TRANSPOSED, [4, len(ids)]").replace(
            "TRANSPOSED", "[2.0 * mixed[4 * n + k] for k in range(4) for n in range(len(ids))]"
        ),
    )
    done = firstdiff("validate")
    assert "SHAPE MISMATCH  head.logits" in done.out
    assert "introduced here, between encoder.mix and head.logits" in done.out
    assert "at index []" not in done.out
