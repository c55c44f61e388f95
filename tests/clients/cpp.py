"""Programs in C and C++ that use the clients, compiled by the machine's compiler."""

from __future__ import annotations

import subprocess
import tempfile
from functools import cache
from pathlib import Path

from tests.tools import needs

ROOT = Path(__file__).parents[2]
STRICT = ("-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror")


@cache
def cpp_program(source: Path, *options: str) -> Path:
    """Compile a C++17 program; a warning is an error."""
    return _compiled("g++", source, "-std=c++17", *STRICT, *options)


@cache
def c_program(source: Path, *options: str) -> Path:
    """Compile a C11 program; a warning is an error."""
    return _compiled("gcc", source, "-std=c11", *STRICT, *options)


def _compiled(compiler: str, source: Path, *options: str) -> Path:
    program = Path(tempfile.mkdtemp(prefix="firstdiff-compiled-")) / source.stem
    command = [needs(compiler), *options, f"-I{ROOT / 'clients' / 'cpp'}", str(source), "-o", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return program
