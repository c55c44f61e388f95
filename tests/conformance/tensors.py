"""The tensors that every client writes; `python -m tests.conformance.tensors` writes tensors.tsv and cases.tsv."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import astuple, dataclass, fields
from itertools import groupby
from pathlib import Path
from urllib.parse import quote, unquote

import numpy as np

from firstdiff import dtypes
from firstdiff.rng import Rng
from firstdiff.trace import LINES, Record, TraceWriter

HERE = Path(__file__).parent
TENSORS = HERE / "tensors.tsv"
SEED = 33
CRASH = "crash"

NAMES = (
    "plain",
    "layers.0.attn.q_proj",
    "with space",
    "日本語/注意",
    "emoji 🧮",
    "é composed and e\u0301 decomposed",
    "../../etc/passwd",
    "..",
    "/absolute/path",
    "C:\\windows\\path",
    "a/b/../c",
    "000000.npy",
    "trace.json",
    'quotes " and \\ backslash',
    "tab\tand newline\n",
    "\x01 control \x1f and \x7f",
    "line separators \u2028 \u2029",
    "layers.0@1:in.0#s2",
    "a + b",
    "100%",
    "long " + "x" * 400,
)
NONFINITE = {
    "float32": ("0000c07f", "0100c07f", "010080ff", "0000807f", "000080ff", "00000080", "01000000", "ffff7f7f"),
    "float64": ("010000000000f87f", "010000000000f07f", "000000000000f0ff", "0000000000000080", "0100000000000000"),
    "float16": ("007e", "017c", "00fc", "0080", "0100", "ff7b"),
    "bfloat16": ("c07f", "817f", "80ff", "0080", "0100", "7f7f"),
}


@dataclass(frozen=True)
class Described:
    """One line of tensors.tsv."""

    trace: str
    rank: int
    world: int
    name: str
    role: str
    slot: str
    step: int
    op: str
    dims: str
    dtype: str
    shape: str
    stream: int
    values: str

    def array(self) -> np.ndarray:
        """The values, in the true type."""
        dtype = dtypes.from_name(self.dtype)
        shape = tuple(int(n) for n in self.shape.split(",")) if self.shape != "scalar" else ()
        size = int(np.prod(shape, dtype=np.int64))
        if self.values.startswith("hex:"):
            data = bytes.fromhex(self.values.removeprefix("hex:"))
        elif self.values == "normal":
            data = Rng(SEED, self.stream).normal(size).astype(dtype).tobytes()
        else:
            data = Rng(SEED, self.stream).words(-(-size * dtype.itemsize // 4)).tobytes()[: size * dtype.itemsize]
        if self.dtype == "bool":
            data = (np.frombuffer(data, np.uint8) & 1).tobytes()
        return np.frombuffer(data, dtypes.bits_of(dtype)).view(dtype).reshape(shape)

    def record(self, seq: int) -> Record:
        return Record(
            name=unquote(self.name),
            role=self.role,  # type: ignore[arg-type]
            slot=unquote(self.slot),
            step=self.step,
            rank=self.rank,
            world=self.world,
            seq=seq,
            op=None if self.op == "-" else unquote(self.op),
            dims=None if self.dims == "-" else unquote(self.dims),
        )


def described() -> list[Described]:
    """The lines of tensors.tsv as they are kept."""
    header, *lines = TENSORS.read_text(encoding="ascii").splitlines()
    assert header.split("\t") == [field.name for field in fields(Described)]
    whole = {"rank", "world", "step", "stream"}
    return [
        Described(
            **{
                name: int(text) if name in whole else text
                for name, text in zip(header.split("\t"), line.split("\t"), strict=True)
            }
        )
        for line in lines
    ]


def by_trace() -> dict[str, list[Described]]:
    """The lines of each trace."""
    return {name: list(lines) for name, lines in groupby(described(), key=lambda line: line.trace)}


def write_trace(folder: Path, lines: list[Described]) -> TraceWriter:
    """Write the tensors of one trace with Python's writer, which is left open."""
    trace = TraceWriter(folder, producer={"name": "conformance"})
    for seq, line in enumerate(lines):
        trace.write(line.record(seq), line.array())
    return trace


def write_golden(folder: Path) -> None:
    """Write every trace; `crash` is not complete, and has half a line with its data at the end."""
    for name, lines in by_trace().items():
        trace = write_trace(folder / name, lines)
        trace.close(complete=name != CRASH)
    with (folder / CRASH / LINES).open("a", encoding="utf-8") as torn:
        torn.write('{"name": "torn", "file": "0000')
    np.save(folder / CRASH / "000005.npy", np.zeros(3))


def write_plain(folder: Path) -> None:
    """A golden folder as people save them: subfolders, either order of axes and bytes, two versions of headers."""
    values = np.arange(24, dtype=np.float32).reshape(2, 3, 4) / 7
    (folder / "decoder" / "0").mkdir(parents=True)
    np.save(folder / "plain.npy", values)
    np.save(folder / "fortran.npy", np.asfortranarray(values))
    np.save(folder / "big_endian.npy", values.astype(">f4"))
    np.save(folder / "decoder" / "0" / "fortran_big.npy", np.asfortranarray(values.astype(">f8")))
    np.save(folder / "decoder" / "ids.npy", np.arange(-5, 5, dtype=">i8"))
    np.save(folder / "decoder" / "0" / "mask.npy", np.array([[True, False], [False, True]], order="F"))
    np.save(folder / "empty.npy", np.zeros((0, 3), np.int32))
    np.save(folder / "scalar.npy", np.float64(2.5))
    with (folder / "version2.npy").open("wb") as file:
        np.lib.format.write_array(file, values.astype(np.float16), version=(2, 0))


def _lines() -> Iterator[Described]:
    """Every line with a stream of its own."""
    for stream, line in enumerate(_without_streams()):
        yield Described(*astuple(line)[:-2], stream, line.values)


def _without_streams() -> Iterator[Described]:
    for dtype in dtypes.BY_NAME:
        for shape in ("scalar", "0", "0,3", "2,0,4", "1", "7", "2,3", "3,1,5", "2,1,3,2,2", "257"):
            yield _line("dtypes", f"{dtype}.{shape}", dtype=dtype, shape=shape)
    for dtype, bits in NONFINITE.items():
        yield _line("dtypes", f"{dtype}.nonfinite", dtype=dtype, shape=str(len(bits)), values="hex:" + "".join(bits))
    for name in NAMES:
        yield _line("names", name, shape="2,3")
    for number in range(1000):
        yield _line(
            "many", f"layers.{number // 8}.{('q', 'k', 'v', 'o', 'up', 'down', 'x', 'x')[number % 8]}", shape="3"
        )
    yield from _steps_and_ranks()
    yield from _fields()
    yield from _values()
    for number in range(5):
        yield _line(CRASH, f"before.{number}", shape="2,2", values="normal")


def _steps_and_ranks() -> Iterator[Described]:
    for step in (0, 1, 2, 10, 1000):
        for _ in range(2):
            yield _line("steps", "hidden", step=step, shape="1,4")
    for rank in range(3):
        for name in ("a", "b", "a"):
            yield _line(f"rank{rank}", name, rank=rank, world=3, step=rank, shape="2")


def _values() -> Iterator[Described]:
    for dtype in ("float32", "float64"):
        yield _line("values", f"normal.{dtype}", dtype=dtype, shape="4,5", values="normal")
    for dtype in ("int64", "int32", "uint32", "uint8", "bool"):
        yield _line("values", f"bits.{dtype}", dtype=dtype, shape="6")
    yield _line("values", "halves.float16", dtype="float16", shape="4", values="hex:003c003800bc0040")
    yield _line("values", "halves.bfloat16", dtype="bfloat16", shape="4", values="hex:803f003f80bf0040")
    yield _line("values", "masked", shape="3", values="hex:0000803f000080ff00000040")
    yield _line("values", "empty", shape="0,3")


def _fields() -> Iterator[Described]:
    for role in ("input", "output", "param", "buffer", "grad", "tap"):
        for slot in ("0", "1", "0.hidden_states", "kw日"):
            yield _line("fields", "layer", role=role, slot=slot)
    yield _line("fields", "norm", role="output", op="LayerNorm", dims="b s h[tp]", shape="1,2,4")
    yield _line("fields", "quoted", op='a "kind" of \\ op', dims="b s", shape="1,2")


def _line(
    trace: str,
    name: str,
    *,
    role: str = "tap",
    slot: str = "0",
    step: int = 0,
    rank: int = 0,
    world: int = 1,
    op: str | None = None,
    dims: str | None = None,
    dtype: str = "float32",
    shape: str = "2",
    values: str = "bits",
) -> Described:
    texts = ["-" if text is None else encoded(text) for text in (op, dims)]
    return Described(trace, rank, world, encoded(name), role, encoded(slot), step, *texts, dtype, shape, 0, values)


def encoded(text: str) -> str:
    """Percent-encode all but letters, digits and `. _ -`; a lone `-`, which means none, too."""
    return "%2D" if text == "-" else quote(text, safe="").replace("~", "%7E")


def _table(rows: list[tuple[object, ...]]) -> str:
    text = "".join("\t".join(map(str, row)) + "\n" for row in rows)
    assert re.fullmatch(r"[ -~\t\n]*", text), "plain ASCII"
    return text


if __name__ == "__main__":
    rows: list[tuple[object, ...]] = [tuple(field.name for field in fields(Described))]
    TENSORS.write_text(_table(rows + [astuple(line) for line in _lines()]), encoding="ascii", newline="\n")
