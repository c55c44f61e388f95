"""A scratch project: a reference and a port as small programs that record without a library and start fast."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

RECORDER = """
import fnmatch, json, os, struct, sys

FOLDER = os.environ["FIRSTDIFF_TRACE"]
ONLY = [glob for glob in os.environ.get("FIRSTDIFF_ONLY", "").split(",") if glob]
os.makedirs(FOLDER)
with open(os.path.join(FOLDER, "trace.json"), "w") as file:
    json.dump({"format": "firstdiff-trace", "version": 1, **json.loads(os.environ.get("HEADER", "{}"))}, file)
LINES = open(os.path.join(FOLDER, "tensors.jsonl"), "w")
COUNT = 0


def tap(name, values, shape=None, **more):
    global COUNT
    if ONLY and not any(fnmatch.fnmatchcase(name, glob) for glob in ONLY):
        return values
    shape = [len(values)] if shape is None else shape
    whole = all(isinstance(value, int) for value in values)
    descr = "<i8" if whole else "<f4"
    head = "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }" % (descr, "".join(f"{n}, " for n in shape))
    head += " " * (63 - (10 + len(head)) % 64) + "\\n"
    with open(os.path.join(FOLDER, f"{COUNT:06d}.npy"), "wb") as file:
        file.write(b"\\x93NUMPY\\x01\\x00" + struct.pack("<H", len(head)) + head.encode())
        file.write(struct.pack(f"<{len(values)}{'q' if whole else 'f'}", *values))
    line = {"name": name, "file": f"{COUNT:06d}.npy", "seq": COUNT, "dtype": "int64" if whole else "float32"}
    LINES.write(json.dumps({**line, "shape": shape, **more}) + "\\n")
    LINES.flush()
    COUNT += 1
    return values
"""

PROGRAM = """
import math, sys
from recorder import tap

ids = [int(word) for word in open(sys.argv[1]).read().split()]
tap("tokens", ids)
embedded = tap("embed.out", [math.sin(3.7 * n + k) for n in ids for k in range(4)], [len(ids), 4])
normed = tap("encoder.norm", [x / 1.5 for x in embedded], [len(ids), 4])
mixed = tap("encoder.mix", [math.tanh(x) + 0.1 * k for k, x in enumerate(normed)], [len(ids), 4])
tap("head.logits", [2.0 * x for x in mixed], [len(ids), 4])
print("done with", len(ids))
"""

COMPONENTS = """
[components]
tokenizer = ["tokens*"]
embedding = ["embed.*"]
encoder = ["encoder.*"]
head = ["head.*"]
"""


def python(*words: str) -> str:
    """A command, as TOML, that runs this Python."""
    return json.dumps([sys.executable, "-S", *words])


def scratch_project(folder: Path, *, port: str = PROGRAM, more: str = "", components: str = COMPONENTS) -> Path:
    """Write a project with one input set, `short`, whose port is the reference's program or another."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "recorder.py").write_text(RECORDER, encoding="utf-8")
    (folder / "reference.py").write_text(PROGRAM, encoding="utf-8")
    write_port(folder, port)
    (folder / "ids.txt").write_text("3 1 4 1 5", encoding="utf-8")
    (folder / "weights.bin").write_bytes(b"weights")
    text = f"""
[reference]
command = {python("reference.py", "{input.ids}")}
[candidate]
command = {python("port.py", "{input.ids}")}
timeout = 20
[inputs.short]
ids = "ids.txt"
[golden]
files = {{ weights = "weights.bin" }}
{more}
{components}
"""
    (folder / "firstdiff.toml").write_text(text, encoding="utf-8")
    return folder


def write_port(folder: Path, text: str) -> None:
    (folder / "port.py").write_text(text, encoding="utf-8")


def changed(old: str, new: str, text: str = PROGRAM) -> str:
    """The program with one thing changed."""
    assert old in text, f"{old!r} is not in the program"
    return text.replace(old, new)


def gone(pid: int) -> bool:
    """Wait until a process has ended; False where it lives on."""
    for _ in range(100):
        try:
            os.kill(pid, 0)
        except OSError:
            return True
        if Path(f"/proc/{pid}/stat").exists() and Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z":
            return True
        time.sleep(0.05)
    return False
