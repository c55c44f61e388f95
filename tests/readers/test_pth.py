from __future__ import annotations

import collections
import io
import pickle
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from firstdiff import dtypes
from firstdiff.errors import ReadError
from firstdiff.readers.archive import open_archive
from firstdiff.readers.blob import file_blob
from firstdiff.readers.pth import FORMAT
from tests.readers import hostile_pickles as hostile
from tests.readers.torch_files import THREE, assert_same, failure, flat, found_in, oracle, saved, values, written

pytestmark = pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental:UserWarning")

TORCH_DTYPES = [
    dtype for name in (*dtypes.BY_NAME, "complex32") if isinstance(dtype := getattr(torch, name, None), torch.dtype)
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pth")


@st.composite
def tensors(draw: st.DrawFn) -> torch.Tensor:
    """Random bits of any dtype, seen through random strides: dense, transposed, overlapping, expanded, empty."""
    dtype = draw(st.sampled_from(TORCH_DTYPES))
    count = draw(st.integers(0, 24))
    raw = draw(st.binary(min_size=count * dtype.itemsize, max_size=count * dtype.itemsize))
    if dtype == torch.bool:
        raw = bytes(byte & 1 for byte in raw)
    base = torch.frombuffer(bytearray(raw), dtype=dtype) if raw else torch.empty(0, dtype=dtype)
    shape = draw(st.lists(st.integers(0, 4), max_size=4))
    strides = draw(st.tuples(*[st.integers(0, 6)] * len(shape)))
    reach = sum((n - 1) * step for n, step in zip(shape, strides, strict=True)) if all(shape) else -1
    if reach >= count:
        return base
    offset = draw(st.integers(0, count - reach - 1)) if all(shape) else 0
    view = base.as_strided(shape, strides, offset)
    if draw(st.booleans()) and (dtype.is_floating_point or dtype.is_complex):
        return torch.nn.Parameter(view)
    return view


NUMBERS = st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats() | st.complex_numbers()
NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters=".~"), min_size=1, max_size=8)
STRUCTURES = st.recursive(
    tensors() | NUMBERS | st.none() | st.text(max_size=3).filter(lambda text: text.isascii()),
    lambda inner: (
        st.dictionaries(NAMES, inner, max_size=4)
        | st.dictionaries(NAMES, inner, max_size=3).map(collections.OrderedDict)
        | st.lists(tensors() | st.dictionaries(NAMES, inner, max_size=2), max_size=3)
        | st.tuples(tensors(), tensors())
    ),
    max_leaves=6,
)


@settings(max_examples=150)
@given(value=STRUCTURES, data=st.data())
def test_whatever_torch_saves_comes_back_bit_for_bit(folder: Path, value: Any, data: st.DataObject) -> None:
    torch.save(value, folder / "any.pth")
    expected = dict(flat(torch.load(folder / "any.pth", weights_only=True)))
    if not expected:
        with pytest.raises(ReadError, match="holds no tensors"):
            found_in(folder / "any.pth")
        return
    found = found_in(folder / "any.pth")
    assert list(found) == list(expected)
    for name, array in expected.items():
        source = found[name].source
        assert_same(source, array)
        start, stop = sorted(data.draw(st.tuples(*[st.integers(0, array.size)] * 2)))
        assert source.window(start, stop).tobytes() == array.reshape(-1)[start:stop].tobytes()
        if array.ndim and array.size:
            index = data.draw(hnp.basic_indices(array.shape, allow_ellipsis=True))
            assert source.read(index).tobytes() == np.array(array[index]).tobytes()


@pytest.mark.parametrize("dtype", TORCH_DTYPES, ids=str)
def test_every_dtype(tmp_path: Path, dtype: torch.dtype) -> None:
    tensor = torch.tensor([0, 1, 1, 0, 1, 1]).to(torch.float32).to(dtype).reshape(2, 3)
    found = saved(tensor, tmp_path)[""]
    assert_same(found.source, oracle(tensor))
    assert found.attrs == ({"stored": "complex32"} if dtype == torch.complex32 else {})


def test_all_dtypes_of_firstdiff_that_torch_has_are_tried() -> None:
    assert {"float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "bfloat16", "uint16", "complex32"} <= {
        str(dtype).removeprefix("torch.") for dtype in TORCH_DTYPES
    }


@pytest.mark.parametrize(
    "make",
    [
        lambda z: z.conj(),
        lambda z: z.conj().imag,
        lambda z: z.conj().imag.T,
        lambda z: z.imag,
        lambda z: z.mT.conj()[1:],
        lambda z: z.to(torch.complex32).conj(),
    ],
    ids=["conj", "neg", "neg strided", "imag", "adjoint", "half"],
)
def test_lazy_conjugates_and_negatives_are_applied(
    tmp_path: Path, make: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    tensor = make(torch.complex(torch.arange(12.0), torch.arange(12.0) - 5).reshape(3, 4))
    source = saved({"z": tensor}, tmp_path)["z"].source
    expected = oracle(tensor)
    assert_same(source, expected)
    assert source.view().tolist() == expected.tolist()
    assert source.read((1, slice(None, None, -2))).tolist() == expected[1, ::-2].tolist()
    assert source.read((0, 1)).tolist() == expected[0, 1].tolist()
    assert source.window(2, 7).tolist() == expected.reshape(-1)[2:7].tolist()


def test_the_state_of_a_real_model_and_its_optimiser(tmp_path: Path) -> None:
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.Embedding(5, 2), torch.nn.LSTM(2, 3)
    )
    optimiser = torch.optim.AdamW(model.parameters())
    sum(parameter.sum() for parameter in model.parameters()).backward()
    optimiser.step()
    state = {"model": model.state_dict(), "optimiser": optimiser.state_dict(), "epoch": 3, "best": 0.5, "name": "run"}
    found = saved(state, tmp_path)
    expected = dict(flat(state))
    for name, array in expected.items():
        if ".betas." not in name and ".params." not in name:
            assert_same(found[name].source, array)
    assert values(found["optimiser.param_groups.0.betas"]).tolist() == [0.9, 0.999]
    assert values(found["model.1.num_batches_tracked"]).tolist() == 0
    assert "name" not in found


def test_views_of_one_storage_share_it(tmp_path: Path) -> None:
    base = torch.arange(1000.0)
    found = saved({"all": base, "part": base[500:510], "same": base}, tmp_path)
    assert (tmp_path / "x.pth").stat().st_size < 2 * base.nbytes
    assert values(found["part"]).tolist() == list(range(500, 510))
    assert values(found["same"]).tolist() == base.tolist()


def test_parameters_buffers_attributes_and_named_tuples(tmp_path: Path) -> None:
    marked = torch.arange(3.0)
    marked.note = "kept apart"
    tied = torch.nn.Parameter(torch.ones(2))
    tied.tensor_model_parallel = True
    found = saved([marked, tied, torch.nn.Buffer(torch.zeros(2)), torch.ones(2, 2).max(0)], tmp_path)
    assert {name: values(item).tolist() for name, item in found.items()} == {
        "0": [0, 1, 2],
        "1": [1, 1],
        "2": [0, 0],
        "3.0": [1, 1],
        "3.1": [0, 0],
    }


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (4096, np.array(4096)),
        (True, np.array(True)),
        (0.5, np.array(0.5)),
        (1 + 2j, np.array(1 + 2j)),
        (2**63, np.array(2**63, np.uint64)),
        ([1, 2, 3], np.array([1, 2, 3])),
        ((1, 2.5), np.array([1, 2.5])),
        ([True, False], np.array([True, False])),
        ([True, 2], np.array([1, 2])),
        ([2**64 - 1, 0], np.array([2**64 - 1, 0], np.uint64)),
        ([[1, 2], (3, 4)], np.array([[1, 2], [3, 4]])),
        ([[[1]], [[2]]], np.array([[[1]], [[2]]])),
        ({3, 1, 2}, np.array([1, 2, 3])),
        (torch.Size([4, 5]), np.array([4, 5])),
        (list(range(100_000)), np.arange(100_000)),
    ],
    ids=lambda value: str(value)[:20],
)
@pytest.mark.parametrize("protocol", [2, 4])
def test_numbers_and_lists_of_numbers_are_arrays(
    tmp_path: Path, value: Any, expected: np.ndarray, protocol: int
) -> None:
    assert_same(saved(value, tmp_path, pickle_protocol=protocol)[""].source, expected)


def test_irregular_lists_are_taken_apart(tmp_path: Path) -> None:
    found = saved({"x": [[1, 2], [3]], "y": [1, "text", 2], "z": [[1, 2], [3, [4]]]}, tmp_path)
    assert {name: values(item).tolist() for name, item in found.items()} == {
        "x.0": [1, 2],
        "x.1": [3],
        "y.0": 1,
        "y.2": 2,
        "z.0": [1, 2],
        "z.1.0": 3,
        "z.1.1": [4],
    }


def test_keys_that_are_not_text_and_names_that_clash(tmp_path: Path) -> None:
    value = {1: 10, "1": 11, 1.5: 12, None: 13, (1, "a"): 14, b"raw": 15, torch.float32: 16, "a": {"b": 17}, "a.b": 18}
    found = saved(value | {2**300: 19, "line\nbreak": 20, "<script>": 21, "": 22}, tmp_path)
    assert {name: int(values(item)) for name, item in found.items()} == {
        "1": 10,
        "1~2": 11,
        "1.5": 12,
        "None": 13,
        "(1, a)": 14,
        "raw": 15,
        "torch.float32": 16,
        "a.b": 17,
        "a.b~2": 18,
        "integer of 301 bits": 19,
        "line\nbreak": 20,
        "<script>": 21,
        "": 22,
    }


@pytest.mark.parametrize(
    "value", ["text", None, {}, [], {"a": "b", "c": [None, {}]}, torch.float32, torch.device("cpu")]
)
def test_a_file_without_numbers_says_so(tmp_path: Path, value: Any) -> None:
    with pytest.raises(ReadError, match="holds no tensors"):
        saved(value, tmp_path)


def test_metadata_beside_tensors_is_left_out(tmp_path: Path) -> None:
    value = {
        "w": torch.ones(1),
        "dtype": torch.bfloat16,
        "device": torch.device("cuda:0"),
        "layout": torch.strided,
        "version": torch.__version__,
        "extra": io.BytesIO(b"state"),
        "raw": b"bytes",
        "array": bytearray(b"bytes"),
        "range": range(3),
        "slice": slice(1, 2),
        "names": {"a", "b"},
        "numpy": np.dtype("f4"),
    }
    assert list(saved(value, tmp_path)) == ["w"]


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_numpy_inside_a_torch_file(tmp_path: Path, protocol: int) -> None:
    arrays = {
        "plain": np.arange(6, dtype=np.int16).reshape(2, 3),
        "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "big_endian": np.arange(3, dtype=">f4"),
        "scalar": np.float32(1.5),
        "bool": np.array([True, False]),
        "complex": np.array([1 + 2j], np.complex64),
        "empty": np.zeros((0, 4)),
        "zero_d": np.array(7),
        "bfloat16": np.array([1.5, -2], ml_dtypes.bfloat16),
    }
    bad = {
        "text": np.array("x"),
        "objects": np.array([None]),
        "fields": np.zeros(1, [("a", "f4")]),
        "time": np.datetime64(0, "s"),
    }
    found = saved(arrays | bad, tmp_path, pickle_protocol=protocol)
    for name, array in arrays.items():
        assert_same(found[name].source, np.asarray(array, np.asarray(array).dtype.newbyteorder("=")))
    for name in bad:
        assert "cannot be compared" in failure(found[name])


@pytest.mark.parametrize("suffix", [".pkl", ".pickle", ".pth"])
@pytest.mark.parametrize("protocol", [2, 5])
def test_a_plain_pickle_of_arrays_and_numbers_is_read(tmp_path: Path, suffix: str, protocol: int) -> None:
    value = {"a": np.arange(3), "n": 5, "t": torch.ones(2)}
    found = written(pickle.dumps(value, protocol), tmp_path, f"x{suffix}")
    assert values(found["a"]).tolist() == [0, 1, 2]
    assert values(found["n"]).tolist() == 5
    assert "save it with torch.save instead" in failure(found["t"])


def test_a_pickle_of_python_2_is_read(tmp_path: Path) -> None:
    array = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntS'b'\ntR(I1\n(I2\nt"
    array += b"cnumpy\ndtype\n(S'i2'\nI0\nI1\ntR(I3\nS'<'\nNNNI-1\nI-1\nI0\ntbI00\nS'\\x01\\x00\\x02\\x00'\ntb."
    (tmp_path / "x.pkl").write_bytes(array)
    (found,) = FORMAT.open(file_blob(tmp_path / "x.pkl"))
    assert values(found).tolist() == [1, 2]


def test_tensors_of_devices_without_storages(tmp_path: Path) -> None:
    code = hostile.reduced(
        "torch._utils", "_rebuild_device_tensor_from_cpu_tensor", hostile.tensor(), b"%s", b"N", b"\x89"
    )
    for dtype, expected in (("float32", "float32"), ("bfloat16", "bfloat16")):
        pickle = hostile.pickled(code.replace(b"%s", hostile.named("torch", dtype)))
        source = written(hostile.torch_file(pickle, {"0": THREE.tobytes()}), tmp_path)[""].source
        assert_same(source, THREE.astype(dtypes.from_name(expected)))


@pytest.mark.parametrize("location", ["cuda:0", "mps", "xpu:3", "anything at all"])
def test_the_device_of_a_tensor_does_not_matter(tmp_path: Path, location: str) -> None:
    pickle = hostile.pickled(hostile.tensor()).replace(hostile.text("cpu"), hostile.text(location))
    assert values(written(hostile.torch_file(pickle, {"0": THREE.tobytes()}), tmp_path)[""]).tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    "name", ["float32", "float16", "bfloat16", "int64", "complex64", "bool", "uint8", "float8_e5m2"]
)
def test_big_endian_files_are_read_as_such(tmp_path: Path, name: str) -> None:
    dtype = dtypes.from_name(name)
    array = np.array([0, 1, 1, 0], dtype)
    torch.save(torch.frombuffer(bytearray(array.tobytes()), dtype=getattr(torch, name)).reshape(2, 2).T, tmp_path / "x")
    with zipfile.ZipFile(tmp_path / "x") as archive:
        pickle, raw = archive.read("x/data.pkl"), archive.read("x/data/0")
    width = dtype.itemsize // 2 if dtype.kind == "c" else dtype.itemsize
    swapped = np.frombuffer(raw, f"u{width}").byteswap().tobytes()
    source = written(hostile.torch_file(pickle, {"0": swapped}, byteorder=b"big"), tmp_path)[""].source
    assert_same(source, np.ascontiguousarray(array.reshape(2, 2).T))
    assert source.window(1, 3).dtype.isnative
    assert source.window(1, 3).tobytes() == array.reshape(2, 2).T.reshape(-1)[1:3].tobytes()


def test_big_endian_half_complex(tmp_path: Path) -> None:
    pickle = hostile.pickled(
        hostile.reduced(
            "torch._utils",
            "_rebuild_tensor_v3",
            hostile.storage(cls="UntypedStorage"),
            b"K\x00",
            hostile.numbers((2,)),
            hostile.numbers((1,)),
            b"\x89N",
            hostile.named("torch", "complex32"),
        )
    )
    raw = np.array([1, -2, 0.5, 4], ">f2").tobytes()
    source = written(hostile.torch_file(pickle, {"0": raw}, byteorder=b"big"), tmp_path)[""].source
    assert source.read().tolist() == [1 - 2j, 0.5 + 4j]


def test_odd_layouts_that_do_fit(tmp_path: Path) -> None:
    codes = {
        "empty_far_away": hostile.tensor((0, 3), (3, 1), 1000),
        "stride_of_one_element": hostile.tensor((1, 3), (1 << 60, 1)),
        "strided_with_one_element": hostile.tensor((2, 1), (2, 1 << 61)),
        "expanded": hostile.tensor((2, 3, 2), (0, 1, 0)),
        "scalar": hostile.tensor((), (), 2),
        "storage": hostile.storage(),
    }
    found = written(hostile.torch_file(hostile.pickled(hostile.table(**codes)), {"0": THREE.tobytes()}), tmp_path)
    assert {name: values(item).tolist() for name, item in found.items()} == {
        "empty_far_away": [],
        "stride_of_one_element": [[1, 2, 3]],
        "strided_with_one_element": [[1], [3]],
        "expanded": [[[1, 1], [2, 2], [3, 3]]] * 2,
        "scalar": 3,
        "storage": [1, 2, 3],
    }


def test_a_file_packed_again_with_compression_is_read(tmp_path: Path) -> None:
    tensor = torch.arange(10_000.0).reshape(100, 100).T
    torch.save({"t": tensor, "many": {str(n): n for n in range(2000)}}, tmp_path / "x.pth")
    with (
        zipfile.ZipFile(tmp_path / "x.pth") as old,
        zipfile.ZipFile(tmp_path / "y.pth", "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for name in old.namelist():
            new.writestr(name, old.read(name))
    found = found_in(tmp_path / "y.pth")
    assert_same(found["t"].source, oracle(tensor))
    assert len(found) == 2001


def test_files_inside_archives_are_read_in_place(tmp_path: Path) -> None:
    tensor = torch.randn(50, 3)
    torch.save(tensor, tmp_path / "x.pth")
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        with zipfile.ZipFile(tmp_path / "all.zip", "w", method) as archive:
            archive.writestr("padding.txt", "x" * 100)
            archive.write(tmp_path / "x.pth", "deep/x.pth")
        blob = next(
            blob for blob in open_archive(file_blob(tmp_path / "all.zip"), "zip").blobs if blob.suffix == ".pth"
        )
        assert FORMAT.sniff(blob)
        (found,) = FORMAT.open(blob)
        assert_same(found.source, oracle(tensor))


def test_reading_needs_no_torch(tmp_path: Path) -> None:
    torch.save({"w": torch.ones(2, dtype=torch.bfloat16)}, tmp_path / "x.pth")
    program = (
        "import sys; from pathlib import Path; from firstdiff.readers.blob import file_blob; "
        "from firstdiff.readers.pth import FORMAT; (found,) = FORMAT.open(file_blob(Path(sys.argv[1]))); "
        "print(found.name, found.source.read().tolist(), 'torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "x.pth"], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["w", "[1.0,", "1.0]", "False"]


def test_numbered_names_do_not_clash_with_others(tmp_path: Path) -> None:
    found = saved({"a.b~2": 1, "a.b": 2, "a": {"b": 3}, "x": [{"y": 4}], "x.0": {"y": 5}, "x.0.y~2": 6}, tmp_path)
    assert {name: int(values(item)) for name, item in found.items()} == {
        "a.b~2": 1,
        "a.b": 2,
        "a.b~3": 3,
        "x.0.y": 4,
        "x.0.y~2": 5,
        "x.0.y~2~2": 6,
    }
