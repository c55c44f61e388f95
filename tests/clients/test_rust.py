"""The Rust client's own tests, with cargo and without any network."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import firstdiff
from tests.tools import needs

CRATE = Path(__file__).parents[2] / "clients" / "rust"


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
