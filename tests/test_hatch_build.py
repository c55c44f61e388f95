"""The build of the page: only when a source changed, whole or not at all, and a clear word when it fails."""

from __future__ import annotations

import os
from pathlib import Path

import hatch_build
import pytest


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tree whose npm copies `src/page.txt` into the page, and fails where that says `broken`."""
    web, page = tmp_path / "web", tmp_path / "package" / "static"
    (web / "src").mkdir(parents=True)
    (web / "src" / "page.txt").write_text("first")
    monkeypatch.setattr(hatch_build, "WEB", web)
    monkeypatch.setattr(hatch_build, "PAGE", page)
    monkeypatch.setattr(hatch_build, "install_packages", lambda: None)
    monkeypatch.setattr(hatch_build, "npm", lambda *arguments: copy(web, *arguments))
    return tmp_path


def copy(web: Path, *arguments: str) -> str:
    text = (web / "src" / "page.txt").read_text()
    if text == "broken":
        raise hatch_build.PageError("`npm run build` failed")
    target = Path(arguments[arguments.index("--outDir") + 1])
    target.mkdir()
    (target / "index.html").write_text(text)
    return ""


def built(tree: Path) -> str:
    return (tree / "package" / "static" / "index.html").read_text()


def change(tree: Path, text: str, name: str = "src/page.txt") -> None:
    """Write a source that is newer than the page by the file system's clock."""
    file = tree / "web" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    later = (tree / "package" / "static" / "index.html").stat().st_mtime + 10
    os.utime(file, (later, later))


def test_a_first_build_makes_the_page(tree: Path) -> None:
    assert not hatch_build.is_fresh()
    hatch_build.build_page()
    assert built(tree) == "first"


def test_it_is_built_again_only_when_a_source_changed(tree: Path) -> None:
    hatch_build.build_page()
    assert hatch_build.is_fresh()
    page = tree / "package" / "static" / "index.html"
    page.write_text("not touched")
    os.utime(page, (page.stat().st_mtime + 5, page.stat().st_mtime + 5))
    hatch_build.build_page()
    assert built(tree) == "not touched"
    change(tree, "second")
    hatch_build.build_page()
    assert built(tree) == "second"


@pytest.mark.parametrize("name", ["node_modules/svelte/index.js", "src/comparison/tests/model.test.mts"])
def test_what_is_no_source_makes_no_build(tree: Path, name: str) -> None:
    hatch_build.build_page()
    change(tree, "other", name)
    assert hatch_build.is_fresh()


def test_a_failed_build_leaves_the_page_that_was(tree: Path) -> None:
    hatch_build.build_page()
    change(tree, "broken")
    with pytest.raises(hatch_build.PageError, match="npm run build"):
        hatch_build.build_page()
    assert built(tree) == "first"
    assert [path.name for path in (tree / "package").iterdir()] == ["static"]


def test_a_step_of_npm_that_fails_is_said_with_what_it_printed() -> None:
    with pytest.raises(
        hatch_build.PageError, match=r"`npm run nothing-of-that-name` failed in .*web with code 1:[\s\S]*Missing script"
    ):
        hatch_build.npm("run", "nothing-of-that-name")


def test_an_unknown_step_is_named() -> None:
    with pytest.raises(SystemExit, match="'bild' is no step: one of build, kernel, check, types, npm was expected"):
        hatch_build.main(["bild"])
