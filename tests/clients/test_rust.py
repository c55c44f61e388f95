"""The Rust client's own tests, with cargo and without any network."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

import firstdiff
from tests.tools import needs

ROOT = Path(__file__).parents[2]
CRATE = ROOT / "clients" / "rust"
BLOCK = re.compile(r"^```rust\n(.*?)^```", re.DOTALL | re.MULTILINE)

pytestmark = pytest.mark.xdist_group("rust-client")


def test_cargo_test_passes() -> None:
    command = [
        needs("cargo"),
        "test",
        "--offline",
        "--manifest-path",
        str(CRATE / "Cargo.toml"),
        "--target-dir",
        str(CRATE / "target"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    passed = [int(count) for count in re.findall(r"test result: ok\. (\d+) passed", done.stdout)]
    assert len(passed) >= 4, "the library, two files of tests and the documentation"
    assert min(passed) > 0, done.stdout


def test_the_crate_has_no_dependencies_and_our_version() -> None:
    manifest = (CRATE / "Cargo.toml").read_text(encoding="utf-8")
    assert f'version = "{firstdiff.__version__}"' in manifest
    assert manifest.rstrip().endswith("[dependencies]")


def test_the_code_for_frameworks_fits_the_crate(tmp_path: Path) -> None:
    needs("cargo")
    blocks = BLOCK.findall((ROOT / "docs" / "clients.md").read_text(encoding="utf-8"))
    assert len(blocks) >= 5
    frameworks = (Path(__file__).parent / "frameworks.rs").read_text(encoding="utf-8")
    modules = (f"mod block{number} {{\nuse super::*;\n{block}}}\n" for number, block in enumerate(blocks))
    (tmp_path / "page.rs").write_text(frameworks + "".join(modules), encoding="utf-8")
    library = ["--crate-name", "firstdiff", "--crate-type", "lib", CRATE / "src" / "lib.rs"]
    page = ["--crate-type", "lib", "--extern", "firstdiff", "page.rs"]
    for arguments in (library, page):
        command = ["rustc", "--edition", "2021", "--emit", "metadata", "-L", ".", *arguments]
        environment = {**os.environ, "CARGO_PKG_VERSION": "0"}
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
