"""Zips that are alike but for their checksums share a directory, and no others do."""

from __future__ import annotations

from pathlib import Path
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile

import pytest

from firstdiff.readers.archive import Directory, open_member, read_directory
from firstdiff.readers.blob import file_blob


def zipped(path: Path, members: dict[str, bytes], method: int = ZIP_STORED) -> Directory:
    with ZipFile(path, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return read_directory(file_blob(path))


def contents(path: Path, directory: Directory) -> dict[str, bytes]:
    blob = file_blob(path)
    return {member.name: open_member(blob, member).head(member.size) for member in directory.members}


FIRST = {"one": b"1111", "two": b"22222"}


@pytest.fixture
def first(tmp_path: Path) -> Directory:
    return zipped(tmp_path / "first.zip", FIRST)


def test_other_bytes_share_the_directory_and_are_read_as_they_are(tmp_path: Path, first: Directory) -> None:
    other = {"one": b"abcd", "two": b"efghi"}
    second = zipped(tmp_path / "second.zip", other)
    assert second is first
    assert contents(tmp_path / "second.zip", second) == other
    assert contents(tmp_path / "first.zip", first) == FIRST


@pytest.mark.parametrize(
    "other",
    [{"one": b"1111", "too": b"22222"}, {"one": b"11111", "two": b"2222"}, {"two": b"22222", "one": b"1111"}, {}],
    ids=["a name", "sizes", "the order", "nothing in it"],
)
def test_another_directory_is_read_anew(tmp_path: Path, first: Directory, other: dict[str, bytes]) -> None:
    second = zipped(tmp_path / "second.zip", other)
    assert second is not first
    assert contents(tmp_path / "second.zip", second) == other


def test_what_is_in_front_of_an_archive_counts(tmp_path: Path, first: Directory) -> None:
    data = (tmp_path / "first.zip").read_bytes()
    (tmp_path / "moved.zip").write_bytes(b"#!" + data)
    moved = read_directory(file_blob(tmp_path / "moved.zip"))
    assert moved is not first
    assert contents(tmp_path / "moved.zip", moved) == FIRST


def test_packed_members_keep_their_own_checksums(tmp_path: Path) -> None:
    first, second = (
        zipped(tmp_path / name, {"one": data * 9}, ZIP_DEFLATED) for name, data in (("a", b"x"), ("b", b"y"))
    )
    assert first.members[0].crc != second.members[0].crc
