"""The installed wheel: built from a clean tree, it serves the page with only its own requirements."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

import hatch_build
import pytest
from packaging.requirements import Requirement
from playwright.sync_api import Page, expect

from tests.web.serving import Server

ROOT = hatch_build.ROOT


def run(*command: str | Path, at: Path = ROOT) -> str:
    done = subprocess.run([str(part) for part in command], cwd=at, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def copy_sources(to: Path) -> Path:
    """Copy the files of a fresh checkout, without anything built or installed."""
    listed = run("git", "ls-files", "--cached", "--others", "--exclude-standard", "-z").split("\0")
    for name in filter(None, listed):
        if (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, to / name)
    return to


def required_by(name: str, found: set[str]) -> set[str]:
    """Adds the distributions that a plain installation of `name` brings along."""
    for text in distribution(name).requires or []:
        needed = Requirement(text)
        applies = needed.marker is None or needed.marker.evaluate({"extra": ""})
        if applies and needed.name not in found:
            found.add(needed.name)
            required_by(needed.name, found)
    return found


def link_requirements(site: Path) -> None:
    """Puts what the wheel requires, and nothing else, into a folder of packages."""
    for name in required_by("firstdiff", set()):
        there = distribution(name)
        tops = {file.parts[0] for file in there.files or [] if file.parts[0] not in ("..", "__pycache__")}
        for top in tops:
            if not (site / top).exists():
                (site / top).symlink_to(Path(str(there.locate_file(top))))


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of an environment that holds the wheel of a clean tree and its requirements."""
    made = tmp_path_factory.mktemp("made")
    tree = copy_sources(made / "tree")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", made / "dist", at=tree)
    (wheel,) = (made / "dist").glob("*.whl")
    venv.create(made / "bare", symlinks=True)
    python = next((made / "bare").glob("*/python"))
    run(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", "-q", wheel)
    link_requirements(next((made / "bare").glob("lib/*/site-packages")))
    return python.parent


@pytest.fixture(scope="module")
def server(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("home"), installed / "firstdiff")
    server.start()
    yield server
    server.stop()


def test_a_wheel_of_a_clean_tree_serves_the_page_and_the_demo(page: Page, server: Server, installed: Path) -> None:
    where = run(installed / "python", "-c", "import firstdiff; print(firstdiff.__file__)", at=installed)
    assert Path(where.strip()).is_relative_to(installed.parent)
    page.goto("/")
    page.get_by_role("button", name="Open the demo").click()
    page.wait_for_url("**/c/*")
    entry = server.settled(page.url.rpartition("/")[2])
    assert (entry["state"], entry["verdict"]) == ("done", "mismatch")
    expect(page.get_by_role("heading", name=entry["name"])).to_be_visible()


def test_the_lock_file_names_no_host() -> None:
    text = (hatch_build.WEB / "package-lock.json").read_text(encoding="utf-8")
    assert "resolved" not in text
    packages = json.loads(text)["packages"]
    assert all(package.get("integrity") for path, package in packages.items() if path)
