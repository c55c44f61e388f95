"""Python's own program for the conformance set, as README.md describes it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import firstdiff as fd
from tests.conformance import draws, tensors
from tests.conformance.listing import listing


def main(command: str, *arguments: str) -> None:
    if command == "draws":
        sys.stdout.write(draws.drawn())
    elif command == "read":
        sys.stdout.write("".join(listing(Path(folder)) for folder in arguments))
    else:
        _write(Path(arguments[1]), crash=command == "crash")


def _write(folder: Path, *, crash: bool) -> None:
    for trace, lines in tensors.by_trace().items():
        if (trace == tensors.CRASH) != crash:
            continue
        if any(line.role != "tap" or line.slot != "0" or line.op != "-" for line in lines):
            tensors.write_trace(folder / trace, lines).close()  # what only a writer, and no tap, can say
            continue
        with fd.record(folder / trace, rank=lines[0].rank, world=lines[0].world) as recording:
            for line in lines:
                recording.tap(line.record(0).name, line.array(), step=line.step)
            if crash:
                os.abort()


if __name__ == "__main__":
    main(*sys.argv[1:])
