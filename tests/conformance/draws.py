"""The draws that the generator of every language must print; `python -m tests.conformance.draws` writes draws.txt."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from firstdiff.rng import Rng

GOLDEN = Path(__file__).parent / "draws.txt"
SEED, STREAM, COUNT = 0x0123456789ABCDEF, 0xFEDCBA9876543210, 1000
JUMP = 4294967311  # words; takes the block counter beyond 32 bits


def drawn() -> str:
    """Every kind as a heading and one hexadecimal line a draw; each kind begins with a new generator."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# next_u32"
    yield from (f"{word:08x}" for word in _rng().words(COUNT))
    yield "# jumps"
    rng = _rng()
    for number in range(COUNT):
        rng.position = number * JUMP
        yield f"{rng.next_u32():08x}"
    yield "# uniform"
    yield from (f"{bits:016x}" for bits in _rng().uniform(COUNT).view(np.uint64))
    yield "# uniform_f32"
    yield from (f"{bits:08x}" for bits in _rng().uniform_f32(COUNT).view(np.uint32))
    yield "# normal"
    yield from (f"{bits:016x}" for bits in _rng().normal(COUNT).view(np.uint64))
    yield "# gumbel"
    yield from (f"{bits:016x}" for bits in _rng().gumbel(COUNT).view(np.uint64))
    yield "# integers 0 10"
    yield from map(str, _rng().integers(0, 10, COUNT))
    yield "# integers -1000 3221224472"  # a quarter of the words is rejected
    yield from map(str, _rng().integers(-1000, 3221224472, COUNT))
    yield "# integers 0 4294967296"
    yield from map(str, _rng().integers(0, 1 << 32, COUNT))
    yield "# permutation 1000"
    yield from map(str, _rng().permutation(COUNT))


def _rng() -> Rng:
    return Rng(SEED, STREAM)


if __name__ == "__main__":
    GOLDEN.write_text(drawn(), encoding="ascii", newline="\n")
