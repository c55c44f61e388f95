from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors
import safetensors.numpy
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from firstdiff.errors import ReadError
from firstdiff.readers.blob import file_blob
from firstdiff.readers.safetensors_file import FORMAT
from tests.readers.sample_files import (
    HOSTILE_NAMES,
    assert_reads_as,
    assert_survives,
    complaint,
    damaged,
    found_in,
    refusal_of,
    source_of,
)

TORCH_DTYPES = [
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.uint16,
    torch.uint32,
    torch.uint64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.complex64,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.float8_e4m3fnuz,
    torch.float8_e5m2fnuz,
    torch.float8_e8m0fnu,
]


def make_sample(path: Path) -> None:
    tensors = {"weight": np.arange(12, dtype=np.float32).reshape(3, 4), "ids": np.arange(5), "scale": np.float64(2)}
    safetensors.numpy.save_file({name: np.asarray(value) for name, value in tensors.items()}, path)


def entry(start: int, stop: int, shape: Any, dtype: Any = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, stop]}


def content(header: Any, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.safetensors"


@pytest.mark.parametrize("dtype", TORCH_DTYPES, ids=str)
def test_every_dtype_has_the_bits_that_were_saved(path: Path, dtype: torch.dtype) -> None:
    bits = torch.arange(256, dtype=torch.uint8).repeat(8)
    tensor = (bits % 2 == 1) if dtype == torch.bool else bits.view(dtype)
    safetensors.torch.save_file({"x": tensor.reshape(4, -1)}, path)
    source = source_of(found_in(FORMAT, path)["x"])
    assert source.shape == tuple(safetensors.torch.load_file(path)["x"].shape)
    assert source.dtype.name == str(dtype).removeprefix("torch.")
    assert source.read().tobytes() == tensor.view(torch.uint8).numpy().tobytes()
    assert_reads_as(source, source.read())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2], ids=str)
def test_values_of_small_floats_are_those_of_torch(path: Path, dtype: torch.dtype) -> None:
    values = torch.linspace(-3, 3, 50).to(dtype)
    safetensors.torch.save_file({"x": values}, path)
    ours = source_of(found_in(FORMAT, path)["x"]).read().astype(np.float32)
    assert ours.tolist() == values.float().tolist()


@given(
    arrays=st.dictionaries(
        st.text(min_size=1, max_size=8).filter(lambda name: name != "__metadata__"),
        st.lists(st.integers(0, 3), max_size=4).map(lambda shape: np.random.default_rng(0).random(shape)),
        max_size=5,
    )
)
def test_what_the_library_reads_is_what_we_read(
    tmp_path_factory: pytest.TempPathFactory, arrays: dict[str, np.ndarray]
) -> None:
    path = tmp_path_factory.mktemp("x") / "x.safetensors"
    safetensors.numpy.save_file({name: np.asarray(array) for name, array in arrays.items()}, path)
    found = found_in(FORMAT, path)
    assert found.keys() == arrays.keys()
    for name, array in safetensors.numpy.load_file(path).items():
        assert_reads_as(source_of(found[name]), array)


def test_tensors_come_in_the_order_of_their_data(path: Path) -> None:
    header = {"late": entry(8, 12, [1]), "__metadata__": {"a": "b"}, "early": entry(0, 4, [1]), "mid": entry(4, 8, [])}
    path.write_bytes(content(header, bytes(12)))
    assert list(found_in(FORMAT, path)) == ["early", "mid", "late"]


def test_a_nan_keeps_its_payload(path: Path) -> None:
    bits = np.array([0x7FC00001, 0xFFA12345, 0x7F800001], np.uint32)
    path.write_bytes(content({"x": entry(0, 12, [3])}, bits.tobytes()))
    source = source_of(found_in(FORMAT, path)["x"])
    assert source.read().view(np.uint32).tolist() == bits.tolist()
    assert source.window(1, 3).view(np.uint32).tolist() == bits[1:].tolist()


def test_listing_reads_no_data(path: Path) -> None:
    count = 1 << 30
    head = content({"huge": entry(0, 4 * count, [2, count // 2])})
    with path.open("wb") as file:
        file.write(head)
        file.truncate(len(head) + 4 * count)
    source = source_of(found_in(FORMAT, path)["huge"])
    assert source.shape == (2, count // 2)
    assert source.window(count - 3, count).tolist() == [0, 0, 0]
    assert source.read((1, slice(5, 7))).tolist() == [0, 0]


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_a_hostile_name_is_just_a_name(path: Path, name: str) -> None:
    safetensors.numpy.save_file({name: np.ones(2, np.float32)}, path)
    assert source_of(found_in(FORMAT, path)[name]).read().tolist() == [1, 1]


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "is only 0 bytes long, too short for a safetensors file"),
        (b"\x01\x02", "is only 2 bytes long"),
        (b"GGUF" + bytes(4), "claims a header of 1,179,993,927 bytes"),
        (
            (1 << 40).to_bytes(8, "little") + b"{}",
            "claims a header of 1,099,511,627,776 bytes, more than the 100,000,000",
        ),
        ((1 << 20).to_bytes(8, "little") + b"{}", "ends inside its header of 1,048,576 bytes; was it cut off?"),
        (content(b"[]"), "has a header that is not the JSON of a safetensors file"),
        (content(b"7"), "has a header that is not the JSON of a safetensors file"),
        (content(b'{"x": NaN}'), "has a header that is not the JSON of a safetensors file"),
        (content(b"\xff\xfe{}"), "has a header that is not the JSON of a safetensors file"),
        (content(b"[" * 100_000), "has a header that is not the JSON of a safetensors file"),
        (content(b'{"\\ud800": {}}'), "has a header that is not the JSON of a safetensors file"),
        (content(b'{"x": ' + b"9" * 5000 + b"}"), "has a header that is not the JSON of a safetensors file"),
        (content(b'{"a": 1, "b": 2, "a": 3}'), "names 'a' twice in its header"),
        (content(b'{"a": {"dtype": "F32", "dtype": "F64"}}'), "names 'dtype' twice in its header"),
        (content({"a": entry(0, 8, [2]), "b": entry(4, 12, [2])}, bytes(12)), "has tensors 'a' and 'b' overlap"),
        (content({"a": entry(4, 8, [1])}, bytes(8)), "has 4 bytes before 'a' that belong to no tensor"),
        (content({"a": entry(0, 4, [1])}, bytes(9)), "has 5 bytes after its last tensor that belong to none"),
    ],
)
def test_a_file_that_cannot_be_trusted_says_why(path: Path, data: bytes, says: str) -> None:
    path.write_bytes(data)
    with pytest.raises(ReadError) as raised:
        FORMAT.open(file_blob(path))
    assert str(raised.value).startswith(says)
    # the library takes the last of two tensors with one name; all else it refuses as we do
    if says != "names 'a' twice in its header":
        with pytest.raises(safetensors.SafetensorError):
            safetensors.deserialize(data)


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ({"dtype": "F32"}, "has an entry without dtype, shape and data_offsets in the header"),
        (7, "has an entry without dtype, shape and data_offsets in the header"),
        (entry(8, 4, [1]), "has the data_offsets [8, 4] in the header"),
        (entry(-4, 4, [2]), "has the data_offsets [-4, 4] in the header"),
        ({"dtype": "F32", "shape": [1], "data_offsets": [4, 8, 12]}, "has the data_offsets [4, 8, 12] in the header"),
        ({"dtype": "F32", "shape": [1], "data_offsets": [4.0, 8]}, "has the data_offsets [4.0, 8] in the header"),
        (entry(4, 8, [-1]), "has the shape [-1] in the header"),
        (entry(4, 8, [True]), "has the shape [True] in the header"),
        (entry(4, 8, [1] * 33), "has the shape [1, 1"),
        (entry(4, 8, 1), "has the shape 1 in the header"),
        (entry(4, 8, [1 << 63]), "has the shape [9223372036854775808] in the header"),
        (entry(4, 8, [2]), "has shape [2] of float32, 8 bytes, but the header gives it 4"),
        (
            entry(4, 4, [1 << 62, 1 << 62]),
            "has shape [4611686018427387904, 4611686018427387904] of float32, 85,070,591,",
        ),
        (entry(4, 4, [0, 1 << 62, 4]), "has the shape [0, 4611686018427387904, 4], which no array can have"),
        (entry(4, 8, [1], "F128"), "has elements of type 'F128', which cannot be compared"),
        (entry(4, 8, [1], ["F32"]), "has elements of type ['F32'], which cannot be compared"),
        (entry(4, 8, [8], "F4"), "is packed as F4, several values to a byte"),
        (entry(4, 7, [4], "F6_E2M3"), "is packed as F6_E2M3, several values to a byte"),
        (entry(4, 1 << 50, [(1 << 48) - 1]), "shape [281474976710655] of float32 needs 1,125,899,906,842,620 bytes"),
    ],
)
def test_one_bad_tensor_leaves_the_others(path: Path, bad: Any, says: str) -> None:
    header = {"good": entry(0, 4, [1]), "bad": bad}
    places = bad["data_offsets"] if isinstance(bad, dict) and "data_offsets" in bad else [0]
    path.write_bytes(content(header, np.float32(3).tobytes() + bytes(max(min(int(max(places)) - 4, 99), 0))))
    found = found_in(FORMAT, path)
    assert source_of(found["good"]).read().tolist() == [3]
    assert complaint(found["bad"]).startswith(says)


def test_a_file_cut_off_anywhere_keeps_what_is_whole(path: Path) -> None:
    make_sample(path)
    whole = path.read_bytes()
    expected = safetensors.numpy.load(whole)
    for end in range(len(whole)):
        path.write_bytes(whole[:end])
        if (refusal := refusal_of(FORMAT, path)) is not None:
            assert "ends inside its header" in refusal or "too short" in refusal
            continue
        found = found_in(FORMAT, path)
        lost = [name for name, item in found.items() if isinstance(item.source, ReadError)]
        assert lost
        assert all("was the file cut off?" in complaint(found[name]) for name in lost)
        for name in found.keys() - lost:
            assert_reads_as(source_of(found[name]), expected[name])


def test_a_file_that_shrinks_after_listing_is_an_error_with_its_name(path: Path) -> None:
    make_sample(path)
    found = found_in(FORMAT, path)
    path.write_bytes(path.read_bytes()[:-1])
    sources = [source_of(item) for item in found.values()]
    with pytest.raises(ReadError, match="was it cut off") as raised:
        [source.read() for source in sources]
    assert raised.value.label == str(path)


@pytest.mark.parametrize(
    ("data", "is_one"),
    [
        (content({}), True),
        (content({"a": entry(0, 4, [1])})[:30], True),
        (b"[1, 2, 3, 4, 5]", False),
        (b'{"shape": [1]}', False),
        (b"", False),
        (bytes(8) + b"[", False),
        ((1 << 40).to_bytes(8, "little") + b"{", False),
    ],
)
def test_it_is_told_by_its_first_bytes(path: Path, data: bytes, is_one: bool) -> None:
    path.write_bytes(data)
    assert FORMAT.sniff(file_blob(path)) is is_one


@settings(max_examples=300)
@given(data=st.data())
def test_damage_is_an_error_and_never_a_crash(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path = tmp_path_factory.getbasetemp() / "damaged.safetensors"
    make_sample(path)
    path.write_bytes(data.draw(damaged(path.read_bytes())))
    assert_survives(FORMAT, path)
