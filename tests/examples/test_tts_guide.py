"""Every command of the guide to a port runs, in its order."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.examples.tts_port import EXAMPLE, ROOT, Example, Project

pytestmark = pytest.mark.xdist_group("tts-port")

GUIDE = ROOT / "docs" / "port-a-model.md"
COMMAND = re.compile(r"^(?:\w+=\S+ )?(?:python|firstdiff|cargo|port/target)\b.*$", re.MULTILINE)
FAILS = {"TTS_FAULT=modulate-one firstdiff validate --input short": 1}  # a planted mistake


def commands() -> Iterator[str]:
    blocks = re.findall(r"^```\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    for block in blocks:
        yield from (line.partition("  #")[0].strip() for line in COMMAND.findall(block))


def test_every_command_of_the_guide_runs(tmp_path_factory: pytest.TempPathFactory) -> None:
    example = Example.build(tmp_path_factory.mktemp("tts"))
    folder = Project.of(example, tmp_path_factory.mktemp("guide")).folder
    shutil.copy(EXAMPLE / "make_model.py", folder)
    programs = Path(sys.executable).parent
    environment = os.environ | {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    environment.pop("FIRSTDIFF_TRACE", None)
    told = {}
    for command in commands():
        # the crate needs the client beside it, so that it is built where it stands
        here = command.replace("port/Cargo.toml", str(EXAMPLE / "port" / "Cargo.toml"))
        words = ["sh", "-c", here]
        done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == FAILS.get(command, 0), f"{command}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        told[command] = done.stdout
    assert len(told) >= 13
    assert "affine.one_plus" in told["TTS_FAULT=modulate-one firstdiff validate --input short"]
    assert "DONE" in told["firstdiff plan --until vocoder --completion-promise DONE"]
    sound = told["firstdiff audio ref.wav port.wav"]
    found = re.search(r"SNR ([\d.]+) dB, .* log-mel distance [\d.e-]+ dB", sound)
    assert found, sound
    assert float(found[1]) > 60
    assert "correlation 1" in sound
