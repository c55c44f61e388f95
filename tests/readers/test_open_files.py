from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest

from firstdiff.errors import ReadError
from firstdiff.readers import open_files
from firstdiff.trace import Record, TraceWriter


def saved(folder: Path, number: int, values: object) -> Path:
    path = folder / f"{number:06d}"
    with path.open("wb") as file:
        np.save(file, np.asarray(values))
    return path


def test_files_are_known_by_their_own_names(tmp_path: Path) -> None:
    files = [("d/b.npy", saved(tmp_path, 0, [1.0])), ("d\\a.npy", saved(tmp_path, 1, [2.0])), ("d/.x", tmp_path)]
    trace = open_files("d", files[:2])
    assert [(tensor.name, tensor.values().window(0, 1).tolist()) for tensor in trace] == [("a", [2.0]), ("b", [1.0])]
    assert trace.path == "d"


def test_a_recorded_trace(tmp_path: Path) -> None:
    with TraceWriter(tmp_path / "t") as writer:
        writer.write(Record(name="x", seq=0), np.ones(3))
    trace = open_files("t", [(f"t/{path.name}", path) for path in (tmp_path / "t").iterdir()])
    assert [tensor.name for tensor in trace] == ["x"]


def test_one_archive_is_opened_as_one(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "0", "w") as packed:
        packed.write(saved(tmp_path, 1, [1.0]), "x.npy")
    assert [tensor.name for tensor in open_files("run.zip", [("run.zip", tmp_path / "0")])] == ["x"]


@pytest.mark.parametrize(
    ("name", "says"), [("../x.npy", "points out of its archive"), ("/x.npy", "absolute"), ("C:\\x.npy", "absolute")]
)
def test_a_hostile_name_is_refused_and_the_others_open(tmp_path: Path, name: str, says: str) -> None:
    path = saved(tmp_path, 0, [1.0])
    trace = open_files("both", [(name, path), ("y.npy", path)])
    errors = {tensor.name: tensor.error for tensor in trace}
    assert errors["y"] is None
    assert sum(says in (error or "") for error in errors.values()) == 1


def test_what_is_wrong_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "0").write_bytes(b"")
    with pytest.raises(ReadError, match=r"^x\.npy: is empty$"):
        open_files("x.npy", [("x.npy", tmp_path / "0")])
    with pytest.raises(ReadError, match=r"^y: holds no tensors"):
        open_files("y", [("a.txt", tmp_path / "0"), ("b.txt", tmp_path / "0")])
    with pytest.raises(ReadError, match="is gone"):
        open_files("z.npy", [("z.npy", tmp_path / "none")]).tensors[0].values()
