"""Files of a dump that differ in their values alone: one file open, one pickle understood, every value its own."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from firstdiff.errors import ReadError
from firstdiff.readers import open_trace
from firstdiff.readers.blob import Extent, file_kept_open


def packed(path: Path, tensors: dict[str, torch.Tensor]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, tensor in tensors.items():
            out = io.BytesIO()
            torch.save(tensor, out)
            archive.writestr(f"{name}.pth", out.getvalue())
    return path


def test_equal_pickles_have_their_own_values(tmp_path: Path) -> None:
    tensors = {f"{n}_query": torch.full((3, 2), float(n)) for n in range(20)}
    trace = open_trace(packed(tmp_path / "dump.zip", tensors))
    for name, tensor in tensors.items():
        np.testing.assert_array_equal(trace[name].values().view(), tensor.numpy())


def test_an_equal_pickle_over_a_shorter_storage_is_no_tensor(tmp_path: Path) -> None:
    whole = tmp_path / "whole.pth"
    torch.save(torch.arange(6.0), whole)
    cut = tmp_path / "cut.pth"
    with zipfile.ZipFile(whole) as source, zipfile.ZipFile(cut, "w", zipfile.ZIP_STORED) as target:
        for entry in source.infolist():
            data = source.read(entry)
            target.writestr(entry.filename, data[:8] if entry.filename.endswith("data/0") else data)
    trace = open_trace(tmp_path)
    assert trace["whole"].error is None
    assert "needs 24 bytes" in (trace["cut"].error or "")


def test_the_byte_order_tells_equal_pickles_apart(tmp_path: Path) -> None:
    little = tmp_path / "little.pth"
    torch.save(torch.arange(3.0), little)
    with zipfile.ZipFile(little) as source, zipfile.ZipFile(tmp_path / "odd.pth", "w", zipfile.ZIP_STORED) as target:
        for entry in source.infolist():
            data = source.read(entry)
            if entry.filename.endswith("byteorder"):
                data = b"big"
            if entry.filename.endswith("data/0"):
                data = np.frombuffer(data, "<f4").astype(">f4").tobytes()
            target.writestr(entry.filename, data)
    trace = open_trace(tmp_path)
    for tensor in trace:
        np.testing.assert_array_equal(tensor.values().read((...,)), [0, 1, 2])


def test_a_file_kept_open_reads_what_it_holds_and_is_let_go(tmp_path: Path) -> None:
    path = tmp_path / "bytes"
    path.write_bytes(bytes(range(256)) * 256)
    extent = Extent(str(path), 256, 60_000)
    with file_kept_open():
        with file_kept_open():
            assert extent.read(0, 3) == b"\0\1\2"
        assert extent.read(30_001, 2) == extent.read(30_001, 60_000)[:2]
        assert extent.read(59_999, 10) == path.read_bytes()[256 + 59_999 : 256 + 60_000]
    path.unlink()
    path.write_bytes(b"\7" * 70_000)
    with file_kept_open():
        assert extent.read(0, 3) == b"\7\7\7"


@pytest.mark.parametrize("damage", [b"XXXX", b""])
def test_a_member_that_is_not_where_the_directory_says_is_one_failed_row(tmp_path: Path, damage: bytes) -> None:
    path = packed(tmp_path / "dump.zip", {"0_query": torch.ones(2), "1_query": torch.ones(2)})
    data = bytearray(path.read_bytes())
    if damage:
        data[:4] = b"PK\x03\x04"
        second = data.index(b"PK\x03\x04", data.index(b"1_query.pth") - 40)
        data[second : second + 4] = damage
        path.write_bytes(data)
    trace = open_trace(path)
    assert trace["0_query"].error is None
    assert bool(trace["1_query"].error) is bool(damage)


@pytest.mark.parametrize("count", [1, 1 << 16, (1 << 16) + 1])
def test_a_part_of_a_file_is_the_same_read_or_mapped(tmp_path: Path, count: int) -> None:
    path = tmp_path / "x.bin"
    data = np.random.default_rng(0).bytes(300_000)
    path.write_bytes(data)
    assert bytes(Extent(str(path), 100, 250_000).map(7, count)) == data[107 : 107 + count]


@pytest.mark.parametrize("count", [1000, 100_000])
def test_a_part_beyond_the_end_of_its_file_is_an_error(tmp_path: Path, count: int) -> None:
    path = tmp_path / "x.bin"
    path.write_bytes(bytes(count - 1))
    with pytest.raises(ReadError, match="cut off"):
        Extent(str(path), 0, count).map(0, count)
