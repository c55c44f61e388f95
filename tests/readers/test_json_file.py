from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from firstdiff.errors import ReadError
from firstdiff.json_text import to_json
from firstdiff.readers.blob import Extent, StoredBlob, file_blob
from firstdiff.readers.json_file import FORMAT
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


def make_sample(path: Path) -> None:
    sample = {
        "mel": [[0.5, -1.25], [2, float("nan")]],
        "ids": [1, 2, 3],
        "mask": [True, False],
        "block": {"out": {"shape": [2, 2], "data": [1, 2, 3, 4], "dtype": "float16"}},
    }
    path.write_text(json.dumps(sample), encoding="utf-8")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.json"


def read_text(path: Path, text: str) -> np.ndarray:
    path.write_text(text, encoding="utf-8")
    return source_of(found_in(FORMAT, path)[""]).read()


@pytest.mark.parametrize(
    ("text", "dtype", "values"),
    [
        ("4096", "int64", 4096),
        ("-2.5", "float64", -2.5),
        ("[1, 2, 3]", "int64", [1, 2, 3]),
        ("[[1, 2], [3, 4]]", "int64", [[1, 2], [3, 4]]),
        ("[1, 2.5]", "float64", [1, 2.5]),
        ("[true, false]", "bool", [True, False]),
        ("[18446744073709551615, 0]", "uint64", [18446744073709551615, 0]),
        ("[-9223372036854775808]", "int64", [-9223372036854775808]),
        ("[9007199254740994, 0.5]", "float64", [9007199254740994, 0.5]),
        ("[]", "float64", []),
        ("[[], []]", "float64", [[], []]),
        ('[Infinity, -Infinity, "inf", "-inf"]', "float64", [np.inf, -np.inf, np.inf, -np.inf]),
        ("[1, Infinity]", "float64", [1, np.inf]),
        ('{"shape": [2, 1], "data": [1, 2]}', "int64", [[1], [2]]),
        ('{"shape": [], "data": [1]}', "int64", 1),
        ('{"shape": [2, 2], "data": [[1, 2], [3, 4]]}', "int64", [[1, 2], [3, 4]]),
        ('{"shape": [0, 3], "data": []}', "float64", np.zeros((0, 3)).tolist()),
        ('{"data": [1, 2], "dtype": "bfloat16"}', "bfloat16", [1, 2]),
        ('{"data": [0, 1], "dtype": "bool"}', "bool", [False, True]),
        ('{"data": [0.1, "inf"], "dtype": "float32", "shape": [2]}', "float32", [float(np.float32(0.1)), np.inf]),
        ('{"data": [255], "dtype": "uint8"}', "uint8", [255]),
        ('{"data": [3.0], "dtype": "int8"}', "int8", [3]),
        ('{"data": [448, -0.5], "dtype": "float8_e4m3fn"}', "float8_e4m3fn", [448, -0.5]),
        ("\ufeff [7]", "int64", [7]),
    ],
)
def test_numbers_become_the_array_they_are(path: Path, text: str, dtype: str, values: Any) -> None:
    array = read_text(path, text)
    assert array.dtype.name == dtype
    assert array.tolist() == values


@pytest.mark.parametrize("text", ["[NaN, 1]", '["nan", 1]', '["nan", 1.0]'])
def test_every_spelling_of_nan_is_one(path: Path, text: str) -> None:
    array = read_text(path, text)
    assert np.isnan(array).tolist() == [True, False]


@given(
    hnp.arrays(
        st.sampled_from([np.float64, np.int64, np.uint64, np.bool_]),
        hnp.array_shapes(min_dims=0, max_dims=4, max_side=4),
    )
)
def test_what_python_and_firstdiff_write_comes_back(
    tmp_path_factory: pytest.TempPathFactory, array: np.ndarray
) -> None:
    path = tmp_path_factory.getbasetemp() / "roundtrip.json"
    expected = array.copy()
    if array.dtype == np.uint64 and array.max() <= np.iinfo(np.int64).max:
        expected = array.astype(np.int64)
    if array.dtype == np.float64:
        # a NaN has no sign and no payload in JSON
        expected[np.isnan(expected)] = np.nan
    for write in (json.dumps, to_json):
        path.write_text(write(array.tolist()), encoding="utf-8")
        assert_reads_as(source_of(found_in(FORMAT, path)[""]), expected)


def test_names_inside_names_are_joined_by_dots(path: Path) -> None:
    path.write_text('{"b": {"x": [1], "deep": {"er": 2.5}}, "a": [[1]]}', encoding="utf-8")
    found = found_in(FORMAT, path)
    assert {name: source_of(item).read().tolist() for name, item in found.items()} == {
        "b.x": [1],
        "b.deep.er": 2.5,
        "a": [[1]],
    }
    assert list(found) == ["b.x", "b.deep.er", "a"]


def test_an_object_with_more_than_data_and_shape_holds_names(path: Path) -> None:
    path.write_text('{"data": [1], "shape": [2, 3], "other": 4}', encoding="utf-8")
    assert list(found_in(FORMAT, path)) == ["data", "shape", "other"]


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_a_hostile_name_is_just_a_name(path: Path, name: str) -> None:
    path.write_text(json.dumps({name: [1]}), encoding="utf-8")
    assert source_of(found_in(FORMAT, path)[name]).read().tolist() == [1]


def test_half_of_a_surrogate_pair_can_still_be_shown(path: Path) -> None:
    path.write_text('{"\\ud800": 1}', encoding="utf-8")
    assert list(found_in(FORMAT, path)) == ["\\ud800"]


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ("[[1, 2], [3]]", "is ragged: lists of 1 and of 2 values side by side at depth 1"),
        ("[1, [2]]", "is ragged: lists and single values side by side at depth 1"),
        ("[[1], []]", "is ragged: lists of 0 and of 1 values side by side at depth 1"),
        ('"hello"', 'holds the text \'hello\'; only "nan", "inf" and "-inf" stand for numbers'),
        ('["", 1]', "holds the text ''"),
        ('["NaN"]', "holds the text 'NaN'"),
        ("null", 'holds null, which is no number; write "nan" where a value is not a number'),
        ("[1.5, null]", "holds null, which is no number"),
        ("[true, 1]", "mixes true and false with numbers"),
        ("[{}, 1]", "holds objects inside lists; give each tensor a name of its own"),
        ("[18446744073709551616]", "holds whole numbers from 18446744073709551616 to 18446744073709551616"),
        ("[-1, 18446744073709551615]", "holds whole numbers from -1 to 18446744073709551615, which fit no 64-bit"),
        ("[9007199254740993, 0.5]", "mixes 9007199254740993 with fractions, and as float64 it would lose digits"),
        ('[9007199254740993, "nan"]', "mixes 9007199254740993 with fractions"),
        (f"[1{'0' * 400}, 0.5]", "mixes 10000000000000000000… (401 digits) with fractions"),
        ("[1e400]", 'holds a number beyond float64; write "inf" or "-inf" where infinity is meant'),
        ('[-1e400, "inf", Infinity]', "holds a number beyond float64"),
        ("[" * 40 + "]" * 40, "is lists nested more than 32 deep"),
        ('{"data": [1], "shape": [2]}', "has the shape [2], but its data has the shape [1]"),
        ('{"data": [[1, 2], [3, 4]], "shape": [4]}', "has the shape [4], but its data has the shape [2, 2]"),
        ('{"data": [1], "shape": [-1]}', "has the shape [-1], which is no list of whole numbers"),
        ('{"data": [1], "shape": "2"}', "has the shape '2', which is no list of whole numbers"),
        (f'{{"data": [], "shape": [0, {1 << 63}]}}', "has the shape [0, 9223372036854775808], which is no list"),
        (
            f'{{"data": [], "shape": [0, {1 << 62}, 8]}}',
            "has the shape [0, 4611686018427387904, 8], which no array can",
        ),
        (f'{{"data": [1], "shape": [{"1, " * 40} 1]}}', "has the shape [1, 1"),
        ('{"data": [1], "dtype": "float33"}', "has the dtype 'float33', which JSON numbers cannot be converted to"),
        ('{"data": [1], "dtype": "complex64"}', "has the dtype 'complex64', which JSON numbers cannot be converted to"),
        ('{"data": [1], "dtype": ["float32"]}', "has the dtype ['float32'], which JSON numbers cannot be converted to"),
        ('{"data": [300], "dtype": "uint8"}', "holds values that do not fit its dtype uint8"),
        ('{"data": [-1], "dtype": "uint64"}', "holds values that do not fit its dtype uint64"),
        ('{"data": [1.5], "dtype": "int64"}', "holds values that do not fit its dtype int64"),
        ('{"data": ["nan"], "dtype": "int64"}', "holds values that do not fit its dtype int64"),
        ('{"data": [1e39], "dtype": "float32"}', "holds values that do not fit its dtype float32"),
        ('{"data": [500], "dtype": "float8_e4m3fn"}', "holds values that do not fit its dtype float8_e4m3fn"),
        ('{"data": [2], "dtype": "bool"}', "holds values that do not fit its dtype bool"),
        ('{"data": [1], "data": [2], "shape": [1]}', "has data, shape or dtype twice"),
        ('1, "bad": 2', "is in the file 2 times, so it is not clear which one counts"),
    ],
)
def test_one_bad_tensor_leaves_the_others(path: Path, bad: str, says: str) -> None:
    path.write_text(f'{{"before": [1], "bad": {bad}, "after": {{"x": 2}}}}', encoding="utf-8")
    found = found_in(FORMAT, path)
    assert complaint(found["bad"]).startswith(says)
    assert source_of(found["before"]).read().tolist() == [1]
    assert source_of(found["after.x"]).read().tolist() == 2


def test_two_ways_to_the_same_name_are_told(path: Path) -> None:
    path.write_text('{"a.b": 1, "a": {"b": 2}}', encoding="utf-8")
    assert complaint(found_in(FORMAT, path)["a.b"]).startswith("is in the file 2 times")


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "is not JSON: Expecting value at line 1, column 1"),
        (b'{"a": 1,\n "b" 2}', "is not JSON: Expecting ':' delimiter at line 2, column 6"),
        (b"[1] [2]", "is not JSON: Extra data at line 1, column 5"),
        (b"[\xff]", "is not JSON: byte 1 is not UTF-8 text"),
        (b"[" * 1_000_000, "is JSON that is nested too deeply to be a tensor"),
        (b'{"a":' * 1_000_000, "is JSON that is nested too deeply to be a tensor"),
        (b"[1" + b"0" * 5000 + b"]", "holds a number with thousands of digits, which fits no tensor"),
    ],
)
def test_a_file_that_is_not_json_says_where(path: Path, data: bytes, says: str) -> None:
    path.write_bytes(data)
    assert refusal_of(FORMAT, path) == says


def test_a_file_cut_off_anywhere_is_an_error(path: Path) -> None:
    make_sample(path)
    whole = path.read_bytes()
    for end in range(len(whole)):
        path.write_bytes(whole[:end])
        assert str(refusal_of(FORMAT, path)).startswith("is not JSON: ")


def test_a_huge_file_is_refused_before_it_is_read(path: Path) -> None:
    blob = StoredBlob("x.json", "x.json", Extent(str(path), 0, (512 << 20) + 1))
    with pytest.raises(ReadError, match=r"is 536,870,913 bytes of JSON, which is read whole; convert .* to \.npy"):
        FORMAT.open(blob)


@pytest.mark.parametrize(
    ("name", "data", "is_one"),
    [
        ("x.json", b"  [1]", True),
        ("x.json", b"\xef\xbb\xbf{}", True),
        ("deep/x.JSON", b"4096", True),
        ("x.json", b"-1", True),
        ("x.json", b"PK\x03\x04", False),
        ("x.json", b"", False),
        ("x.txt", b"[1]", False),
        ("deep/trace.json", b"{}", False),
        ("tensors.jsonl", b"{}", False),
    ],
)
def test_it_is_told_by_its_name_and_first_byte(path: Path, name: str, data: bytes, is_one: bool) -> None:
    path.write_bytes(data)
    assert FORMAT.sniff(file_blob(path, name)) is is_one


@settings(max_examples=300)
@given(data=st.data())
def test_damage_is_an_error_and_never_a_crash(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path = tmp_path_factory.getbasetemp() / "damaged.json"
    make_sample(path)
    path.write_bytes(data.draw(damaged(path.read_bytes())))
    assert_survives(FORMAT, path)
