from __future__ import annotations

import hashlib

import pytest

from firstdiff.store import Store
from firstdiff.store.uploads import OffsetError


def put(store: Store, upload: str, offset: int, data: bytes, number: int = 0) -> int:
    return store.uploads.put(upload, number, offset, data, hashlib.sha256(data).hexdigest())


def test_bytes_of_a_piece_that_was_never_counted_are_written_over(store: Store) -> None:
    upload = store.uploads.begin([("x", 6)]).id
    put(store, upload, 0, b"abc")
    path = store.home.upload(upload, 0)
    path.write_bytes(b"abcXXXXXX")  # what a server that was killed had written
    assert put(store, upload, 3, b"def") == 6
    assert path.read_bytes() == b"abcdef"
    with pytest.raises(OffsetError) as wrong:
        put(store, upload, 0, b"abc")
    assert wrong.value.have == 6


def test_an_empty_file_is_there_from_the_start(store: Store) -> None:
    upload = store.uploads.begin([("x", 0)])
    assert upload.complete
    assert store.home.upload(upload.id, 0).read_bytes() == b""


@pytest.mark.parametrize(
    ("names", "label"),
    [
        (["run.zip"], "run.zip"),
        (["folder/run.zip"], "run.zip"),
        (["dump/a.npy", "dump/deep/b.npy"], "dump"),
        (["dump\\a.npy", "dump\\b.npy"], "dump"),
        (["a.npy", "b.npy"], "2 files"),
        (["one/a.npy", "two/b.npy"], "2 files"),
        (["one/a.npy", "b.npy"], "2 files"),
    ],
)
def test_an_upload_is_called_after_what_it_holds(store: Store, names: list[str], label: str) -> None:
    assert store.uploads.begin([(name, 0) for name in names]).label == label


def test_the_newest_of_two_unfinished_ones_is_gone_on_with(store: Store) -> None:
    first, second = (store.uploads.begin([("x", 9)]).id for _ in range(2))
    found = store.uploads.find([("x", 9)], [["unknown"]])
    assert found is not None
    assert found.id == second != first
    assert store.uploads.find([("x", 9)], []) is None
    assert store.uploads.find([], []) is None
