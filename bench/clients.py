"""Clients: recording from other languages beside writing the same values to plain files."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
from collections.abc import Callable
from pathlib import Path

from bench.row import Row, at_least

ROOT = Path(__file__).parent.parent
ROUNDS = 9
SIZES = ((1000, 1 << 12), (64, 1 << 20))  # tensors, float32 elements of each


def run(folder: Path) -> list[Row]:
    """The rows of this part; a client whose compiler is missing has none."""
    # the recorder's own cost is what counts here, so no disk takes part where memory can stand in for it
    memory = Path("/dev/shm")
    base = memory / folder.name if memory.is_dir() else folder / "files"
    programs = {name: built for name, build in BUILDS.items() if (built := build(folder)) is not None}
    try:
        base.mkdir()
        return [row for name, program in programs.items() for size in SIZES for row in _rows(name, program, size, base)]
    finally:
        shutil.rmtree(base, ignore_errors=True)


def _rows(name: str, program: Path, size: tuple[int, int], base: Path) -> list[Row]:
    count, elements = size
    rounds = [[_cpu_seconds(program, mode, base / mode, size) for mode in ("record", "plain")] for _ in range(ROUNDS)]
    recording, plain = (statistics.median(times) for times in zip(*rounds, strict=True))
    what = f"{name}: {count:,} tensors of {elements * 4 // 1024:,} KB"
    return [
        Row(f"{what}, recorded", recording, "s"),
        at_least(f"{what}, speed beside plain files", 100 * plain / recording, "%", 70),
    ]


def _cpu_seconds(program: Path, mode: str, folder: Path, size: tuple[int, int]) -> float:
    """CPU time of one run; other programs on the machine would spoil any other time."""
    process = subprocess.Popen([program, mode, folder, *map(str, size)])
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    shutil.rmtree(folder)
    if process.returncode:
        raise RuntimeError(f"{program.name} {mode} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime


def _rust(_: Path) -> Path | None:
    if shutil.which("cargo") is None:
        return None
    crate = ROOT / "clients" / "rust"
    places = ["--manifest-path", crate / "Cargo.toml", "--target-dir", crate / "target"]
    subprocess.run(["cargo", "build", "--offline", "--quiet", "--release", "--example", "bench", *places], check=True)
    return crate / "target" / "release" / "examples" / "bench"


def _cpp(folder: Path) -> Path | None:
    if shutil.which("g++") is None:
        return None
    program = folder / "cpp-bench"
    source = ROOT / "clients" / "cpp" / "tests" / "bench.cpp"
    subprocess.run(["g++", "-std=c++17", "-O2", source, "-o", program], check=True)
    return program


BUILDS: dict[str, Callable[[Path], Path | None]] = {"Rust": _rust, "C++": _cpp}
