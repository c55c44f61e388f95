"""The listing of a trace that `read` prints, and the check of what `write` wrote."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import numpy as np

from firstdiff import dtypes
from firstdiff.readers import open_trace
from tests.conformance.tensors import encoded


@cache
def listing(folder: Path) -> str:
    """Say what is in a trace, as README.md describes."""
    if not (folder / "tensors.jsonl").exists():
        files = sorted(folder.rglob("*.npy"), key=lambda file: _name_below(folder, file).encode())
        return "plain\n" + "".join(_line(_name_below(folder, file), np.load(file)) for file in files)
    trace = open_trace(folder)
    lines = ["complete\n" if trace.header.get("complete") else "incomplete\n"]
    for tensor in trace:
        key = tensor.key
        fields = (key.call, key.step, tensor.record.role or "output", encoded(key.slot), key.rank)
        lines.append(_line(key.name, tensor.values().read(), *fields))
    return "".join(lines)


def _line(name: str, values: np.ndarray, *fields: object) -> str:
    shape = ",".join(map(str, values.shape)) or "scalar"
    fields = fields or (0, 0, "output", "0", 0)
    return "\t".join(map(str, (encoded(name), *fields, dtypes.name_of(values.dtype), shape, _fnv(values)))) + "\n"


def _fnv(values: np.ndarray) -> str:
    little = values if dtypes.is_extended(values.dtype) else values.astype(values.dtype.newbyteorder("<"))
    hashed = 0xCBF29CE484222325
    for byte in little.tobytes(order="C"):
        hashed = (hashed ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{hashed:016x}"


def _name_below(folder: Path, file: Path) -> str:
    return file.relative_to(folder).as_posix().removesuffix(".npy")


def differences(golden: Path, written: Path) -> list[str]:
    """Return the differences of a client's trace from Python's: header, records as read back, data byte for byte."""
    found = []
    header = json.loads((written / "trace.json").read_text(encoding="utf-8"))
    wanted = json.loads((golden / "trace.json").read_text(encoding="utf-8"))
    found += [
        f"trace.json: {name} is {header.get(name)!r} where {wanted[name]!r} was expected"
        for name in ("format", "version", "complete", "tensors")
        if name in wanted and header.get(name) != wanted[name]
    ]
    ours, theirs = open_trace(golden), open_trace(written)
    if len(ours.tensors) != len(theirs.tensors):
        found.append(f"{len(theirs.tensors)} tensors where {len(ours.tensors)} were expected")
    for reference, tensor in zip(ours.tensors, theirs.tensors, strict=False):
        if tensor.error is not None:
            found.append(f"{tensor.key}: {tensor.error}")
        if reference.record != tensor.record:
            found.append(f"{tensor.record} where {reference.record} was expected")
    files = [f"{number:06d}.npy" for number in range(len(ours.tensors))]
    found += [f"{file} differs" for file in files if not _same_bytes(golden / file, written / file)]
    extra = {file.name for file in written.iterdir()} - {"trace.json", "tensors.jsonl", *files}
    return found + [f"{name} should not be there" for name in sorted(extra)]


def _same_bytes(one: Path, other: Path) -> bool:
    return other.exists() and one.read_bytes() == other.read_bytes()
