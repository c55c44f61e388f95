"""Conformance program of the recorder at the end of docs/trace-format.md: `write` and `crash`."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from dataclasses import astuple, fields, replace
from pathlib import Path

from tests.clients.cpp import ROOT, c_program
from tests.conformance import tensors

PAGE = ROOT / "docs" / "trace-format.md"
DRIVER = Path(__file__).parent / "c_recorder.c"


def blocks() -> list[str]:
    """The C of the page: the recorder, and a program that uses it."""
    return re.findall(r"^```c\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def recorder_program(folder: Path, *options: str) -> Path:
    """Compile the page's recorder into the program that reads tensors.tsv."""
    recorder = folder / "recorder.c"
    recorder.write_text(blocks()[0], encoding="utf-8")
    return c_program(DRIVER, f'-DRECORDER="{recorder}"', *options)


def write_table(table: Path) -> Path:
    """Write tensors.tsv with all values as `hex:`, so that the program needs no generator."""
    rows = [tuple(field.name for field in fields(tensors.Described))]
    for line in tensors.described():
        data = line.array()
        rows.append(astuple(replace(line, values=f"hex:{data.tobytes().hex()}")))
    table.write_text("".join("\t".join(map(str, row)) + "\n" for row in rows), encoding="ascii", newline="\n")
    return table


def main(program: str, command: str, _: str, folder: str) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        table = write_table(Path(scratch) / "tensors.tsv")
        sys.exit(subprocess.run([program, command, str(table), folder], check=False).returncode != 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
