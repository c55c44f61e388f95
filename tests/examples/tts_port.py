"""The speech example: its model, its port, and runs of both."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.tools import needs

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "tts_port"
TARGET = EXAMPLE / "port" / "target"


@dataclass(frozen=True)
class Example:
    """A model folder and a built port."""

    model: Path
    port: Path

    @classmethod
    def build(cls, folder: Path) -> Example:
        """Write the model and build the port, without any network."""
        cargo = needs("cargo")
        write = [sys.executable, "make_model.py", str(folder / "model")]
        subprocess.run(write, cwd=EXAMPLE, check=True)
        manifest = str(EXAMPLE / "port" / "Cargo.toml")
        build = [cargo, "build", "--release", "--offline", "--manifest-path", manifest, "--target-dir", str(TARGET)]
        done = subprocess.run(build, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert "warning" not in done.stderr, done.stderr
        return cls(folder / "model", TARGET / "release" / "tts-port")

    def reference(self, *arguments: object, trace: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run the program in PyTorch."""
        return self._run([sys.executable, "reference.py"], arguments, trace, "")

    def candidate(
        self, *arguments: object, trace: Path | None = None, fault: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Run the program in Rust."""
        return self._run([str(self.port)], arguments, trace, fault)

    def _run(
        self, program: list[str], arguments: tuple[object, ...], trace: Path | None, fault: str
    ) -> subprocess.CompletedProcess[str]:
        settings = {"TTS_MODEL": str(self.model), "TTS_FAULT": fault, "FIRSTDIFF_TRACE": str(trace or "")}
        command = [*program, *map(str, arguments)]
        environment = os.environ | settings | {"OMP_NUM_THREADS": "1"}
        return subprocess.run(command, cwd=EXAMPLE, env=environment, capture_output=True, text=True, check=False)


@dataclass(frozen=True)
class Project:
    """A copy of the example as a project of its own, with a golden of the short text."""

    folder: Path

    @classmethod
    def of(cls, example: Example, folder: Path) -> Project:
        """Copy what `firstdiff` needs; the port is the built one."""
        for name in ("reference.py", "firstdiff.toml"):
            shutil.copy(EXAMPLE / name, folder / name)
        for name in ("tts", "inputs"):
            shutil.copytree(EXAMPLE / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copytree(example.model, folder / "model")
        (folder / "port" / "target" / "release").mkdir(parents=True)
        shutil.copy(example.port, folder / "port" / "target" / "release" / "tts-port")
        settings = (folder / "firstdiff.toml").read_text(encoding="utf-8")
        python = json.dumps(f"{sys.executable} reference.py {{input.text}} {{input.voice}}")
        settings = settings.replace('"python reference.py {input.text} {input.voice}"', python)
        before, _, after = settings.partition("[inputs.medium]")
        settings = before + after[after.index("[golden]") :]
        (folder / "firstdiff.toml").write_text(settings, encoding="utf-8")
        return cls(folder)

    @classmethod
    def with_golden(cls, factory: pytest.TempPathFactory) -> Project:
        """Build the example and record the golden of the short text."""
        project = cls.of(Example.build(factory.mktemp("tts")), factory.mktemp("project"))
        done = project.firstdiff("golden", "--input", "short")
        assert done.returncode == 0, done.stderr
        return project

    def firstdiff(self, *arguments: str, faults: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
        """Run a command of firstdiff in the project, with these faults switched on."""
        command = [sys.executable, "-m", "firstdiff", *arguments]
        environment = os.environ | {"TTS_FAULT": ",".join(faults), "OMP_NUM_THREADS": "1"}
        environment.pop("FIRSTDIFF_TRACE", None)
        return subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False)


def text(name: str) -> Path:
    """An input of the example."""
    return EXAMPLE / "inputs" / f"{name}.txt"
