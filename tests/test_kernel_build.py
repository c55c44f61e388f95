"""The build of the kernel: with the machine's compiler, whole or not at all, and a clear word when it fails."""

from __future__ import annotations

import ctypes
import shutil
from pathlib import Path
from typing import Any

import hatch_build
import pytest

from firstdiff.measure import library

pytestmark = pytest.mark.skipif(hatch_build.system_compiler() is None, reason="needs a C compiler")


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the kernel's sources, without the library."""
    folder = tmp_path / "kernel"
    folder.mkdir()
    for file in hatch_build.KERNEL.glob("*.[ch]"):
        shutil.copy(file, folder)
    monkeypatch.setattr(hatch_build, "KERNEL", folder)
    monkeypatch.delenv("FIRSTDIFF_TARGET", raising=False)
    return folder


def test_the_library_is_the_one_that_is_looked_for(sources: Path) -> None:
    built = hatch_build.build_kernel()
    assert built == sources / library.NAME
    loaded = ctypes.CDLL(str(built))
    assert loaded.firstdiff_kernel_version() == library.VERSION
    assert hatch_build.build_kernel().stat().st_mtime_ns == built.stat().st_mtime_ns, "what is newer is kept"


def test_a_source_that_does_not_compile_is_said_with_the_compilers_words(sources: Path) -> None:
    (sources / "scan.c").write_text("#error this is no kernel\n")
    with pytest.raises(hatch_build.KernelError, match=r"ended with code [\s\S]*this is no kernel"):
        hatch_build.build_kernel()
    assert {file.suffix for file in sources.iterdir()} == {".c", ".h"}


def test_an_unknown_platform_is_named(sources: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRSTDIFF_TARGET", "amiga")
    with pytest.raises(hatch_build.KernelError, match="FIRSTDIFF_TARGET is 'amiga'; one of x86_64-linux-gnu"):
        hatch_build.build_kernel()
    assert not list(sources.glob("*.so"))


@pytest.mark.parametrize("target", hatch_build.WHEEL_TAGS)
def test_every_platform_has_the_name_of_its_libraries(target: str) -> None:
    expected = {"linux": ".so", "macos": ".dylib", "windows": ".dll"}
    assert hatch_build._suffix(target) == next(end for system, end in expected.items() if system in target)


@pytest.mark.parametrize(("version", "copies"), [("standard", 1), ("editable", 0)])
def test_an_editable_install_takes_the_kernel_from_the_tree(
    sources: Path, monkeypatch: pytest.MonkeyPatch, version: str, copies: int
) -> None:
    monkeypatch.setattr(hatch_build, "build_page", lambda: None)
    hook = hatch_build.BuildHook(str(hatch_build.ROOT), {}, None, None, str(sources), "wheel")  # type: ignore[arg-type]
    build_data: dict[str, Any] = {"pure_python": True, "force_include": {}}
    hook.initialize(version, build_data)
    assert (sources / library.NAME).exists()
    assert len(build_data["force_include"]) == copies
    assert build_data["pure_python"] is (copies == 0)
