from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from firstdiff.errors import ReadError, RefusedError
from firstdiff.readers.blob import Extent, StoredBlob, file_blob
from firstdiff.readers.hdf5 import FORMAT, DatasetSource, boxes
from firstdiff.readers.sources import MappedSource
from tests.readers.sample_files import HOSTILE_NAMES, assert_reads_as, complaint, found_in, refusal_of, source_of

NATIVE = [
    "float64",
    "float32",
    "float16",
    "complex128",
    "complex64",
    "bool",
    "int64",
    "int32",
    "int8",
    "uint64",
    "uint8",
]


def make_sample(path: Path) -> None:
    values = np.random.default_rng(0).standard_normal((40, 30))
    with h5py.File(path, "w") as file:
        file["plain"] = values[:4].astype(np.float32)
        file.create_dataset("block/chunked", data=values, chunks=(16, 8), compression="gzip", shuffle=True)
        file.create_dataset("block/grown", data=np.arange(50), chunks=(16,), maxshape=(None,))
        file["block/half"] = np.arange(6, dtype=np.float16)
        file["mask"] = np.array([True, False])
        file["scalar"] = 3.5


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.h5"


def write(path: Path, fill: Callable[[h5py.File], Any], **options: Any) -> None:
    with h5py.File(path, "w", **options) as file:
        fill(file)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("dtype", NATIVE)
@pytest.mark.parametrize("options", [{}, {"chunks": (2, 3, 5)}, {"chunks": (3, 2, 30), "compression": "gzip"}])
def test_values_are_those_that_were_written(path: Path, options: dict[str, Any], dtype: str, order: str) -> None:
    stored = np.dtype(f"{order}{np.dtype(dtype).str[1:]}")
    array = (np.random.default_rng(0).standard_normal((5, 4, 30)) * 9).astype(dtype)
    write(path, lambda file: file.create_dataset("x", data=array.astype(stored), **options))
    source = source_of(found_in(FORMAT, path)["x"])
    assert isinstance(source, DatasetSource if options else MappedSource)
    assert_reads_as(source, array)


@given(data=st.data(), chunked=st.booleans())
def test_whatever_is_asked_for_is_what_h5py_gives(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, chunked: bool
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.h5"
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=4, max_side=6))
    array = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    chunks = tuple(data.draw(st.integers(1, n)) for n in shape) if chunked else None
    write(path, lambda file: file.create_dataset("x", data=array, chunks=chunks))
    source = source_of(found_in(FORMAT, path)["x"])
    index = data.draw(hnp.basic_indices(shape, allow_ellipsis=True, allow_newaxis=True))
    assert np.array_equal(source.read(index), array[index])
    start, stop = sorted(data.draw(st.tuples(*[st.integers(0, array.size)] * 2)))
    assert source.window(start, stop).tolist() == list(range(start, stop))


@given(shape=hnp.array_shapes(min_dims=0, max_dims=5, min_side=1, max_side=5), data=st.data())
def test_boxes_cover_a_window_in_order_and_nothing_else(shape: tuple[int, ...], data: st.DataObject) -> None:
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    start, stop = sorted(data.draw(st.tuples(*[st.integers(0, array.size)] * 2)))
    pieces = list(boxes(shape, start, stop))
    assert [value for box in pieces for value in array[box].reshape(-1).tolist()] == list(range(start, stop))
    assert len(pieces) <= max(2 * len(shape) - 1, 1)


def test_small_windows_of_tall_chunks_unpack_them_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    array = np.random.default_rng(0).standard_normal((64, 100))
    write(path, lambda file: file.create_dataset("x", data=array, chunks=(32, 50), compression="gzip"))
    source = source_of(found_in(FORMAT, path)["x"])
    unpacked: list[tuple[int, int]] = []
    run = DatasetSource.run

    def counted(self: DatasetSource, start: int, stop: int) -> np.ndarray:
        unpacked.append((start, stop))
        return run(self, start, stop)

    monkeypatch.setattr(DatasetSource, "run", counted)
    parts = [source.window(start, start + 64) for start in range(0, array.size, 64)]
    assert np.concatenate(parts).tolist() == array.reshape(-1).tolist()
    assert unpacked == [(0, 3200), (3200, 6400)]
    unpacked.clear()
    assert len(source.window(3100, 9999)) == 3300
    assert unpacked == [(3200, 6400)]


def test_a_file_that_is_rewritten_is_read_anew(path: Path) -> None:
    for value in (1, 2):
        write(path, lambda file, value=value: file.create_dataset("x", data=np.full(50, value), chunks=(50,)))
        if value == 1:
            source = source_of(found_in(FORMAT, path)["x"])
            before = source.stamp()
        assert source.window(0, 2).tolist() == [value, value]
    assert source.stamp() != before


def test_every_dataset_is_found_once_under_its_path(path: Path) -> None:
    def fill(file: h5py.File) -> None:
        file["b"] = 1
        file["a/deep/er"] = 2
        file["a/empty"] = np.empty((0, 3), np.float32)
        file["a/again"] = file["b"]
        file["a/loop"] = file["a"]
        file["soft"] = h5py.SoftLink("/a/deep/er")
        file["round"] = h5py.SoftLink("/round")
        file["nowhere"] = h5py.SoftLink("/nothing")
        file["type"] = np.dtype("f4")
        file.create_group("bare")

    write(path, fill)
    found = found_in(FORMAT, path)
    # `b` is first met as `a/again`: h5py lists by name
    assert list(found) == ["a.again", "a.deep.er", "a.empty"]
    assert source_of(found["a.deep.er"]).read().tolist() == 2
    assert_reads_as(source_of(found["a.empty"]), np.empty((0, 3), np.float32))


def test_names_that_would_clash_keep_their_slashes(path: Path) -> None:
    def fill(file: h5py.File) -> None:
        file["a.b"] = 1
        file["a/b"] = 2
        file["a/c"] = 3

    write(path, fill)
    values = {name: source_of(item).read().tolist() for name, item in found_in(FORMAT, path).items()}
    assert values == {"a.b": 1, "a/b": 2, "a.c": 3}


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_a_hostile_name_is_just_a_name(path: Path, name: str) -> None:
    write(path, lambda file: file.create_dataset(name, data=[1, 2]))
    expected = name.strip("/").replace("/", ".")
    assert source_of(found_in(FORMAT, path)[expected]).read().tolist() == [1, 2]


def test_a_name_that_is_not_text_is_one_failed_row(path: Path) -> None:
    write(path, lambda file: (file.create_dataset(b"a\xff", data=[1, 2]), file.create_dataset("good", data=3)))
    found = found_in(FORMAT, path)
    assert complaint(found["a\\xff"]).startswith("is damaged (utf-8")
    assert source_of(found["good"]).read().tolist() == 3


def bfloat16(file: h5py.File) -> None:
    kind = h5py.h5t.IEEE_F16LE.copy()
    kind.set_fields(15, 7, 8, 0, 7)
    kind.set_ebias(127)
    dataset = h5py.Dataset(h5py.h5d.create(file.id, b"x", kind, h5py.h5s.create_simple((3,))))
    dataset[:] = np.array([1, -2.5, np.inf], np.float32)


def compact(file: h5py.File) -> None:
    creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    creation.set_layout(h5py.h5d.COMPACT)
    space = h5py.h5s.create_simple((3,))
    h5py.Dataset(h5py.h5d.create(file.id, b"x", h5py.h5t.NATIVE_FLOAT, space, creation))[:] = [1, -2.5, np.inf]


def enumeration(file: h5py.File) -> None:
    file["x"] = np.array([0, 2, 1], h5py.enum_dtype({"A": 0, "B": 1, "C": 2}, basetype="i2"))


@pytest.mark.parametrize(
    ("fill", "expected"),
    [
        (bfloat16, np.array([1, -2.5, np.inf], np.float32)),
        (compact, np.array([1, -2.5, np.inf], np.float32)),
        (enumeration, np.array([0, 2, 1], np.int16)),
        (lambda file: file.create_dataset("x", (2, 3), np.float32), np.zeros((2, 3), np.float32)),
        (lambda file: file.create_dataset("x", (3,), "i4", chunks=(2,), fillvalue=7), np.full(3, 7, np.int32)),
        (lambda file: file.create_dataset("x", data=np.arange(9), chunks=(2,), compression="lzf"), np.arange(9)),
        (lambda file: file.create_dataset("x", data=np.arange(9), chunks=(2,), fletcher32=True), np.arange(9)),
        (lambda file: file.create_dataset("x", data=5.5), np.array(5.5)),
        (lambda file: file.create_dataset("x", (0, 4), "f8", chunks=(1, 4), maxshape=(None, 4)), np.empty((0, 4))),
    ],
)
def test_rarer_layouts_are_read_too(path: Path, fill: Callable[[h5py.File], Any], expected: np.ndarray) -> None:
    write(path, fill)
    assert_reads_as(source_of(found_in(FORMAT, path)["x"]), expected)


@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize("userblock", [0, 512, 2048])
def test_every_version_of_the_file_and_a_block_before_it(path: Path, userblock: int, libver: str) -> None:
    def fill(file: h5py.File) -> None:
        file["plain"] = np.arange(5.0)
        file.create_dataset("unwritten", (3,), "f4")
        file.create_dataset("packed", data=np.arange(5.0), chunks=(2,), compression="gzip")

    write(path, fill, libver=libver, userblock_size=userblock)
    assert FORMAT.sniff(file_blob(path))
    found = found_in(FORMAT, path)
    assert isinstance(found["plain"].source, MappedSource)
    assert_reads_as(source_of(found["plain"]), np.arange(5.0))
    assert_reads_as(source_of(found["packed"]), np.arange(5.0))
    assert_reads_as(source_of(found["unwritten"]), np.zeros(3, np.float32))


@pytest.mark.parametrize("chunks", [None, (2,)])
def test_a_nan_keeps_its_payload(path: Path, chunks: tuple[int] | None) -> None:
    bits = np.array([0x7FC00001, 0xFFA12345, 0x7F800001], np.uint32)
    write(path, lambda file: file.create_dataset("x", data=bits.view(np.float32), chunks=chunks))
    source = source_of(found_in(FORMAT, path)["x"])
    assert source.read().view(np.uint32).tolist() == bits.tolist()
    assert source.window(0, 3).view(np.uint32).tolist() == bits.tolist()


def test_a_member_of_an_archive_is_read_in_place(path: Path, tmp_path: Path) -> None:
    make_sample(path)
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("before", b"x" * 999)
        archive.write(path, "x.h5")
    first = (tmp_path / "x.zip").read_bytes().index(b"\x89HDF")
    blob = StoredBlob("x.h5", "x.zip!x.h5", Extent(str(tmp_path / "x.zip"), first, path.stat().st_size))
    alone = found_in(FORMAT, path)
    for item in FORMAT.open(blob):
        assert_reads_as(source_of(item), source_of(alone[item.name]).read())


def test_listing_reads_no_data(path: Path) -> None:
    count = 1 << 30

    def fill(file: h5py.File) -> None:
        creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        creation.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        creation.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
        h5py.h5d.create(file.id, b"huge", h5py.h5t.IEEE_F32LE, h5py.h5s.create_simple((2, count // 2)), creation)

    write(path, fill)
    source = source_of(found_in(FORMAT, path)["huge"])
    assert source.shape == (2, count // 2)
    assert source.window(count - 3, count).tolist() == [0, 0, 0]


def test_no_file_stays_open_or_locked(path: Path) -> None:
    make_sample(path)
    sources = [source_of(item) for item in found_in(FORMAT, path).values()]
    for source in sources:
        source.window(0, 1)
    assert not any(str(path) in os.path.realpath(handle) for handle in Path("/proc/self/fd").glob("*"))
    path.chmod(0o444)
    with h5py.File(path, "r", locking=True):
        assert found_in(FORMAT, path)
    path.chmod(0o644)
    write(path, lambda file: file.create_dataset("new", data=1))


@pytest.fixture
def other(tmp_path: Path) -> Path:
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["secret"] = np.arange(3)
    (tmp_path / "values.raw").write_bytes(np.arange(4, dtype=np.float32).tobytes())
    return tmp_path / "other.h5"


def virtual(file: h5py.File) -> None:
    layout = h5py.VirtualLayout((3,), "i8")
    layout[:] = h5py.VirtualSource("other.h5", "secret", (3,))
    file.create_virtual_dataset("x", layout)


@pytest.mark.parametrize(
    ("fill", "says"),
    [
        (
            lambda file: file.__setitem__("x", h5py.ExternalLink("other.h5", "/secret")),
            "is a link into another file (other.h5), which is not opened",
        ),
        (
            lambda file: file.create_dataset("x", (4,), "f4", external=[("values.raw", 0, 16)]),
            "keeps its values in another file (values.raw), which is not opened",
        ),
        (virtual, "is a virtual dataset, put together from other files, which are not opened"),
    ],
)
def test_what_leads_out_of_the_file_is_refused(
    path: Path, other: Path, monkeypatch: pytest.MonkeyPatch, fill: Callable[[h5py.File], Any], says: str
) -> None:
    monkeypatch.chdir(other.parent)
    write(path, lambda file: (fill(file), file.create_dataset("good", data=[1, 2])))
    found = found_in(FORMAT, path)
    assert isinstance(found["x"].source, RefusedError)
    assert complaint(found["x"]) == says
    assert source_of(found["good"]).read().tolist() == [1, 2]


@pytest.mark.parametrize(
    ("count", "says"),
    [
        (1 << 28, "unpacks to over 100 times its size, as a bomb does; raise FIRSTDIFF_MAX_RATIO if that is meant"),
        (1 << 40, "unpacks to more than 274,877,906,944 bytes; raise FIRSTDIFF_MAX_UNPACKED if that is meant"),
    ],
)
def test_what_unpacks_out_of_all_proportion_is_refused(
    path: Path, monkeypatch: pytest.MonkeyPatch, count: int, says: str
) -> None:
    options = {"chunks": (1 << 20,), "compression": "gzip"}
    write(path, lambda file: file.create_dataset("x", (count,), "f8", **options))
    assert complaint(found_in(FORMAT, path)["x"]) == says
    monkeypatch.setenv("FIRSTDIFF_MAX_RATIO", "10_000_000_000")
    monkeypatch.setenv("FIRSTDIFF_MAX_UNPACKED", str(1 << 62))
    source = source_of(found_in(FORMAT, path)["x"])
    assert source.window(count // 2, count // 2 + 3).tolist() == [0, 0, 0]


def test_a_soft_link_through_another_file_is_not_followed(path: Path, other: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(other.parent)

    def fill(file: h5py.File) -> None:
        file["out"] = h5py.ExternalLink("other.h5", "/")
        file["through"] = h5py.SoftLink("/out/secret")

    write(path, fill)
    assert list(found_in(FORMAT, path)) == ["out"]


@pytest.mark.parametrize(
    ("fill", "says"),
    [
        (lambda file: file.create_dataset("x", data="hello"), "holds text, which cannot be compared"),
        (lambda file: file.create_dataset("x", data=np.array([b"ab"])), "holds text, which cannot be compared"),
        (
            lambda file: file.create_dataset("x", (2,), h5py.vlen_dtype("i4")),
            "holds lists of varying length, which cannot be compared",
        ),
        (
            lambda file: file.create_dataset("x", data=file.ref, dtype=h5py.ref_dtype),
            "holds references to other datasets, which cannot be compared",
        ),
        (
            lambda file: file.create_dataset("x", data=np.zeros(2, [("p", "f4"), ("q", "i4")])),
            "has records of p, q as elements; save each as a dataset of its own",
        ),
        (
            lambda file: file.create_dataset("x", (2,), np.dtype(("f4", (3,)))),
            "has elements of type ('<f4', (3,)), which cannot be compared",
        ),
        (lambda file: file.create_dataset("x", data=np.void(b"abc")), "has elements of type |V3, which cannot"),
        (lambda file: file.create_dataset("x", data=np.zeros(2, np.longdouble)), "has elements of type float"),
        (
            lambda file: file.create_dataset("x", data=h5py.Empty("f4")),
            "is a dataset without values (a null dataspace)",
        ),
    ],
)
def test_one_dataset_that_is_no_tensor_leaves_the_others(
    path: Path, fill: Callable[[h5py.File], Any], says: str
) -> None:
    write(path, lambda file: (fill(file), file.create_dataset("good", data=[1, 2])))
    found = found_in(FORMAT, path)
    assert complaint(found["x"]).startswith(says)
    assert source_of(found["good"]).read().tolist() == [1, 2]


@pytest.mark.parametrize("data", [b"", b"\x89HDF\r\n\x1a\n", b"\x89HDF\r\n\x1a\n" + bytes(500), b"GGUF" + bytes(500)])
def test_a_file_that_is_not_hdf5_says_so(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    assert str(refusal_of(FORMAT, path)).startswith(f"{path}: is damaged, or not HDF5 (")


def test_a_file_cut_off_anywhere_is_an_error_or_has_failed_rows(path: Path) -> None:
    make_sample(path)
    whole = path.read_bytes()
    for end in range(0, len(whole), 97):
        path.write_bytes(whole[:end])
        assert "truncated file" in str(refusal_of(FORMAT, path)) or end < 100


def test_damaged_chunks_are_an_error_with_the_name_of_the_file(path: Path) -> None:
    array = np.random.default_rng(0).standard_normal((64, 64))
    write(path, lambda file: file.create_dataset("x", data=array, chunks=(64, 64), compression="gzip"))
    with h5py.File(path, "r") as file:
        at = file["x"].id.get_chunk_info(0).byte_offset
    whole = bytearray(path.read_bytes())
    whole[at + 100 : at + 120] = bytes(20)
    path.write_bytes(whole)
    source = source_of(found_in(FORMAT, path)["x"])
    for read in (source.read, source.view, lambda: source.window(0, 10)):
        with pytest.raises(ReadError, match="is damaged, or not HDF5") as raised:
            read()
        assert raised.value.label == str(path)


def test_a_chunk_shorter_than_its_checksum_never_reaches_the_library(path: Path) -> None:
    array = np.arange(300.0).reshape(20, 15)
    options = {"chunks": (16, 8), "compression": "gzip", "fletcher32": True}
    write(path, lambda file: file.create_dataset("x", data=array, **options), libver="earliest")
    with h5py.File(path, "r") as file:
        size = file["x"].id.get_chunk_info(0).size
    whole = path.read_bytes()
    assert_reads_as(source_of(found_in(FORMAT, path)["x"]), array)
    path.write_bytes(whole.replace(size.to_bytes(4, "little") + bytes(4), bytes(8), 1))
    assert complaint(found_in(FORMAT, path)["x"]) == "is damaged (a chunk is shorter than its checksum)"


def test_without_h5py_the_message_tells_what_to_install(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_sample(path)
    monkeypatch.setitem(sys.modules, "h5py", None)
    assert refusal_of(FORMAT, path) == f"{path}: is HDF5, which needs h5py: pip install 'firstdiff[hdf5]'"


def test_a_dataset_that_changes_after_listing_is_an_error(path: Path) -> None:
    make_sample(path)
    source = source_of(found_in(FORMAT, path)["block.chunked"])
    write(path, lambda file: file.create_dataset("block/chunked", data=np.zeros((2, 2)), chunks=(1, 1)))
    with pytest.raises(ReadError, match="has changed: /block/chunked has another shape now"):
        source.read()
    path.unlink()
    with pytest.raises(ReadError, match="is gone") as raised:
        source.read()
    assert raised.value.label == str(path)


FUZZ = """
import random, resource, signal, sys
from pathlib import Path
from tests.readers.sample_files import assert_survives
from firstdiff.readers.hdf5 import FORMAT

path, good = Path(sys.argv[1]), Path(sys.argv[1]).read_bytes()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
written = [at for at, byte in enumerate(good) if byte]
for seed in range(int(sys.argv[2])):
    print(seed, flush=True)
    signal.alarm(10)
    draw = random.Random(seed)
    data = bytearray(good)
    for _ in range(draw.choice([1, 1, 2, 8])):
        at = draw.choice(written) if draw.random() < 0.7 else draw.randrange(len(data))
        data[at] = draw.choice([0, 255, draw.randrange(256), data[at] ^ 1 << draw.randrange(8)])
    path.write_bytes(data[: draw.randrange(len(data)) if draw.random() < 0.1 else None])
    assert_survives(FORMAT, path)
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
assert grown < 64 << 10, f"grew by {grown} KiB"
"""


def test_damage_is_an_error_and_never_a_crash(path: Path) -> None:
    """In a process of its own: a crash of the C library must fail this test, not end the test run."""
    make_sample(path)
    command = [sys.executable, "-W", "error", "-c", FUZZ, str(path), "250"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, f"after seed {done.stdout.split()[-1:]}: {done.stderr}"


def test_a_filter_that_does_not_survive_damage_is_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("good", data=np.arange(100), chunks=(10,), compression="lzf", shuffle=True, fletcher32=True)
        file.create_dataset("scaled", data=np.arange(100), chunks=(10,), scaleoffset=8)
    found = found_in(FORMAT, tmp_path / "x.h5")
    assert source_of(found["good"]).read().tolist() == list(range(100))
    assert complaint(found["scaled"]) == "is packed by the filter scaleoffset; repack it with gzip (h5repack -f GZIP=4)"
