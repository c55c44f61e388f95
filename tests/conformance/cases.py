"""Checks that every validator must judge alike; `python -m tests.conformance.cases` writes cases.tsv."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from firstdiff import dtypes
from tests.conformance.tensors import HERE, described, encoded

CASES = HERE / "cases.tsv"
ATOL, RTOL = 1e-4, 1e-3
HEADER = "trace\tname\tchange\tstatus\tbeyond\tnonfinite\tmax\n"
TRACE = "values"
NAN, INF = "0000c07f", "0000807f"

CHANGES = (
    ("normal.float32", "same"),
    ("normal.float32", "set:7:0000c842"),
    ("normal.float32", "set:0:00000000;19:000080c1;3:0000007f"),
    ("normal.float32", f"set:7:{NAN}"),
    ("normal.float32", f"set:7:{INF};8:000080ff;9:0100c0ff"),
    ("normal.float32", "shape:5,4"),
    ("normal.float32", "shape:20"),
    ("normal.float32", "shape:4,5,1"),
    ("normal.float32", "shape:4,6"),
    ("normal.float32", "absent"),
    ("normal.float64", "same"),
    ("normal.float64", "set:19:000000000000f87f"),
    ("normal.float64", "set:19:000000000000f03f"),
    ("normal.float64", "set:0:0100000000000080"),
    ("bits.int64", "same"),
    ("bits.int64", "set:1:ffffffffffffff7f;2:0000000000000080"),
    ("bits.int32", "set:5:ffffff7f"),
    ("bits.uint32", "set:0:ffffffff"),
    ("bits.uint32", "same"),
    ("bits.uint8", "set:3:00;4:ff"),
    ("bits.bool", "same"),
    ("bits.bool", "set:0:00;1:01;2:00"),
    ("halves.float16", "same"),
    ("halves.float16", "set:1:013c"),
    ("halves.float16", "set:0:007e;1:007c"),
    ("halves.bfloat16", "same"),
    ("halves.bfloat16", "set:2:c07f"),
    ("halves.bfloat16", "set:0:813f"),
    ("masked", "same"),
    ("masked", "set:1:00000000"),
    ("empty", "same"),
    ("empty", "shape:3,0"),
)


class Verdict(NamedTuple):
    status: str
    beyond: int | None = None
    nonfinite: int | None = None
    largest: float | None = None

    def fields(self) -> tuple[str, ...]:
        largest = "-" if self.largest is None else struct.pack(">d", self.largest).hex()
        return (
            self.status,
            *("-" if count is None else str(count) for count in (self.beyond, self.nonfinite)),
            largest,
        )


def judged(golden: np.ndarray, change: str) -> Verdict:
    """The plain definition: what a validator says of a golden tensor changed so."""
    if change == "absent":
        return Verdict("error")
    if change.startswith("shape:"):
        shape = tuple(int(n) for n in change.removeprefix("shape:").split(","))
        if int(np.prod(shape)) != golden.size:
            return Verdict("error")  # the slice does not fit the shape
        return Verdict("pass" if shape == golden.shape else "shape")
    candidate = _changed(golden, change)
    if dtypes.kind_of(golden.dtype) != "float":
        differences = [abs(int(a) - int(b)) for a, b in zip(candidate.flat, golden.flat, strict=True)]
        beyond = sum(difference > 0 for difference in differences)
        return Verdict("value" if beyond else "pass", beyond, 0, float(max(differences, default=0)))
    a, b = candidate.astype(np.float64).ravel(), golden.astype(np.float64).ravel()
    finite = np.isfinite(a) & np.isfinite(b)
    difference = np.abs(a[finite] - b[finite])
    beyond = int((difference > ATOL + RTOL * np.abs(b[finite])).sum())
    nonfinite = int((~finite).sum())
    return Verdict("value" if beyond or nonfinite else "pass", beyond, nonfinite, float(difference.max(initial=0.0)))


def _changed(golden: np.ndarray, change: str) -> np.ndarray:
    changed = golden.copy()
    width = golden.dtype.itemsize
    raw = bytearray(changed.tobytes())
    if change != "same":
        for part in change.removeprefix("set:").split(";"):
            place, bits = part.split(":")
            raw[int(place) * width : (int(place) + 1) * width] = bytes.fromhex(bits)
    return np.frombuffer(bytes(raw), dtypes.bits_of(golden.dtype)).view(golden.dtype).reshape(golden.shape)


def lines() -> Iterator[str]:
    """Yield the lines of cases.tsv."""
    golden = {line.name: line.array() for line in described() if line.trace == TRACE}
    with np.errstate(invalid="ignore"):
        for name, change in CHANGES:
            yield "\t".join((TRACE, encoded(name), change, *judged(golden[encoded(name)], change).fields()))


def expected() -> str:
    """Return what `check` must print for the stored cases."""
    kept = CASES.read_text(encoding="ascii").splitlines()[1:]
    return "".join("\t".join(line.split("\t")[3:]) + "\n" for line in kept)


if __name__ == "__main__":
    Path(CASES).write_text(HEADER + "".join(line + "\n" for line in lines()), encoding="ascii", newline="\n")
