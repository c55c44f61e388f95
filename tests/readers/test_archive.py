from __future__ import annotations

import gzip
import io
import os
import struct
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
import zstandard

from firstdiff.errors import ReadError, RefusedError
from firstdiff.readers import open_trace
from firstdiff.trace import Trace


def npy(value: object) -> bytes:
    out = io.BytesIO()
    np.save(out, np.asarray(value))
    return out.getvalue()


MEMBERS = {"dump/01_a.npy": npy([1.0, 2.0]), "dump/deep/02_b.npy": npy(3), "dump/03_c.npy": npy(np.zeros((2, 0)))}


def write_zip(
    path: Path, members: dict[str, bytes] | list[tuple[str, bytes]], method: int = zipfile.ZIP_STORED
) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in members.items() if isinstance(members, dict) else members:
            archive.writestr(name, data)
    return path


def tar_bytes(members: dict[str, bytes], format_: int = tarfile.PAX_FORMAT) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=format_) as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def pack(kind: str, path: Path, members: dict[str, bytes]) -> Path:
    if kind == "zip":
        return write_zip(path, members)
    if kind == "deflated zip":
        return write_zip(path, members, zipfile.ZIP_DEFLATED)
    wrap = {"tar": bytes, "tar.gz": gzip.compress, "tar.zst": zstandard.compress}[kind]
    path.write_bytes(wrap(tar_bytes(members)))
    return path


KINDS = ["zip", "deflated zip", "tar", "tar.gz", "tar.zst"]


def values(trace: Trace) -> dict[str, list[object]]:
    return {tensor.name: tensor.values().read().tolist() for tensor in trace}


@pytest.mark.parametrize("kind", KINDS)
def test_members_are_read_whatever_holds_them(tmp_path: Path, kind: str) -> None:
    trace = open_trace(pack(kind, tmp_path / "dump", MEMBERS))
    assert values(trace) == {"01_a": [1.0, 2.0], "02_b": 3, "03_c": [[], []]}
    assert trace.order == "numbered"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("share", [0.3, 0.6, 0.9, 0.99])
def test_an_archive_cut_off_is_an_error_with_its_name(tmp_path: Path, kind: str, share: float) -> None:
    members = {f"{n}.npy": npy(np.random.default_rng(n).standard_normal(3000)) for n in range(4)}
    path = pack(kind, tmp_path / "dump", members)
    data = path.read_bytes().rstrip(b"\0")
    path.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(ReadError) as raised:
        for tensor in open_trace(path):
            tensor.values().read()
    assert str(path) in str(raised.value)
    assert "cut off" in str(raised.value)


@pytest.mark.parametrize("kind", ["deflated zip", "tar.gz", "tar.zst"])
def test_packed_members_are_unpacked_once(tmp_path: Path, own_cache: Path, kind: str) -> None:
    path = pack(kind, tmp_path / "dump", MEMBERS)
    assert values(open_trace(path))["01_a"] == [1.0, 2.0]
    first = {file.name: file.stat().st_ino for file in own_cache.iterdir()}
    assert values(open_trace(path))["01_a"] == [1.0, 2.0]
    assert {file.name: file.stat().st_ino for file in own_cache.iterdir()} == first
    assert first


def test_stored_members_are_mapped_in_place(tmp_path: Path, own_cache: Path) -> None:
    values(open_trace(pack("zip", tmp_path / "dump.zip", MEMBERS)))
    values(open_trace(pack("tar", tmp_path / "dump.tar", MEMBERS)))
    assert not list(own_cache.iterdir())


def test_a_changed_archive_is_unpacked_again(tmp_path: Path) -> None:
    path = pack("deflated zip", tmp_path / "dump", {"x.npy": npy([1])})
    assert values(open_trace(path)) == {"x": [1]}
    pack("deflated zip", path, {"x.npy": npy([2])})
    os.utime(path, ns=(1, 1))
    assert values(open_trace(path)) == {"x": [2]}


def test_the_cache_stays_within_its_bound_and_reading_goes_on(
    tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIRSTDIFF_CACHE_BYTES", "20000")
    members = {f"{n}.npy": npy(np.full(1000, n)) for n in range(10)}
    trace = open_trace(pack("deflated zip", tmp_path / "dump", members))
    for _ in range(2):
        assert [tensor.values().read()[0] for tensor in trace] == list(range(10))
    assert sum(file.stat().st_size for file in own_cache.iterdir()) <= 20000


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("../x.npy", "points out of its archive"),
        ("a/../../x.npy", "points out of its archive"),
        ("/etc/x.npy", "has an absolute name"),
        ("C:/x.npy", "has an absolute name"),
        ("C:\\x.npy", "has an absolute name"),
        ("..\\x.npy", "points out of its archive"),
    ],
)
def test_names_that_leave_the_archive_are_refused_and_the_rest_is_read(tmp_path: Path, name: str, says: str) -> None:
    trace = open_trace(write_zip(tmp_path / "a.zip", {name: npy(1), "good.npy": npy(2)}))
    errors = {tensor.error for tensor in trace if tensor.error}
    assert errors == {says}
    assert trace["good"].values().read() == 2


def test_a_name_that_comes_twice_is_refused(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="Duplicate name"):
        path = write_zip(tmp_path / "a.zip", [("x.npy", npy(1)), ("x.npy", npy(2)), ("y.npy", npy(3))])
    found = {tensor.name: tensor.error for tensor in open_trace(path)}
    assert found == {"x.npy": "is in the archive 2 times", "y": None}


def test_names_that_differ_by_case_are_two_tensors(tmp_path: Path) -> None:
    assert values(open_trace(write_zip(tmp_path / "a.zip", {"X.npy": npy(1), "x.npy": npy(2)}))) == {"X": 1, "x": 2}


def test_links_and_devices_are_refused(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for name, kind in (
            ("l.npy", tarfile.SYMTYPE),
            ("h.npy", tarfile.LNKTYPE),
            ("d.npy", tarfile.CHRTYPE),
            ("f.npy", tarfile.FIFOTYPE),
        ):
            info = tarfile.TarInfo(name)
            info.type = kind
            info.linkname = "/etc/passwd"
            archive.addfile(info)
    link = zipfile.ZipInfo("z.npy")
    link.create_system, link.external_attr = 3, 0o120777 << 16
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(link, "/etc/passwd")
    errors = {tensor.name: tensor.error for path in ("a.tar", "a.zip") for tensor in open_trace(tmp_path / path)}
    assert errors == {
        "l.npy": "is a link, not a plain file",
        "h.npy": "is a link, not a plain file",
        "d.npy": "is a device, not a plain file",
        "f.npy": "is a pipe, not a plain file",
        "z.npy": "is a link, not a plain file",
    }


def test_an_encrypted_member_is_a_failed_row(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "a.zip", {"x.npy": npy(1), "y.npy": npy(2)})
    data = bytearray(path.read_bytes())
    entry = data.index(b"PK\x01\x02")
    data[entry + 8] |= 1
    path.write_bytes(data)
    assert {tensor.name: tensor.error for tensor in open_trace(path)} == {
        "x.npy": "is encrypted; unpack it with its password first",
        "y": None,
    }


@pytest.mark.parametrize("kind", ["deflated zip", "tar.gz", "tar.zst"])
def test_a_bomb_is_refused_before_it_fills_the_disk(
    tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setenv("FIRSTDIFF_FREE_UNPACKED", "1000000")
    path = pack(kind, tmp_path / "bomb", {"x.npy": npy(np.zeros(10_000_000, np.uint8))})
    with pytest.raises(RefusedError, match="over 100 times its size, as a bomb does; raise FIRSTDIFF_MAX_RATIO"):
        open_trace(path)
    assert not list(own_cache.iterdir())
    monkeypatch.setenv("FIRSTDIFF_MAX_RATIO", "1000000")
    assert open_trace(path)["x"].values().read().sum() == 0
    monkeypatch.setenv("FIRSTDIFF_MAX_UNPACKED", "5000000")
    monkeypatch.setenv("FIRSTDIFF_CACHE", str(tmp_path / "another"))
    with pytest.raises(RefusedError, match="more than 5,000,000 bytes; raise FIRSTDIFF_MAX_UNPACKED"):
        open_trace(path)


def test_a_member_that_unpacks_to_more_than_it_claims_is_stopped(tmp_path: Path, own_cache: Path) -> None:
    path = write_zip(tmp_path / "a.zip", {"x.npy": npy(np.zeros(100_000))}, zipfile.ZIP_DEFLATED)
    data = bytearray(path.read_bytes())
    struct.pack_into("<L", data, data.index(b"PK\x01\x02") + 24, 4000)
    path.write_bytes(data)
    (tensor,) = open_trace(path)
    assert "only 3,872 are there" in (tensor.error or "")


def test_a_damaged_member_is_found_by_its_checksum(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "a.zip", {"x.npy": npy(np.arange(1000.0))}, zipfile.ZIP_DEFLATED)
    data = bytearray(path.read_bytes())
    struct.pack_into("<L", data, data.index(b"PK\x01\x02") + 16, 12345)
    path.write_bytes(data)
    with pytest.raises(ReadError, match="is damaged: its checksum does not fit"):
        open_trace(path)["x"].values().read()


def test_a_crowd_of_members_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRSTDIFF_MAX_MEMBERS", "2")
    for kind in ("zip", "tar"):
        with pytest.raises(RefusedError, match="more than 2 members; raise FIRSTDIFF_MAX_MEMBERS"):
            open_trace(pack(kind, tmp_path / kind, MEMBERS))


def test_a_zip64_archive_with_bytes_in_front(tmp_path: Path) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive, archive.open("x.npy", "w", force_zip64=True) as member:
        member.write(npy([1, 2]))
    (tmp_path / "a.zip").write_bytes(b"PK\x03\x04" + b"#!/bin/sh\n" * 10 + out.getvalue())
    assert values(open_trace(tmp_path / "a.zip")) == {"x": [1, 2]}


@pytest.mark.parametrize(
    "content", [b"PK\x05\x06" + bytes(18), b"PK\x03\x04 and no more", bytes(257) + b"ustar" + bytes(800)]
)
def test_an_archive_of_nothing_says_so(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.zip").write_bytes(content)
    with pytest.raises(ReadError, match=r"a\.zip: (holds no tensors|has no zip directory|is damaged)"):
        open_trace(tmp_path / "a.zip")


def test_a_tar_without_its_end_mark_is_warned_of(tmp_path: Path) -> None:
    whole = tar_bytes({"x.npy": npy(1)})
    (tmp_path / "a.tar").write_bytes(whole[:1024])
    assert open_trace(tmp_path / "a.tar").warnings == ("the tar has no end mark; members may be missing",)
    (tmp_path / "a.tar").write_bytes(whole)
    assert open_trace(tmp_path / "a.tar").warnings == ()


@pytest.mark.parametrize("format_", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_every_kind_of_tar(tmp_path: Path, format_: int) -> None:
    name = "d" * 60 + "/" + "n" * 60 + ".npy"
    (tmp_path / "a.tar").write_bytes(tar_bytes({f"./{name}": npy(7)}, format_))
    assert values(open_trace(tmp_path / "a.tar")) == {"n" * 60: 7}


def test_memory_stays_flat_while_a_large_member_is_unpacked(tmp_path: Path, own_cache: Path) -> None:
    size = 300_000_000
    noise = np.random.default_rng(0).integers(0, 255, 3_000_000, np.uint8)
    with (
        zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("x.npy", "w") as out,
    ):
        out.write(_npy_header(size))
        for _ in range(size // noise.size):
            out.write(noise.tobytes())
    code = f"""
import resource
from firstdiff.readers import open_trace
(tensor,) = open_trace({str(tmp_path / "a.zip")!r})
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
source = tensor.values()
source.window({size - 10}, {size})
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 40_000


def _npy_header(size: int) -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(out, {"descr": "|u1", "fortran_order": False, "shape": (size,)})
    return out.getvalue()
