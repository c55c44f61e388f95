from __future__ import annotations

import json
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

from firstdiff.errors import ReadError
from firstdiff.readers import open_trace
from firstdiff.trace import Record, TraceWriter


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    folder = tmp_path / "a.trace"
    with TraceWriter(folder) as writer:
        for n, name in enumerate(("tokens", "mel")):
            writer.write(Record(name=name, seq=n), np.full(4, n, np.float32))
    return folder


def lines(folder: Path) -> list[str]:
    return (folder / "tensors.jsonl").read_text().splitlines()


def rewrite(folder: Path, *new: str | dict[str, object], end: str = "\n") -> None:
    text = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in new)
    (folder / "tensors.jsonl").write_text(text + end)


def test_only_name_and_file_are_needed(trace: Path) -> None:
    rewrite(trace, {"name": "x", "file": "000001.npy"})
    (trace / "trace.json").write_text('{"format": "firstdiff-trace", "version": 1}')
    found = open_trace(trace)
    assert (found.order, found.warnings) == ("file", ())
    np.testing.assert_array_equal(found["x"].values().read(), np.ones(4, np.float32))


def test_tensors_come_in_the_order_of_seq(trace: Path) -> None:
    rewrite(trace, *reversed(lines(trace)))
    found = open_trace(trace)
    assert ([tensor.name for tensor in found], found.order) == (["tokens", "mel"], "seq")


def test_a_name_that_comes_again_is_the_next_call(trace: Path) -> None:
    rewrite(trace, *({"name": "x", "file": f"00000{n % 2}.npy"} for n in range(3)))
    assert [str(tensor.key) for tensor in open_trace(trace)] == ["x", "x@1", "x@2"]


def test_a_stated_call_that_comes_again_is_a_failed_row(trace: Path) -> None:
    rewrite(trace, *({"name": "x", "call": 1, "file": "000000.npy"} for _ in range(2)))
    assert [tensor.error for tensor in open_trace(trace)] == [None, "x@1 was recorded twice"]


def test_a_torn_last_line_is_ignored_with_a_warning(trace: Path) -> None:
    whole = lines(trace)
    for cut in range(1, len(whole[1])):
        rewrite(trace, whole[0], whole[1][:cut], end="")
        found = open_trace(trace)
        assert [tensor.name for tensor in found] == ["tokens"]
        assert found.warnings == ("the last line of tensors.jsonl was cut off and ignored",)


def test_a_whole_last_line_without_its_newline_counts(trace: Path) -> None:
    rewrite(trace, *lines(trace), end="")
    assert (len(open_trace(trace)), open_trace(trace).warnings) == (2, ())


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{nonsense", "line 1 of tensors.jsonl cannot be read"),
        ("[1, 2]", "it is not an object"),
        ("[" * 100_000, "cannot be read"),
        ({"file": "000000.npy"}, "name is None"),
        ({"name": "x"}, "its file None is not in the trace"),
        ({"name": "x", "file": "gone.npy"}, "its file 'gone.npy' is not in the trace"),
        ({"name": "x", "file": "../secret.npy"}, "its file '../secret.npy' is not in the trace"),
        ({"name": "x", "file": "000000.npy", "dtype": "float3"}, "has elements of type 'float3'"),
        ({"name": "x", "file": "000000.npy", "dtype": "float32", "shape": [-4]}, "has the shape [-4]"),
        (
            {"name": "x", "file": "000000.npy", "dtype": "float32", "shape": [1 << 60]},
            "needs 4,611,686,018,427,387,904 bytes",
        ),
    ],
)
def test_a_bad_line_is_one_failed_row(trace: Path, line: str | dict[str, object], says: str) -> None:
    np.save(trace.parent / "secret.npy", np.zeros(3))
    rewrite(trace, line, lines(trace)[1])
    bad, good = open_trace(trace)
    assert bad.error is not None
    assert says in bad.error
    assert good.values().read().tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("shape", [2, 2], "has shape [4] where its line says [2, 2]"),
        ("dtype", "int32", "has elements of type float32 where its line says int32"),
        ("dtype", "bfloat16", "has elements of type float32 where its line says bfloat16"),
    ],
)
def test_data_that_contradicts_its_line_is_an_error_when_read(
    trace: Path, field: str, value: object, says: str
) -> None:
    rewrite(trace, json.loads(lines(trace)[0]) | {field: value})
    with pytest.raises(ReadError) as raised:
        open_trace(trace).tensors[0].values().read()
    assert says in str(raised.value)
    assert "000000.npy" in str(raised.value)


def test_data_cut_off_is_a_failed_row(trace: Path) -> None:
    (trace / "000000.npy").write_bytes((trace / "000000.npy").read_bytes()[:4])
    assert "was it cut off?" in (open_trace(trace).tensors[0].error or "")


def test_a_newer_version_is_refused(trace: Path) -> None:
    (trace / "trace.json").write_text('{"format": "firstdiff-trace", "version": 2}')
    with pytest.raises(ReadError, match="is a trace of version 2; this firstdiff reads version 1; update firstdiff"):
        open_trace(trace)


@pytest.mark.parametrize("text", [None, "", "{", "[]", '{"format": "other"}'])
def test_a_header_that_is_lost_costs_a_warning_only(trace: Path, text: str | None) -> None:
    if text is None:
        (trace / "trace.json").unlink()
    else:
        (trace / "trace.json").write_text(text)
    found = open_trace(trace)
    assert len(found) == 2
    assert "trace.json is" in found.warnings[0]


def zipped(folder: Path, target: Path, inside: str) -> Path:
    with zipfile.ZipFile(
        target, "w", zipfile.ZIP_DEFLATED if "deflated" in target.name else zipfile.ZIP_STORED
    ) as archive:
        for file in folder.iterdir():
            archive.write(file, f"{inside}{file.name}")
    return target


def tarred(folder: Path, target: Path, inside: str) -> Path:
    with tarfile.open(target, "w:gz" if target.suffix == ".tgz" else "w") as archive:
        for file in folder.iterdir():
            archive.add(file, f"{inside}{file.name}")
    return target


@pytest.mark.parametrize("inside", ["", "runs/a.trace/"])
@pytest.mark.parametrize("target", ["stored.zip", "deflated.zip", "a.tar", "a.tgz"])
def test_an_archive_of_a_trace_is_a_trace(trace: Path, tmp_path: Path, target: str, inside: str) -> None:
    pack = zipped if target.endswith(".zip") else tarred
    found = open_trace(pack(trace, tmp_path / target, inside))
    assert [tensor.name for tensor in found] == ["tokens", "mel"]
    assert found["mel"].values().read().tolist() == [1, 1, 1, 1]
    assert found.order == "seq"


def test_several_traces_in_one_folder_keep_apart(trace: Path, tmp_path: Path) -> None:
    with TraceWriter(tmp_path / "b.trace") as writer:
        writer.write(Record(name="mel", seq=0), np.zeros(2))
    found = open_trace(tmp_path)
    assert [tensor.name for tensor in found] == ["a.trace/tokens", "a.trace/mel", "b.trace/mel"]


def test_an_empty_trace_is_a_trace(tmp_path: Path) -> None:
    with TraceWriter(tmp_path / "a.trace"):
        pass
    assert len(open_trace(tmp_path / "a.trace")) == 0
