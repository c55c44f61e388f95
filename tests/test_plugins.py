"""A stranger's package on the path: its reader works like our own, and a broken one does not break the rest."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from pathlib import Path
from zipfile import ZipFile

import pytest

from firstdiff.plugins import HOOKS, EntryPoint, entry_points

MODULE = """
import numpy as np
from firstdiff.readers.format import Format, Found
from firstdiff.trace import ArraySource

FORMAT = Format("mine", (".mine",), lambda blob: blob.head(4) == b"MINE",
                lambda blob: [Found("", ArraySource(np.frombuffer(blob.read(4, blob.size - 4), np.float32)))])
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    site = tmp_path / "site"
    info = site / "stranger-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "stranger.py").write_text(MODULE)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: stranger\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[firstdiff.readers]\nmine = stranger:FORMAT\n")
    (tmp_path / "x.mine").write_bytes(b"MINE" + bytes([0, 0, 128, 63]))
    return site


def run(package: Path, *words: object) -> subprocess.CompletedProcess[str]:
    code = f"import sys; sys.path.insert(0, {str(package)!r}); from firstdiff.cli.main import main; main()"
    return subprocess.run([sys.executable, "-c", code, *map(str, words)], capture_output=True, text=True, check=False)


def test_a_strangers_reader_is_one_of_ours(package: Path) -> None:
    done = run(package, "inspect", package.parent / "x.mine")
    assert done.returncode == 0
    assert done.stdout.splitlines()[2].split() == ["x", "[1]", "float32", "1", "0", "1", "1", "0", "0"]
    assert ["readers", "mine", "stranger", "loads"] in [
        line.split() for line in run(package, "plugins").stdout.splitlines()
    ]


def test_a_strangers_reader_that_does_not_load_is_named_and_left_out(package: Path) -> None:
    (package / "stranger.py").write_text("import no_such_module")
    done = run(package, "inspect", package.parent / "x.mine")
    assert done.returncode == 2
    assert "warning: plugin 'mine' of stranger (stranger:FORMAT) does not load: No module named" in done.stderr
    assert "is of no format that firstdiff reads" in done.stderr


def described(found: list[EntryPoint]) -> set[tuple[str, str, str]]:
    return {(entry.group, entry.name, entry.value) for entry in found}


def test_entry_points_are_those_that_python_finds() -> None:
    for group in (*(f"firstdiff.{hook}" for hook in HOOKS), "console_scripts", "pytest11"):
        theirs = {(entry.group, entry.name, entry.value) for entry in metadata.entry_points(group=group)}
        assert {entry for entry in described(entry_points(group)) if entry[0] == group} == theirs
    (plain,) = (entry for entry in entry_points("firstdiff.readers") if entry.name == "npy")
    assert plain.package == "firstdiff"
    assert plain.load().name == "npy"


def test_of_packages_of_one_name_the_first_on_the_path_counts(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other" / "Stranger-2.0.dist-info"
    other.mkdir(parents=True)
    text = "# a note\n[firstdiff.readers]\nnewer = stranger:FORMAT\n\n[unrelated]\nx = y:z\n"
    (other / "entry_points.txt").write_text(text)
    monkeypatch.setattr(sys, "path", [str(package), str(other.parent), str(tmp_path / "missing")])
    assert described(entry_points("firstdiff.")) == {("firstdiff.readers", "mine", "stranger:FORMAT")}
    monkeypatch.setattr(sys, "path", [str(other.parent), str(package)])
    assert described(entry_points("firstdiff.")) == {("firstdiff.readers", "newer", "stranger:FORMAT")}


def test_packages_in_an_archive_on_the_path_count_too(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ZipFile(tmp_path / "site.zip", "w") as archive:
        for file in (package / "stranger-1.0.dist-info").iterdir():
            archive.write(file, f"stranger-1.0.dist-info/{file.name}")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site.zip")])
    assert described(entry_points("firstdiff.")) == {("firstdiff.readers", "mine", "stranger:FORMAT")}
