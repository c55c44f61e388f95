"""The loop of a port: golden data, validate, the next task, until the sound matches."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.examples.tts_port import EXAMPLE, TARGET, Project
from tests.tools import needs

pytestmark = pytest.mark.xdist_group("tts-port")

COMPONENTS = ["tokenizer", "mel", "speaker", "semantic", "gpt", "flow", "vocoder"]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return Project.with_golden(tmp_path_factory)


def test_the_correct_port_passes_in_every_component(project: Project) -> None:
    done = project.firstdiff("validate", "--input", "short", "--format", "json")
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    text = project.firstdiff("validate", "--input", "short").stdout
    states = [line.split()[:2] for line in text.splitlines() if line.split()[:1] and line.split()[0] in COMPONENTS]
    assert states == [[component, "PASS"] for component in COMPONENTS]


def test_one_component_is_checked_alone(project: Project) -> None:
    done = project.firstdiff("validate", "--input", "short", "--component", "mel", faults=["gain", "mel-log"])
    assert done.returncode == 1
    assert "mel.log" in done.stdout
    assert "audio.log_base" in done.stdout
    assert "vocoder.gain" not in done.stdout
    assert project.firstdiff("validate", "--input", "short", "--component", "mel", faults=["gain"]).returncode == 0


def test_the_port_checks_itself_with_the_crates_validator(project: Project, tmp_path: Path) -> None:
    manifest = str(EXAMPLE / "port" / "Cargo.toml")
    build = [needs("cargo"), "build", "--release", "--offline", "--example", "check", "--manifest-path", manifest]
    subprocess.run([*build, "--target-dir", str(TARGET)], check=True, capture_output=True)
    program = [str(TARGET / "release" / "examples" / "check"), "golden/short"]

    scratch = tmp_path / "scratch"
    scratch.mkdir()

    def check(fault: str) -> subprocess.CompletedProcess[str]:
        environment = {"TTS_FAULT": fault, "TMPDIR": str(scratch)}
        return subprocess.run(program, cwd=project.folder, env=environment, capture_output=True, text=True, check=False)

    done = check("")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == "the port matches at every checkpoint"
    done = check("adaln-silu")
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == "the port leaves the reference at flow.cut, after gpt.latents, which matches"
    program[1] = "golden/none"
    done = check("")
    assert done.returncode == 2
    assert "golden/none" in done.stderr
    program[1:] = ["golden/short", "inputs/short.txt", "inputs/none.wav"]
    done = check("")
    assert done.returncode == 2
    assert done.stderr.startswith("inputs/none.wav cannot be read")
    assert not list(scratch.iterdir()), "nothing is left behind"


def test_a_golden_of_another_version_is_said(project: Project) -> None:
    header = project.folder / "golden" / "short" / "trace.json"
    kept = header.read_text(encoding="utf-8")
    header.write_text(json.dumps(json.loads(kept) | {"version": 99}), encoding="utf-8")
    try:
        done = project.firstdiff("validate", "--input", "short")
    finally:
        header.write_text(kept, encoding="utf-8")
    assert done.returncode == 2
    assert "99" in done.stderr


@pytest.mark.parametrize("target", ["port/target/release/tts-port", "check"])
def test_the_makefile_says_that_there_is_no_toolchain(target: str) -> None:
    known = ["-o", "golden/short", "-W", "port/Cargo.toml"]  # a golden that is there, a port to be built again
    command = [needs("make"), "-C", str(EXAMPLE), *known, "CARGO=no-such-cargo", target]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "no-such-cargo is not installed" in done.stderr
