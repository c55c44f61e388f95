"""Whole commands: how long they take, start-up included, and how much memory they use at the most."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple


class Cost(NamedTuple):
    """`seconds` on the clock, `cpu` seconds of all threads, and the peak of memory."""

    seconds: float
    peak_mb: float
    cpu: float


def firstdiff(*words: object) -> list[str]:
    """The command line as users start it."""
    return [str(Path(sys.executable).with_name("firstdiff")), *map(str, words)]


def script(code: str, *words: object) -> list[str]:
    return [sys.executable, "-c", code, *map(str, words)]


# a small process of its own starts the command: what a child inherits of a large parent would count as its peak
_MEASURE = """
import json, os, subprocess, sys, time
begun = time.perf_counter()
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
_, status, usage = os.wait4(process.pid, 0)
cpu = usage.ru_utime + usage.ru_stime
print(json.dumps([time.perf_counter() - begun, usage.ru_maxrss / 1024, cpu, os.waitstatus_to_exitcode(status)]))
"""


# an installed package has its bytecode beside it, as numpy and torch have here; so must ours, whatever the shell says
_ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def cost(command: list[str], *, expect: tuple[int, ...] = (0,)) -> Cost:
    """Run a command once; an exit code that was not expected is an error, not a number."""
    measured = [sys.executable, "-S", "-c", _MEASURE, *command]
    done = subprocess.run(measured, capture_output=True, text=True, check=True, env=_ENVIRONMENT)
    seconds, peak_mb, cpu, code = json.loads(done.stdout)
    if code not in expect:
        raise RuntimeError(f"{command[:3]} ended with {code}: {done.stderr[-500:]}")
    return Cost(seconds, peak_mb, cpu)


def median_cost(command: list[str], times: int = 5, *, expect: tuple[int, ...] = (0,)) -> Cost:
    costs = [cost(command, expect=expect) for _ in range(times)]
    seconds, cpu = (statistics.median(figures) for figures in ([c.seconds for c in costs], [c.cpu for c in costs]))
    return Cost(seconds, max(c.peak_mb for c in costs), cpu)
