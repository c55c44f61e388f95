"""Opening what users have: folders and files nobody wrote for firstdiff."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest

from firstdiff.errors import ReadError
from firstdiff.readers import open_trace


def save(folder: Path, *names: str) -> Path:
    for number, name in enumerate(names):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".npz":
            np.savez(path, a=number, b=number)
        else:
            np.save(path, np.float32(number))
    return folder


def names(path: Path, **options: object) -> list[str]:
    return [tensor.name for tensor in open_trace(path, **options)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("files", "expected", "order"),
    [
        (["10_c.npy", "2_b.npy", "1_a.npy"], ["1_a", "2_b", "10_c"], "numbered"),
        (["0_key.npy", "0_query.npy", "1_key.npy"], ["0_query", "0_key", "1_key"], "layer_stage"),
        (["h.10.npy", "h.9.npy"], ["h.9", "h.10"], "natural"),
        (["one.npz"], ["a", "b"], "natural"),
        (["one.npz", "two.npz"], ["one.a", "one.b", "two.a", "two.b"], "natural"),
        (["one.npz", "x.npy"], ["a", "b", "x"], "natural"),
        (["deep/er/x.npy", "y.npy"], ["y", "x"], "natural"),
        (["p/x.npy", "q/x.npy", "q/y.npy"], ["p/x", "q/x", "y"], "natural"),
    ],
)
def test_names_and_order_of_a_folder(tmp_path: Path, files: list[str], expected: list[str], order: str) -> None:
    trace = open_trace(save(tmp_path, *files))
    assert ([tensor.name for tensor in trace], trace.order) == (expected, order)


def test_the_order_can_be_stated(tmp_path: Path) -> None:
    save(tmp_path, "0_value.npy", "0_key.npy", "0_query.npy")
    assert names(tmp_path) == ["0_query", "0_key", "0_value"]
    assert names(tmp_path, order="natural") == ["0_key", "0_query", "0_value"]


def test_one_file_is_a_trace(tmp_path: Path) -> None:
    save(tmp_path, "mel.npy", "many.npz")
    assert names(tmp_path / "mel.npy") == ["mel"]
    assert names(tmp_path / "many.npz") == ["a", "b"]


def test_one_bad_file_is_one_failed_row(tmp_path: Path) -> None:
    save(tmp_path, "a.npy", "b.npy")
    (tmp_path / "bad.npy").write_bytes(b"nonsense")
    assert {tensor.name: tensor.error for tensor in open_trace(tmp_path)} == {
        "a": None,
        "b": None,
        "bad": "does not start as a .npy file does",
    }


def test_files_of_no_known_format_are_named_and_junk_is_not(tmp_path: Path) -> None:
    save(tmp_path, "a.npy")
    for name in ("README.txt", "notes.md", ".DS_Store", "Thumbs.db"):
        (tmp_path / name).write_text("x")
    save(tmp_path, "__MACOSX/b.npy", ".hidden/c.npy")
    trace = open_trace(tmp_path)
    assert [tensor.name for tensor in trace] == ["a"]
    assert trace.warnings == ("left out, since no reader knows them: README.txt, notes.md",)


def test_the_content_decides_when_it_contradicts_the_name(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", a=1)
    np.save(tmp_path / "y.npy", 2)
    (tmp_path / "y.npy").rename(tmp_path / "y.npz")
    trace = open_trace(tmp_path)
    assert {tensor.name: int(tensor.values().read()) for tensor in trace} == {"a": 1, "y": 2}
    assert trace.warnings == ("y.npz is not npz but npy, and was read as that",)


@pytest.mark.parametrize(
    ("make", "path", "says"),
    [
        (lambda root: save(root, "reference.npy"), "refrence.npy", "does not exist (did you mean reference.npy?)"),
        (lambda root: None, "no/such/file", "does not exist, and neither does the folder"),
        (lambda root: (root / "e.npy").touch(), "e.npy", "is empty"),
        (lambda root: (root / "e").mkdir(), "e", "holds no tensors"),
        (lambda root: (root / "x.txt").write_text("hello"), "x.txt", "is of no format that firstdiff reads"),
    ],
)
def test_what_cannot_be_opened_is_one_sentence(tmp_path: Path, make: object, path: str, says: str) -> None:
    make(tmp_path)  # type: ignore[operator]
    with pytest.raises(ReadError) as raised:
        open_trace(tmp_path / path)
    assert str(raised.value).startswith(str(tmp_path / path) + ": ")
    assert says in str(raised.value)
    assert "\n" not in str(raised.value)


HOSTILE = [
    "<script>alert(1)<",
    "new\nline",
    "ünï—코드",
    "sp ace",
    "quote'\"",
    "-rf",
    "[bold]x",
    "\x1b[31mred",
    "a" * 200,
]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such names")
def test_hostile_names_are_just_names(tmp_path: Path) -> None:
    save(tmp_path, *(f"{name}.npy" for name in HOSTILE))
    assert sorted(names(tmp_path)) == sorted(HOSTILE)
    (tmp_path / os.fsdecode(b"bad\xff.npy")).write_bytes((tmp_path / "sp ace.npy").read_bytes())
    assert "bad\ufffd" in names(tmp_path)


@pytest.mark.skipif(sys.platform == "win32", reason="needs links and pipes")
def test_links_pipes_and_loops_do_no_harm(tmp_path: Path) -> None:
    save(tmp_path, "a.npy")
    (tmp_path / "linked.npy").symlink_to(tmp_path / "a.npy")
    (tmp_path / "broken.npy").symlink_to(tmp_path / "nowhere")
    (tmp_path / "loop").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "pipe.npy")
    trace = open_trace(tmp_path)
    assert {tensor.name: tensor.error for tensor in trace} == {
        "a": None,
        "linked": None,
        "broken.npy": "is a link that leads nowhere",
        "pipe.npy": "is not a plain file",
    }
    assert "is a link to a folder and was not followed" in trace.warnings[0]
    with pytest.raises(ReadError, match="is neither a file nor a folder"):
        open_trace(tmp_path / "pipe.npy")


@pytest.mark.skipif(sys.platform == "win32", reason="permissions are another matter there")
def test_a_file_without_permission_is_a_failed_row(tmp_path: Path, as_nobody: None) -> None:
    save(tmp_path, "a.npy", "b.npy")
    (tmp_path / "b.npy").chmod(0)
    assert {tensor.name: tensor.error for tensor in open_trace(tmp_path)} == {
        "a": None,
        "b": "may not be read; check its permissions",
    }
    (tmp_path / "a.npy").chmod(0)
    with pytest.raises(ReadError, match=r"a\.npy: may not be read; check its permissions"):
        open_trace(tmp_path / "a.npy")


@pytest.fixture
def as_nobody(tmp_path: Path) -> object:
    """Root may read everything: step down to a user who may not, for the time of the test."""
    if os.geteuid() != 0:
        yield
        return
    for folder in (tmp_path, *tmp_path.parents):
        if folder != folder.parent and folder.stat().st_uid == 0 and str(folder).startswith("/tmp/"):
            folder.chmod(0o777)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_hundred_thousand_files(tmp_path: Path) -> None:
    np.save(tmp_path / "0.npy", np.zeros(2))
    folders = [tmp_path / str(n) for n in range(4)]
    for folder in folders:
        folder.mkdir()
        np.save(folder / "0.npy", np.zeros(2))
        for n in range(1, 25_000):
            os.link(folder / "0.npy", folder / f"{folder.name}_{n}.npy")
    seen = []
    trace = open_trace(tmp_path, progress=lambda done, total: seen.append((done, total)))
    assert len(trace) == 4 * 25_000 + 1
    assert seen[-1] == (len(trace), len(trace))
    assert trace["3_24999"].values().read().tolist() == [0, 0]
