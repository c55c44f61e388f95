from __future__ import annotations

import struct
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFEndian, GGUFReader, GGUFWriter
from gguf.quants import dequantize, quantize
from hypothesis import given, settings
from hypothesis import strategies as st

from firstdiff import dtypes
from firstdiff.errors import ReadError
from firstdiff.readers.blob import file_blob
from firstdiff.readers.gguf_file import FORMAT
from tests.readers.sample_files import (
    HOSTILE_NAMES,
    assert_reads_as,
    assert_survives,
    complaint,
    counted_decodes,
    damaged,
    found_in,
    refusal_of,
    source_of,
)

PLAIN = ["float32", "float16", "float64", "int8", "int16", "int32", "int64"]
WITHOUT_DECODER = {"Q8_1", "Q8_K", "Q1_0"}
PLAIN_TYPES = {"F32", "F16", "BF16", "F64", "I8", "I16", "I32", "I64"}
QUANTISED = [kind for kind in GGML_QUANT_SIZES if kind.name not in WITHOUT_DECODER | PLAIN_TYPES]


def write(path: Path, tensors: dict[str, Any], alignment: int | None = None, **options: Any) -> None:
    """Tensors are arrays, or (bytes, type) for quantised ones."""
    writer = GGUFWriter(path, "llama", **options)
    writer.add_array("tokenizer.ggml.tokens", ["a", "bb", ""])
    writer.add_array("some.numbers", [1, 2, 3])
    if alignment is not None:
        writer.add_custom_alignment(alignment)
    writer.add_bool("some.flag", True)
    for name, value in tensors.items():
        if isinstance(value, tuple):
            writer.add_tensor(name, value[0], raw_dtype=value[1])
        else:
            writer.add_tensor(name, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def make_sample(path: Path) -> None:
    values = np.random.default_rng(0).standard_normal((2, 64)).astype(np.float32)
    kind = GGMLQuantizationType.Q4_0
    write(path, {"plain": values, "half": values[0].astype(np.float16), "packed": (quantize(values, kind), kind)})


def random_blocks(kind: GGMLQuantizationType, shape: tuple[int, ...]) -> np.ndarray:
    values, width = GGML_QUANT_SIZES[kind]
    return np.random.default_rng(7).integers(0, 256, (*shape[:-1], shape[-1] // values * width), np.uint8)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.gguf"


@pytest.mark.parametrize("endian", list(GGUFEndian))
@pytest.mark.parametrize("dtype", PLAIN)
def test_plain_tensors_are_those_that_were_written(path: Path, dtype: str, endian: GGUFEndian) -> None:
    array = (np.random.default_rng(0).standard_normal((3, 4, 50)) * 50).astype(dtype)
    write(path, {"a": array, "b.weight": array[0]}, endianess=endian)
    found = found_in(FORMAT, path)
    assert list(found) == ["a", "b.weight"]
    assert_reads_as(source_of(found["a"]), array)
    assert_reads_as(source_of(found["b.weight"]), array[0])


@pytest.mark.parametrize("endian", ["<", ">"])
def test_bfloat16_of_either_byte_order(path: Path, endian: str) -> None:
    bits = np.arange(40, dtype=np.uint16).reshape(2, 20) * 1601
    entries = [tensor("x", (20, 2), 30, 0, endian), tensor("single", (), 30, 0, endian)]
    path.write_bytes(content(entries=entries, data=bits.astype(f"{endian}u2").tobytes(), endian=endian))
    found = found_in(FORMAT, path)
    bfloat16 = dtypes.from_name("bfloat16")
    assert_reads_as(source_of(found["x"]), bits.view(bfloat16))
    assert_reads_as(source_of(found["single"]), bits[0, 0].view(bfloat16)[()].reshape(()))


@pytest.mark.parametrize("kind", QUANTISED, ids=lambda kind: kind.name)
def test_quantised_tensors_are_decoded_as_the_package_does(path: Path, kind: GGMLQuantizationType) -> None:
    shape = (3, 2, 2 * max(GGML_QUANT_SIZES[kind][0], 128))
    write(path, {"first": np.zeros(3, np.float32), "x": (random_blocks(kind, shape), kind)})
    stored = next(item for item in GGUFReader(path).tensors if item.name == "x")
    with np.errstate(all="ignore"):
        expected = dequantize(stored.data, kind)
    item = found_in(FORMAT, path)["x"]
    assert item.attrs == {"quantisation": kind.name}
    assert source_of(item).shape == shape
    assert_reads_as(source_of(item), expected)


def test_only_the_blocks_that_are_asked_for_are_decoded(path: Path) -> None:
    kind = GGMLQuantizationType.Q8_0
    write(path, {"x": (random_blocks(kind, (100, 64)), kind)})
    source = source_of(found_in(FORMAT, path)["x"])
    decoded = counted_decodes(source)
    source.window(31, 33)
    source.window(64, 96)
    source.read(5)
    source.read((slice(10, 20), slice(0, 32)))
    source.read((slice(None), 40))
    assert decoded == [2, 1, 2, 10, 100]


@pytest.mark.parametrize("alignment", [None, 8, 64, 4096])
def test_the_alignment_of_the_file_counts(path: Path, alignment: int | None) -> None:
    arrays = {name: np.full(5, number, np.float32) for number, name in enumerate("abc")}
    write(path, arrays, alignment)
    for name, item in found_in(FORMAT, path).items():
        assert_reads_as(source_of(item), arrays[name])


def test_a_nan_keeps_its_payload(path: Path) -> None:
    bits = np.array([0x7FC00001, 0xFFA12345, 0x7F800001], np.uint32)
    write(path, {"x": bits.view(np.float32)})
    assert source_of(found_in(FORMAT, path)["x"]).read().view(np.uint32).tolist() == bits.tolist()


def test_without_the_package_plain_tensors_still_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_sample(path)
    for module in ("gguf", "gguf.quants", "gguf.constants"):
        monkeypatch.setitem(sys.modules, module, None)
    found = found_in(FORMAT, path)
    assert complaint(found["packed"]) == (
        "is quantised as Q4_0, which needs the gguf package: pip install 'firstdiff[gguf]'"
    )
    assert source_of(found["plain"]).shape == (2, 64)


def text(value: str | bytes, endian: str = "<") -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return struct.pack(endian + "Q", len(data)) + data


def pair(key: str, kind: int, value: bytes) -> bytes:
    return text(key) + struct.pack("<I", kind) + value


def tensor(name: str | bytes, dims: tuple[int, ...], kind: int, offset: int, endian: str = "<") -> bytes:
    numbers = struct.pack(f"{endian}I{len(dims)}QIQ", len(dims), *dims, kind, offset)
    return text(name, endian) + numbers


def content(
    pairs: Sequence[bytes] = (),
    entries: Sequence[bytes] = (),
    data: bytes = b"",
    version: int = 3,
    tensors: int | None = None,
    metadata: int | None = None,
    endian: str = "<",
) -> bytes:
    counts = (len(entries) if tensors is None else tensors, len(pairs) if metadata is None else metadata)
    head = b"GGUF" + struct.pack(endian + "IQQ", version, *counts) + b"".join((*pairs, *entries))
    return head + b"\0" * (-len(head) % 32) + data


def array_of(kind: int, count: int, data: bytes = b"") -> bytes:
    return struct.pack("<IQ", kind, count) + data


def test_version_2_reads_as_version_3_does(path: Path) -> None:
    path.write_bytes(content([], [tensor("x", (2,), 0, 0)], np.array([1, 2], "<f4").tobytes(), version=2))
    assert source_of(found_in(FORMAT, path)["x"]).read().tolist() == [1, 2]


def test_every_kind_of_metadata_is_stepped_over(path: Path) -> None:
    widths = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
    pairs = [pair(f"plain.{kind}", kind, bytes(width)) for kind, width in widths.items()]
    pairs += [pair(f"list.{kind}", 9, array_of(kind, 3, bytes(3 * width))) for kind, width in widths.items()]
    pairs += [pair("text", 8, text("hello")), pair("texts", 9, array_of(8, 2, text("a") + text("")))]
    nested = array_of(4, 2, bytes(8)) + array_of(8, 1, text("x"))
    pairs += [pair("lists", 9, array_of(9, 2, nested)), pair("empty", 9, array_of(9, 0))]
    path.write_bytes(content(pairs, [tensor("x", (1,), 0, 0)], np.float32(5).tobytes()))
    assert source_of(found_in(FORMAT, path)["x"]).read().tolist() == [5]


def test_a_large_vocabulary_is_stepped_over_without_keeping_it(path: Path) -> None:
    words = b"".join(text(f"token {number}") for number in range(200_000))
    vocabulary = pair("tokenizer.ggml.tokens", 9, array_of(8, 200_000, words))
    path.write_bytes(content([vocabulary], [tensor("x", (1,), 0, 0)], bytes(4)))
    assert_survives(FORMAT, path, most=1 << 20)
    assert list(found_in(FORMAT, path)) == ["x"]


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_a_hostile_name_is_just_a_name(path: Path, name: str) -> None:
    write(path, {name: np.ones(2, np.float32)})
    assert source_of(found_in(FORMAT, path)[name]).read().tolist() == [1, 1]


def test_a_name_that_is_not_text_can_still_be_shown(path: Path) -> None:
    path.write_bytes(content([], [tensor(b"a\xff", (1,), 0, 0)], bytes(4)))
    assert list(found_in(FORMAT, path)) == ["a\\xff"]


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "does not start as a GGUF file does"),
        (b"GGML" + bytes(20), "does not start as a GGUF file does"),
        (b"GGUF", "ends inside its header; was it cut off?"),
        (b"GGUF\x03\0\0\0", "ends inside its header; was it cut off?"),
        (content(version=1), "is GGUF version 1; versions 2 and 3 can be read, so convert it with a newer tool"),
        (content(version=4), "is GGUF version 4;"),
        (content(version=7, endian=">"), "is GGUF version 7;"),
        (content(tensors=1 << 60), "claims 1,152,921,504,606,846,976 tensors, more than it can hold; is it damaged?"),
        (content(tensors=2), "claims 2 tensors, more than it can hold"),
        (content(metadata=1 << 63), "claims 9,223,372,036,854,775,808 pieces of metadata, more than it can hold"),
        (content([pair("x", 9, array_of(8, 1 << 50))]), "claims 1,125,899,906,842,624 strings, more than it can hold"),
        (content([pair("x", 9, array_of(9, 1 << 50))]), "claims 1,125,899,906,842,624 lists, more than it can hold"),
        (content([pair("x", 9, array_of(4, 1 << 62))]), "ends inside its header; was it cut off?"),
        (content([pair("x", 9, array_of(8, 1, struct.pack("<Q", 99)))]), "ends inside its header; was it cut off?"),
        (content([pair("x", 8, struct.pack("<Q", 1 << 63))]), "ends inside its header; was it cut off?"),
        (content([pair("x", 99, b"")]), "has metadata of the unknown type 99; is it damaged?"),
        (content([pair("x", 9, array_of(99, 1, bytes(20)))]), "has metadata of the unknown type 99; is it damaged?"),
        (
            content([pair("x", 9, array_of(9, 1) * 30 + bytes(20))]),
            "has metadata of the unknown type 9; is it damaged?",
        ),
        (content([struct.pack("<Q", 1 << 40) + bytes(20)]), "claims a name of 1,099,511,627,776 bytes; is it damaged?"),
        (
            content([pair("general.alignment", 4, struct.pack("<I", 3))]),
            "has 3 as its general.alignment, which is no power of two",
        ),
        (
            content([pair("general.alignment", 4, struct.pack("<I", 0))]),
            "has 0 as its general.alignment, which is no power of two",
        ),
        (
            content([pair("general.alignment", 10, struct.pack("<Q", 32))]),
            "has no single whole number as its general.alignment",
        ),
        (
            content([pair("general.alignment", 4, struct.pack("<I", 32))] * 2),
            "has no single whole number as its general.alignment",
        ),
        (
            content([], [text("x") + struct.pack("<I", 1 << 31) + bytes(20)]),
            "claims a tensor of 2,147,483,648 dimensions",
        ),
    ],
)
def test_a_file_that_cannot_be_trusted_says_why(path: Path, data: bytes, says: str) -> None:
    path.write_bytes(data)
    assert str(refusal_of(FORMAT, path)).startswith(says)


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (tensor("bad", (1 << 40,), 0, 0), "shape [1099511627776] of float32 needs 4,398,046,511,104 bytes from byte"),
        (tensor("bad", ((1 << 64) - 1,) * 2, 0, 0), "shape [18446744073709551615, 18446744073709551615] of float32"),
        (tensor("bad", (1 << 63, 0), 0, 0), "has the shape [0, 9223372036854775808], which no array can have"),
        (tensor("bad", (1 << 62, 0), 2, 0), "has the shape [0, 4611686018427387904], which no array can have"),
        (tensor("bad", (1,), 0, (1 << 64) - 1), "shape [1] of float32 needs 4 bytes from byte 18,446,744,073,709,"),
        (tensor("bad", (1 << 40,), 12, 0), "shape [1099511627776] needs 618,475,290,624 bytes from byte"),
        (tensor("bad", (33,), 2, 0), "has shape [33], whose rows are no whole Q4_0 blocks of 32"),
        (tensor("bad", (), 2, 0), "has shape [], whose rows are no whole Q4_0 blocks of 32"),
        (tensor("bad", (256,), 15, 0), "is quantised as Q8_K, which the installed gguf package cannot decode"),
        (tensor("bad", (1,), 31, 0), "has ggml's type 31, which cannot be compared"),
        (tensor("bad", (1,), (1 << 32) - 1, 0), "has ggml's type 4294967295, which cannot be compared"),
    ],
)
def test_one_bad_tensor_leaves_the_others(path: Path, bad: bytes, says: str) -> None:
    path.write_bytes(content([], [tensor("good", (1,), 0, 0), bad], np.float32(3).tobytes() + bytes(60)))
    found = found_in(FORMAT, path)
    assert source_of(found["good"]).read().tolist() == [3]
    assert complaint(found["bad"]).startswith(says)


def test_two_tensors_of_one_name_are_told(path: Path) -> None:
    twice = tensor("twice", (1,), 0, 0)
    path.write_bytes(content([], [twice, tensor("once", (1,), 0, 0), twice], bytes(4)))
    found = found_in(FORMAT, path)
    assert complaint(found["twice"]) == "is in the file 2 times"
    assert source_of(found["once"]).read().tolist() == [0]


def test_big_endian_blocks_are_told(path: Path) -> None:
    path.write_bytes(content([], [tensor("x", (32,), 2, 0, ">")], bytes(64), endian=">"))
    assert complaint(found_in(FORMAT, path)["x"]) == (
        "is quantised as Q4_0 in big-endian order; convert it with gguf-convert-endian first"
    )


def test_a_file_cut_off_anywhere_keeps_what_is_whole(path: Path) -> None:
    make_sample(path)
    padding = 24  # after 72 bytes of blocks
    whole = path.read_bytes()[:-padding]
    expected = {name: source_of(item).read() for name, item in found_in(FORMAT, path).items()}
    end_of_header = whole.rindex(b"packed") + 40
    for end in range(0, len(whole), 3):
        path.write_bytes(whole[:end])
        if refusal_of(FORMAT, path) is not None:
            assert end < end_of_header
            continue
        found = found_in(FORMAT, path)
        whole_ones = [name for name, item in found.items() if not isinstance(item.source, ReadError)]
        assert len(whole_ones) < 3
        for name in found:
            if name in whole_ones:
                assert_reads_as(source_of(found[name]), expected[name])
            else:
                assert "was the file cut off?" in complaint(found[name])


def test_a_file_that_shrinks_after_listing_is_an_error_with_its_name(path: Path) -> None:
    make_sample(path)
    sources = [source_of(item) for item in found_in(FORMAT, path).values()]
    path.write_bytes(path.read_bytes()[:200])
    for source in sources:
        with pytest.raises(ReadError, match="was it cut off") as raised:
            source.window(0, 1)
        assert raised.value.label == str(path)


def test_it_is_told_by_its_first_bytes(path: Path) -> None:
    make_sample(path)
    assert FORMAT.sniff(file_blob(path))
    path.write_bytes(b"GGM")
    assert not FORMAT.sniff(file_blob(path))


@settings(max_examples=300)
@given(data=st.data())
def test_damage_is_an_error_and_never_a_crash(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path = tmp_path_factory.getbasetemp() / "damaged.gguf"
    make_sample(path)
    path.write_bytes(data.draw(damaged(path.read_bytes())))
    assert_survives(FORMAT, path)
