"""`make fuzz`: random damage to a small file of every format, for as long as FUZZ_EXAMPLES says.

Each damaged file is opened and read in a child process with bounded memory and time: a crash, a hang, a runaway or any
exception but ReadError is a finding, and the file that caused it is kept.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.readers.damage import SAMPLES, damaged

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "4000"))
BATCH = 200
MEMORY = 3 << 30
SECONDS = 120

READ_ALL = f"""
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, ({MEMORY}, {MEMORY}))
from pathlib import Path
from tests.readers.damage import read_everything
for path in sorted(Path(sys.argv[1]).iterdir()):
    print(path, flush=True)
    read_everything(path)
"""


def main() -> int:
    rng = random.Random(int(os.environ.get("FUZZ_SEED", "0")))
    findings = 0
    for name, sample in SAMPLES.items():
        for batch in range(-(-EXAMPLES // BATCH)):
            findings += _try(name, sample(), rng)
            done = min((batch + 1) * BATCH, EXAMPLES)
            print(f"{name}: {done:,} files, {findings} findings in all", flush=True)
    return 1 if findings else 0


def _try(name: str, sample: bytes, rng: random.Random) -> int:
    with tempfile.TemporaryDirectory(prefix="firstdiff-fuzz-") as folder:
        for n in range(BATCH):
            (Path(folder) / f"{n:04d}.{name}").write_bytes(damaged(sample, rng))
        command = [sys.executable, "-c", READ_ALL, folder]
        environment = {**os.environ, "FIRSTDIFF_CACHE": f"{folder}.cache"}
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=SECONDS, env=environment, check=False
            )
        except subprocess.TimeoutExpired as stopped:
            return _keep(stopped.stdout.decode() if stopped.stdout else "", f"took over {SECONDS} s")
        return _keep(done.stdout, done.stderr[-2000:] or f"exit code {done.returncode}") if done.returncode else 0


def _keep(said: str, why: str) -> int:
    last = Path(said.strip().splitlines()[-1]) if said.strip() else None
    kept = Path("fuzz-findings")
    kept.mkdir(exist_ok=True)
    if last and last.exists():
        (kept / f"{len(list(kept.iterdir())):03d}-{last.name}").write_bytes(last.read_bytes())
    print(f"FOUND {last}: {why}", flush=True)
    return 1


if __name__ == "__main__":
    sys.exit(main())
