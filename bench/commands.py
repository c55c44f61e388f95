"""Whole commands: how long they take, start-up included, and how much memory they use at the most."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple


class Cost(NamedTuple):
    seconds: float
    peak_mb: float


def firstdiff(*words: object) -> list[str]:
    """The command line as users start it."""
    return [str(Path(sys.executable).with_name("firstdiff")), *map(str, words)]


def script(code: str, *words: object) -> list[str]:
    return [sys.executable, "-c", code, *map(str, words)]


def cost(command: list[str], *, expect: tuple[int, ...] = (0,)) -> Cost:
    """Run a command once; an exit code that was not expected is an error, not a number."""
    begun = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    said = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - begun
    process.stderr.close()
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in expect:
        raise RuntimeError(f"{command[:3]} ended with {process.returncode}: {said.decode()[-500:]}")
    return Cost(seconds, usage.ru_maxrss / 1024)


def median_cost(command: list[str], times: int = 5, *, expect: tuple[int, ...] = (0,)) -> Cost:
    costs = [cost(command, expect=expect) for _ in range(times)]
    return Cost(statistics.median(c.seconds for c in costs), max(c.peak_mb for c in costs))
