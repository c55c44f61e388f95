from __future__ import annotations

import argparse
import io
import re
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from firstdiff.errors import ReadError, RefusedError
from firstdiff.readers.blob import file_blob
from firstdiff.readers.pth import FORMAT
from firstdiff.trace import Source
from tests.readers import hostile_pickles as hostile
from tests.readers.torch_files import THREE, failure, found_in, saved, values, written


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pth")


def test_an_integer_beyond_every_dtype_is_one_failed_row(tmp_path: Path) -> None:
    found = saved({"huge": 2**70, "mixed": [2**63, -1], "overflow": [10**400, 0.5], "fine": 1}, tmp_path)
    assert [name for name, item in found.items() if isinstance(item.source, ReadError)] == ["huge", "mixed", "overflow"]
    assert "too large for any dtype" in failure(found["huge"])


DTYPE = hostile.reduced("numpy", "dtype", hostile.text("f4"), b"\x89", b"\x88")
EMPTY = hostile.reduced("numpy._core.multiarray", "_reconstruct", hostile.named("numpy", "ndarray"), b")", b"N")


@pytest.mark.parametrize(
    ("code", "finding"),
    [
        (EMPTY, "numpy array without its values"),
        (EMPTY + b"Nb", "in a state that is not numpy's"),
        (
            EMPTY + b"(K\x01" + hostile.numbers((3,)) + DTYPE + b"\x89C\x04abcdtb",
            r"\[3\] of float32 does not fit its 4 bytes",
        ),
        (EMPTY + b"(K\x01" + hostile.numbers((1,)) + DTYPE + b"\x89Ntb", "does not fit its 0 bytes"),
        (EMPTY + b"(K\x01" + hostile.numbers((-1,)) + DTYPE + b"\x89C\x04abcdtb", "not whole numbers"),
        (EMPTY + b"(K\x01" + hostile.numbers((0, 1 << 62)) + DTYPE + b"\x89C\x00tb", "no array can have"),
        (EMPTY.replace(b"ndarray", b"matrix"), r"is a numpy\.matrix, which firstdiff does not read"),
        (EMPTY.replace(hostile.named("numpy", "ndarray"), b"N"), "of no class"),
        (hostile.reduced("numpy.core.multiarray", "scalar", b"N"), "without its value"),
        (hostile.reduced("numpy.core.numeric", "_frombuffer", b"N"), "in a state that is not numpy's"),
        (
            hostile.reduced("numpy.core.multiarray", "scalar", DTYPE.replace(hostile.text("f4"), b"N"), b"C\x00"),
            "numpy's type unknown",
        ),
        (
            hostile.reduced(
                "numpy.core.multiarray", "scalar", DTYPE.replace(hostile.text("f4"), hostile.named("os", "x")), b"N"
            ),
            r"numpy's type os\.x",
        ),
        (hostile.reduced("torch._utils", "_rebuild_device_tensor_from_numpy", EMPTY, b"N"), "without its values"),
        (hostile.reduced("torch._utils", "_rebuild_device_tensor_from_numpy", b"N"), "in a way that torch does not"),
        (b"K\x05Q", "refers to data that is not in the file"),
    ],
)
def test_numpy_that_is_not_numpys_is_one_failed_row(tmp_path: Path, code: bytes, finding: str) -> None:
    found = written(hostile.pickled(hostile.table(bad=code, good=b"K\x01")), tmp_path, "x.pkl")
    assert values(found["good"]).tolist() == 1
    assert re.search(finding, failure(found["bad"]))


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(2, 2)


class Tagged(torch.Tensor):
    pass


UNREADABLE = {
    "sparse": (lambda: torch.eye(2).to_sparse(), r"sparse tensor.*to_dense\(\)"),
    "compressed": (lambda: torch.sparse_coo_tensor([[0], [1]], [2.0], (2, 2)).to_sparse_csc(), r"sparse.*to_dense\(\)"),
    "meta": (lambda: torch.ones(2, device="meta"), "meta device, which has no values"),
    "nested": (lambda: torch.nested.nested_tensor([torch.ones(1), torch.ones(2)]), r"nested.*to_padded_tensor"),
    "model": (Net, r"whole model \(tests\.readers\.test_pth_refusals\.Net\).*state_dict\(\)"),
    "layer": (lambda: torch.nn.Linear(2, 2), r"whole model \(torch\.nn\.modules\.linear\.Linear\)"),
    "subclass": (lambda: torch.ones(2).as_subclass(Tagged), r"test_pth_refusals\.Tagged.*as_subclass\(torch\.Tensor\)"),
    "options": (lambda: argparse.Namespace(lr=1), r"asks for argparse\.Namespace, which firstdiff does not run"),
    "path": (lambda: Path("x"), r"asks for pathlib\.\w+Path, which firstdiff does not run"),
    "class": (lambda: Net, r"asks for tests\.readers\.test_pth_refusals\.Net, which firstdiff does not run"),
}


@pytest.mark.parametrize("kind", UNREADABLE)
@pytest.mark.filterwarnings("ignore:.*(Sparse|sparse|nested tensors).*:UserWarning")
def test_what_has_no_plain_values_is_one_failed_row_with_a_hint(tmp_path: Path, kind: str) -> None:
    make, finding = UNREADABLE[kind]
    found = saved({"odd": make(), "good": torch.ones(2)}, tmp_path)
    assert values(found["good"]).tolist() == [1, 1]
    assert re.search(finding, failure(found["odd"]))
    assert re.search(finding, failure(saved(make(), tmp_path)[""]))


@pytest.mark.parametrize(
    ("code", "finding"),
    [
        (hostile.reduced("torch._utils", "_rebuild_qtensor", hostile.storage(cls="QInt8Storage")), r"dequantize\(\)"),
        (hostile.tensor(of=hostile.storage(cls="QInt8Storage")), "elements of type qint8, which cannot be compared"),
        (
            hostile.reduced(
                "torch._tensor",
                "_rebuild_from_type_v2",
                hostile.named("torch._utils", "_rebuild_wrapper_subclass"),
                hostile.named("torch.distributed.tensor", "DTensor"),
                b")",
                b"}",
            ),
            r"is a torch\.distributed\.tensor\.DTensor, which holds one rank's part.*full_tensor\(\)",
        ),
        (
            hostile.reduced(
                "torch._utils",
                "_rebuild_wrapper_subclass",
                hostile.named("torch._subclasses.fake_tensor", "FakeTensor"),
            ),
            "FakeTensor, which has no values",
        ),
        (hostile.reduced("torch.distributed.tensor", "DTensor", b"N"), r"full_tensor\(\)"),
        (hostile.reduced("torchao.dtypes", "AffineQuantizedTensor"), r"dequantize\(\)"),
        (hostile.reduced("torch._utils", "_rebuild_tensor_v2"), "in a way that torch does not"),
        (hostile.reduced("torch._utils", "_rebuild_tensor_v3", *[b"N"] * 7), "in a way that torch does not"),
        (hostile.reduced("torch._utils", "_rebuild_parameter", b"N"), "in a way that torch does not"),
        (hostile.reduced("torch._tensor", "_rebuild_from_type_v2", b"N"), "in a way that torch does not"),
        (hostile.reduced("torch._utils", "_rebuild_tensor_v2", *[b"N"] * 6), "values are not in the file"),
    ],
)
def test_kinds_of_tensor_that_are_named_with_what_to_save(tmp_path: Path, code: bytes, finding: str) -> None:
    pickle = hostile.pickled(hostile.table(odd=code, good=hostile.tensor()))
    found = written(hostile.torch_file(pickle, {"0": THREE.tobytes()}), tmp_path)
    assert values(found["good"]).tolist() == [1, 2, 3]
    assert re.search(finding, failure(found["odd"]))


@pytest.mark.parametrize(
    ("metadata", "finding"),
    [
        ({"conj": True}, "a property that firstdiff does not know"),
        ({"something": True}, "a property that firstdiff does not know"),
        ({"conj": False, "neg": False}, None),
        ({"neg": True}, None),
    ],
)
def test_properties_of_a_tensor_are_applied_or_refused(
    tmp_path: Path, metadata: dict[str, bool], finding: str | None
) -> None:
    flags = hostile.table(**{key: b"\x88" if value else b"\x89" for key, value in metadata.items()})
    code = hostile.tensor()[: -len(b"tR")] + flags + b"tR"
    found = written(hostile.torch_file(hostile.pickled(code), {"0": THREE.tobytes()}), tmp_path)[""]
    if finding:
        assert finding in failure(found)
    else:
        assert values(found).tolist() == (-THREE if metadata.get("neg") else THREE).tolist()


def test_a_device_tensor_of_an_unknown_type_is_one_failed_row(tmp_path: Path) -> None:
    code = hostile.reduced(
        "torch._utils", "_rebuild_device_tensor_from_cpu_tensor", hostile.tensor(), hostile.named("torch", "bits8")
    )
    found = written(hostile.torch_file(hostile.pickled(code), {"0": THREE.tobytes()}), tmp_path)[""]
    assert "cannot be compared" in failure(found)


def test_an_unknown_byte_order_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ReadError, match=r"byte order b'middle'"):
        written(hostile.torch_file(hostile.pickled(b"K\x01"), byteorder=b"middle"), tmp_path)


@pytest.mark.parametrize(
    ("code", "finding"),
    [
        (hostile.tensor((4,)), r"shape \[4\] of float32 needs 16 bytes from byte 0 on, but only 12 are there"),
        (hostile.tensor((3,), (2,)), "needs 20 bytes"),
        (hostile.tensor((3,), (1,), 1), "needs 12 bytes from byte 4 on, but only 8"),
        (hostile.tensor((1 << 40,)), "needs 4,398,046,511,104 bytes"),
        (hostile.tensor((2,), (1 << 62,)), "needs 18,446,744,073,709,551,620 bytes"),
        (hostile.tensor((2,), (1 << 63,)), "not whole numbers"),
        (hostile.tensor((3,), (1,), 1 << 62), "needs 12 bytes"),
        (hostile.tensor((3,), (1,), 1 << 64), "an offset"),
        (hostile.tensor((3,), (1,), -1), "an offset"),
        (hostile.tensor((-1,), (1,)), "not whole numbers"),
        (hostile.tensor((3,), (-1,)), "not whole numbers"),
        (hostile.tensor((3,), (1, 1)), "do not fit its shape"),
        (hostile.tensor((1 << 60,) * 3, (0, 0, 0)), "no array can have"),
        (hostile.tensor((0, 1 << 62, 1 << 62), (0, 0, 0)), "no array can have"),
        (hostile.tensor((1,) * 40, (1,) * 40), "no array can have"),
        (hostile.tensor((1,) * 70, (1,) * 70), "not whole numbers"),
        (hostile.tensor((1 << 45,), (0,)), "unpacks to more than"),
        (hostile.tensor(of=hostile.storage("7")), "needs data/7, which is not in the file"),
        (hostile.tensor(of=hostile.storage("../../etc/passwd")), "which is not in the file"),
        (hostile.tensor(of=hostile.storage("a\nb")), r"needs data/a\\nb, which"),
        (hostile.tensor(of=b"K\x05Q"), "refers to its data in a way that torch does not"),
        (hostile.tensor(of=b"N"), "values are not in the file"),
        (hostile.storage(count=1 << 40), "needs 4,398,046,511,104 bytes"),
    ],
)
def test_a_tensor_that_does_not_fit_its_data_is_one_failed_row(tmp_path: Path, code: bytes, finding: str) -> None:
    pickle = hostile.pickled(hostile.table(bad=code, good=hostile.tensor()))
    found = written(hostile.torch_file(pickle, {"0": THREE.tobytes()}), tmp_path)
    assert values(found["good"]).tolist() == [1, 2, 3]
    assert re.search(finding, failure(found["bad"]))


@pytest.fixture
def canary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A module that leaves a file behind when it is imported, and another when something of it is called."""
    place = tmp_path / "canary"
    place.mkdir()
    (place / f"{hostile.CANARY}.py").write_text(hostile.CANARY_CODE)
    monkeypatch.syspath_prepend(place)
    yield place
    assert hostile.CANARY not in sys.modules
    assert [path.name for path in place.iterdir()] == [f"{hostile.CANARY}.py"]


@pytest.mark.parametrize("trick", hostile.LIVE)
def test_code_beside_a_good_tensor_is_refused_by_name(tmp_path: Path, canary: Path, trick: str) -> None:
    payload = hostile.LIVE[trick].aimed_at(canary / "ran")
    pickle = hostile.pickled(hostile.table(good=hostile.tensor(), bad=payload.code))
    found = written(hostile.torch_file(pickle, {"0": THREE.tobytes()}), tmp_path)
    assert values(found["good"]).tolist() == [1, 2, 3]
    assert isinstance(found["bad"].source, RefusedError)
    assert f"asks for {payload.asks_for}, which firstdiff does not run" in failure(found["bad"])


PLACES: dict[str, Callable[[bytes], bytes]] = {
    "storage": lambda code: hostile.tensor(of=code),
    "storage class": lambda code: hostile.tensor(
        of=hostile.storage().replace(hostile.named("torch", "FloatStorage"), code)
    ),
    "storage key": lambda code: hostile.tensor(of=hostile.storage().replace(hostile.text("0"), code)),
    "persistent id": lambda code: hostile.tensor(of=code + b"Q"),
    "hooks": lambda code: hostile.tensor(hooks=code),
    "parameter": lambda code: hostile.reduced("torch._utils", "_rebuild_parameter", code, b"\x88", b"N"),
    "attributes": lambda code: hostile.tensor() + code + b"b",
    "rebuild function": lambda code: hostile.reduced(
        "torch._tensor", "_rebuild_from_type_v2", code, hostile.named("torch", "Tensor"), b")", b"}"
    ),
    "rebuild arguments": lambda code: hostile.reduced(
        "torch._tensor",
        "_rebuild_from_type_v2",
        hostile.named("torch._utils", "_rebuild_tensor_v2"),
        hostile.named("torch", "Tensor"),
        b"(" + code + b"t",
        b"}",
    ),
    "numpy": lambda code: hostile.reduced("numpy.core.multiarray", "scalar", code, b"N"),
}


@pytest.mark.parametrize("place", PLACES)
def test_code_inside_the_parts_of_a_tensor_is_refused_by_name(tmp_path: Path, canary: Path, place: str) -> None:
    code = PLACES[place](hostile.LIVE["reduce"].aimed_at(canary / "ran").code)
    pickle = hostile.pickled(hostile.table(good=hostile.tensor(), bad=code))
    found = written(hostile.torch_file(pickle, {"0": THREE.tobytes()}), tmp_path)
    assert values(found["good"]).tolist() == [1, 2, 3]
    assert f"asks for {hostile.CANARY}.run, which firstdiff does not run" in failure(found["bad"])


def test_a_foreign_name_for_a_storage_or_a_rebuild_function_is_refused(tmp_path: Path) -> None:
    codes = {
        "storage": hostile.tensor(of=hostile.storage().replace(b"torch\nFloatStorage", b"os\nsystem")),
        "rebuild": hostile.reduced(
            "torch._tensor",
            "_rebuild_from_type_v2",
            hostile.named("os", "system"),
            hostile.named("torch", "Tensor"),
            b"(" + hostile.text("true") + b"t",
            b"}",
        ),
    }
    found = written(hostile.torch_file(hostile.pickled(hostile.table(**codes)), {"0": b""}), tmp_path)
    assert [failure(item)[:18] for item in found.values()] == ["asks for os.system"] * 2


@pytest.mark.parametrize("gadget", hostile.GADGETS)
@pytest.mark.parametrize("suffix", [".pth", ".pkl"])
def test_well_known_gadgets_are_refused_by_name(tmp_path: Path, gadget: str, suffix: str) -> None:
    code = hostile.pickled(hostile.reduced(*gadget.rsplit(".", 1), hostile.text("true")))
    before = set(sys.modules)
    found = written(hostile.torch_file(code) if suffix == ".pth" else code, tmp_path, f"x{suffix}")
    assert isinstance(found[""].source, RefusedError)
    assert failure(found[""]) == f"asks for {gadget}, which firstdiff does not run; save plain tensors instead"
    assert set(sys.modules) == before


def test_a_call_thrown_away_before_a_good_state_dict_condemns_the_file(tmp_path: Path, canary: Path) -> None:
    payload = hostile.LIVE["reduce"].aimed_at(canary / "ran").code
    pickle = hostile.pickled(payload, b"0", hostile.table(good=hostile.tensor()))
    with pytest.raises(RefusedError, match=f"asks for {hostile.CANARY}.run and throws the result away"):
        written(hostile.torch_file(pickle, {"0": THREE.tobytes()}), tmp_path)


def example(folder: Path) -> bytes:
    torch.save(
        {"w": torch.arange(4.0).reshape(2, 2).T, "b": torch.ones(2, dtype=torch.bfloat16), "n": 5}, folder / "x.pt"
    )
    return (folder / "x.pt").read_bytes()


def try_to_read(data: bytes, path: Path) -> bool:
    """Open and read everything there is; only a ReadError may come of it."""
    path.write_bytes(data)
    try:
        blob = file_blob(path)
        FORMAT.sniff(blob)
        for item in FORMAT.open(blob):
            if isinstance(item.source, Source):
                item.source.read()
                item.source.window(0, item.source.size)
    except ReadError:
        return False
    return True


def test_every_truncation_is_a_read_error(tmp_path: Path) -> None:
    whole = example(tmp_path)
    assert try_to_read(whole, tmp_path / "x.pth")
    for size in range(len(whole)):
        assert not try_to_read(whole[:size], tmp_path / "x.pth"), size


@settings(max_examples=300)
@given(flips=st.lists(st.tuples(st.integers(0, 1 << 12), st.integers(1, 255)), min_size=1, max_size=4))
def test_flipped_bytes_give_values_or_a_read_error(folder: Path, flips: list[tuple[int, int]]) -> None:
    data = bytearray(example(folder))
    for at, flip in flips:
        data[at % len(data)] ^= flip
    try_to_read(bytes(data), folder / "flipped.pth")


@settings(max_examples=200)
@given(at=st.integers(0, 400), piece=st.binary(min_size=1, max_size=6))
def test_a_damaged_pickle_gives_values_or_a_read_error(folder: Path, at: int, piece: bytes) -> None:
    whole = hostile.pickled(hostile.table(a=hostile.tensor(), b=hostile.tensor((3, 2), (1, 0))))
    at %= len(whole)
    damaged = whole[:at] + piece + whole[at + len(piece) :]
    try_to_read(hostile.torch_file(damaged, {"0": THREE.tobytes()}), folder / "damaged.pth")


def test_a_storage_that_lies_about_its_place_fails_when_read(tmp_path: Path) -> None:
    data = bytearray(hostile.torch_file(hostile.pickled(hostile.tensor()), {"0": THREE.tobytes()}))
    at = data.find(b"archive/data/0") - 30
    data[at : at + 4] = b"XXXX"
    found = written(bytes(data), tmp_path)[""]
    assert found.source.shape == (3,)
    with pytest.raises(ReadError, match="not where the zip directory says"):
        found.source.read()


def test_a_storage_packed_in_an_unknown_way_is_one_failed_row(tmp_path: Path) -> None:
    out = io.BytesIO(hostile.torch_file(hostile.pickled(hostile.table(n=b"K\x01", t=hostile.tensor()))))
    with zipfile.ZipFile(out, "a") as archive:
        archive.writestr("archive/data/0", THREE.tobytes(), zipfile.ZIP_BZIP2)
    found = written(out.getvalue(), tmp_path)
    assert values(found["n"]).tolist() == 1
    assert "packed by method 12" in failure(found["t"])


def test_a_pickle_too_large_for_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firstdiff.readers.pth.MAX_SIZE", 5000)
    code = hostile.pickled(hostile.text("x" * 6000))
    for name, data in {"x.pkl": code, "x.pth": hostile.torch_file(code)}.items():
        with pytest.raises(RefusedError, match="beyond the 5,000 firstdiff takes into memory"):
            written(data, tmp_path, name)


def zipped(*names: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name in names:
            archive.writestr(name, b"")
    return out.getvalue()


@pytest.mark.parametrize(
    ("data", "finding"),
    [
        (zipped("x/data.pkl", "x/constants.pkl", "x/code/x.py"), r"TorchScript program.*torch\.jit\.load"),
        (zipped("a.npy"), r"zip without a data\.pkl"),
        (zipped("x/data.pkl"), "ends too early"),
        (b"PK\x03\x04" + bytes(40), "no zip directory"),
        (b"", "does not start as a file of torch.save does"),
        (b"\x93NUMPY", "does not start as a file of torch.save does"),
        (b"\x80\x02", "ends too early"),
    ],
    ids=["torchscript", "other zip", "empty pickle", "cut off", "empty", "npy", "cut pickle"],
)
def test_files_that_are_something_else_say_what_was_found(tmp_path: Path, data: bytes, finding: str) -> None:
    (tmp_path / "x.pth").write_bytes(data)
    with pytest.raises(ReadError, match=finding):
        FORMAT.open(file_blob(tmp_path / "x.pth"))


def test_only_torch_files_are_taken_for_torch_files(tmp_path: Path) -> None:
    torch.save(1, tmp_path / "noname")
    assert FORMAT.sniff(file_blob(tmp_path / "noname"))
    for name, data in {"a.zip": zipped("a.npy", "b/data.pkl"), "a.npz": zipped("a.npy"), "b.bin": b"\0" * 9}.items():
        (tmp_path / name).write_bytes(data)
        assert not FORMAT.sniff(file_blob(tmp_path / name))


def test_the_oldest_format_of_all_says_what_to_do(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "x.pth", "w", format=tarfile.PAX_FORMAT) as archive:
        for name in ("sys_info", "pickle", "storages", "tensors"):
            archive.addfile(tarfile.TarInfo(name))
    with pytest.raises(ReadError, match="torch's oldest format, a tar"):
        found_in(tmp_path / "x.pth")
