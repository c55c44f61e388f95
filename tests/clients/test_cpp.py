"""The C++ client: what its header promises, plain and under the sanitizers, and its page on ggml."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.clients.cpp import ROOT, cpp_program
from tests.conformance import cases, tensors
from tests.conformance.listing import differences, listing

CLIENT = ROOT / "clients" / "cpp"
SANITIZERS = ("-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


def run(program: Path, *arguments: str | Path) -> str:
    """Run a program to its good end; its environment has no settings of firstdiff."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("FIRSTDIFF_")}
    done = subprocess.run([program, *arguments], capture_output=True, text=True, env=clean, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("options", [("-O2",), SANITIZERS], ids=["plain", "sanitizers"])
def test_the_header_keeps_its_promises(options: tuple[str, ...], tmp_path: Path) -> None:
    run(cpp_program(CLIENT / "tests" / "behaviour.cpp", *options), tmp_path)


def test_the_conformance_set_is_clean_under_the_sanitizers(tmp_path: Path) -> None:
    program = cpp_program(CLIENT / "tests" / "conformance.cpp", *SANITIZERS)
    golden, written = tmp_path / "golden", tmp_path / "written"
    golden.mkdir()
    tensors.write_golden(golden)
    (golden / "plain").mkdir()
    tensors.write_plain(golden / "plain")
    run(program, "write", tensors.TENSORS, written)
    assert differences(golden / "dtypes", written / "dtypes") == []
    assert run(program, "read", golden / "plain", golden / "crash") == listing(golden / "plain") + listing(
        golden / "crash"
    )
    assert run(program, "check", cases.CASES, golden) == cases.expected()
    run(program, "draws")


def test_the_header_is_one_file_of_less_than_400_lines() -> None:
    text = (CLIENT / "firstdiff.hpp").read_text(encoding="utf-8")
    assert len(text.splitlines()) < 400
    assert '#include "' not in text
