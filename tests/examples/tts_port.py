"""The speech example: its model, its port, and runs of both."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

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


def text(name: str) -> Path:
    """An input of the example."""
    return EXAMPLE / "inputs" / f"{name}.txt"
