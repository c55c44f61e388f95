from __future__ import annotations

import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from firstdiff.errors import ReadError, RefusedError
from firstdiff.readers.archive import open_archive
from firstdiff.readers.blob import file_blob
from firstdiff.readers.pth import FORMAT
from firstdiff.trace import Source
from tests.readers import hostile_pickles as hostile
from tests.readers.torch_files import assert_same, failure, flat, found_in, values


def saved(value: Any, path: Path) -> None:
    torch.save(value, path, _use_new_zipfile_serialization=False)


DTYPES = "float64 float32 float16 bfloat16 int64 int32 int16 int8 uint8 bool complex64 complex128".split()


@pytest.mark.parametrize("name", DTYPES)
def test_every_dtype_of_the_legacy_format(tmp_path: Path, name: str) -> None:
    value = {
        "t": torch.tensor([[0, 1, 1], [1, 0, 1]]).to(getattr(torch, name)).T,
        "s": torch.ones((), dtype=getattr(torch, name)),
    }
    saved(value, tmp_path / "x.pth")
    found = found_in(tmp_path / "x.pth")
    for key, expected in flat(value):
        assert_same(found[key].source, expected)


def test_structures_of_the_legacy_format(tmp_path: Path) -> None:
    base = torch.arange(6.0)
    value = {
        "model": torch.nn.Linear(2, 2).state_dict(),
        "views": [base[1:3], base[2:]],
        "parameter": torch.nn.Parameter(torch.ones(2)),
        "conj": torch.tensor([1 + 2j]).conj(),
        "size": torch.Size([2, 3]),
        "ids": [1, 2, 3],
        "set": {3, 1},
        "epoch": 7,
        "name": "text",
    }
    saved(value, tmp_path / "x.pth")
    found = found_in(tmp_path / "x.pth")
    assert list(found) == [
        *("model.weight", "model.bias", "views.0", "views.1", "parameter", "conj", "size", "ids", "set", "epoch")
    ]
    for key in ("model.weight", "model.bias", "views.0", "views.1", "parameter", "conj"):
        assert_same(found[key].source, dict(flat(value))[key])
    assert values(found["size"]).tolist() == [2, 3]
    assert values(found["set"]).tolist() == [1, 3]
    assert values(found["epoch"]).tolist() == 7


@pytest.mark.filterwarnings("ignore:.*(Sparse|sparse|quantize).*")
def test_what_has_no_plain_values_is_one_failed_row(tmp_path: Path) -> None:
    value = {
        "good": torch.ones(1),
        "sparse": torch.eye(2).to_sparse(),
        "meta": torch.ones(2, device="meta"),
        "quantised": torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8),
        "storage": torch.ones(2)._typed_storage(),
    }
    saved(value, tmp_path / "x.pth")
    found = found_in(tmp_path / "x.pth")
    assert values(found.pop("good")).tolist() == [1]
    assert [failure(item).partition(";")[2] for item in found.values()] == [
        " save tensor.to_dense() instead",
        " save it from the device that has them",
        " save tensor.dequantize() instead",
        " save a tensor instead",
    ]


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_legacy_file_inside_an_archive(tmp_path: Path, method: int) -> None:
    saved(torch.arange(5.0), tmp_path / "x.pth")
    with zipfile.ZipFile(tmp_path / "all.zip", "w", method) as archive:
        archive.write(tmp_path / "x.pth", "x.pth")
        archive.writestr("next.txt", "more")
    (blob, _) = open_archive(file_blob(tmp_path / "all.zip"), "zip").blobs
    (found,) = FORMAT.open(blob)
    assert values(found).tolist() == [0, 1, 2, 3, 4]


def test_without_torch_the_error_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved(torch.ones(2), tmp_path / "x.pth")
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ReadError, match=r"needs torch to be read; pip install 'firstdiff\[torch\]' or save it again"):
        found_in(tmp_path / "x.pth")


class Exploit:
    def __reduce__(self) -> tuple[Any, ...]:
        return eval, ("open('ran', 'w')",)


def test_code_in_a_legacy_file_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    saved({"good": torch.ones(2), "bad": Exploit()}, tmp_path / "x.pth")
    with pytest.raises(RefusedError, match="asks for eval, which firstdiff does not run"):
        found_in(tmp_path / "x.pth")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("trick", hostile.LIVE)
def test_no_trick_runs_in_a_legacy_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trick: str) -> None:
    (tmp_path / f"{hostile.CANARY}.py").write_text(hostile.CANARY_CODE)
    monkeypatch.syspath_prepend(tmp_path)
    saved(1, tmp_path / "x.pth")
    payload = hostile.LIVE[trick].aimed_at(tmp_path / "ran")
    whole = (tmp_path / "x.pth").read_bytes()
    assert whole.count(b"\x80\x02K\x01.") == 1
    (tmp_path / "x.pth").write_bytes(whole.replace(b"\x80\x02K\x01.", hostile.pickled(payload.code)))
    with pytest.raises(ReadError):
        found_in(tmp_path / "x.pth")
    assert not {"ran", "imported"} & {path.name for path in tmp_path.iterdir()}


def test_a_call_of_something_that_is_no_function_is_refused(tmp_path: Path) -> None:
    saved(1, tmp_path / "x.pth")
    whole = (tmp_path / "x.pth").read_bytes()
    for call in (hostile.text("x") + b")R", hostile.text("x") + b")\x81"):
        (tmp_path / "y.pth").write_bytes(whole.replace(b"\x80\x02K\x01.", hostile.pickled(call)))
        with pytest.raises(RefusedError, match="asks for a call that torch refuses"):
            found_in(tmp_path / "y.pth")


def test_damage_to_a_legacy_file_is_a_read_error(tmp_path: Path) -> None:
    saved({"a": torch.arange(4.0), "b": 1}, tmp_path / "x.pth")
    whole = (tmp_path / "x.pth").read_bytes()
    for size in (*range(14, len(whole) - 1, 7), len(whole) - 1):
        (tmp_path / "cut.pth").write_bytes(whole[:size])
        with pytest.raises(ReadError):
            list(FORMAT.open(file_blob(tmp_path / "cut.pth")))


def test_legacy_arrays_are_native(tmp_path: Path) -> None:
    saved(torch.ones(2, 3), tmp_path / "x.pth")
    source = found_in(tmp_path / "x.pth")[""].source
    assert isinstance(source, Source)
    assert source.window(1, 3).tolist() == np.ones(2).tolist()
