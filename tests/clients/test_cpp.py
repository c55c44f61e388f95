"""The C++ client: what its header promises, plain and under the sanitizers, and its page on ggml."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

import firstdiff as fd
from tests.clients.cpp import ROOT, cpp_program
from tests.conformance import cases, tensors
from tests.conformance.listing import differences, listing

CLIENT = ROOT / "clients" / "cpp"
SANITIZERS = ("-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


def run(program: Path, *arguments: str | Path, **settings: str) -> str:
    """Run a program to its good end; its environment has no settings of firstdiff but these."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("FIRSTDIFF_")}
    done = subprocess.run([program, *arguments], capture_output=True, text=True, env=clean | settings, check=False)
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


def test_the_callback_of_the_ggml_page_records_every_tensor_in_c_order(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "ggml.md").read_text(encoding="utf-8")
    block = re.search(r"^```cpp\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    assert block
    (tmp_path / "page.hpp").write_text(block[1], encoding="utf-8")
    stand_in = Path(__file__).parent / "ggml"
    program = cpp_program(stand_in / "main.cpp", f'-DPAGE="{tmp_path / "page.hpp"}"', f"-I{stand_in}", *SANITIZERS)
    run(program)
    run(program, FIRSTDIFF_TRACE=str(tmp_path / "ggml.trace"))
    trace = fd.open_trace(tmp_path / "ggml.trace")
    names = ["l_out-0", "Qcur-0 (permuted)", "k-0 (view)", "half"]
    assert [str(tensor.key) for tensor in trace] == names + [f"{name}#s1" for name in names]
    numbers = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    plain, permuted, part, half = [tensor.values().read() for tensor in trace][:4]
    np.testing.assert_array_equal(plain, numbers)
    np.testing.assert_array_equal(permuted, numbers.swapaxes(1, 2))
    np.testing.assert_array_equal(part, numbers[0, :, 1:3])
    np.testing.assert_array_equal(half.view(np.uint16), numbers.view(np.uint16).ravel()[:2])
    assert next(iter(trace)).record.op == "ADD"


def test_the_header_is_one_file_of_less_than_400_lines() -> None:
    text = (CLIENT / "firstdiff.hpp").read_text(encoding="utf-8")
    assert len(text.splitlines()) < 400
    assert '#include "' not in text
