from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from firstdiff import dtypes
from firstdiff.errors import ReadError
from firstdiff.readers import open_trace
from firstdiff.trace import Source

PLAIN = [dtype for name, dtype in dtypes.BY_NAME.items() if not dtypes.is_extended(dtype)]


def make_sample(path: Path) -> None:
    np.save(path, np.arange(24, dtype=np.float32).reshape(2, 3, 4))


def opened(path: Path) -> Source:
    (tensor,) = open_trace(path)
    return tensor.values()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("npy")


@given(data=st.data(), fortran=st.booleans(), big_endian=st.booleans())
def test_whatever_numpy_saves_comes_back(folder: Path, data: st.DataObject, fortran: bool, big_endian: bool) -> None:
    dtype = data.draw(st.sampled_from(PLAIN)).newbyteorder(">" if big_endian else "<")
    array = data.draw(hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=5, min_side=0, max_side=4)))
    array = np.asfortranarray(array) if fortran and array.ndim else array
    np.save(folder / "x.npy", array)
    source = opened(folder / "x.npy")
    native = array.astype(array.dtype.newbyteorder("="))
    assert (source.shape, source.dtype) == (array.shape, native.dtype)
    assert source.read().tobytes() == native.tobytes()
    start, stop = sorted(data.draw(st.tuples(*[st.integers(0, array.size)] * 2)))
    window = source.window(start, stop)
    assert window.dtype == native.dtype
    assert window.tobytes() == native.reshape(-1)[start:stop].tobytes()
    if array.ndim and array.size:
        index = data.draw(hnp.basic_indices(array.shape, allow_ellipsis=True))
        assert source.read(index).tobytes() == np.array(native[index]).tobytes()


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_every_version_of_the_header(tmp_path: Path, version: tuple[int, int]) -> None:
    with (tmp_path / "x.npy").open("wb") as file:
        np.lib.format.write_array(file, np.arange(5), version=version)
    assert opened(tmp_path / "x.npy").read().tolist() == [0, 1, 2, 3, 4]


def header(text: str, data: bytes = b"") -> bytes:
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode() + data


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"not a npy file at all", "does not start as a .npy file does"),
        (b"\x93NUMPY\x01\x00\xff\x00{'descr'", "ends inside its header"),
        (b"\x93NUMPY\x02\x00\xff\xff\xff\x7f{", "claims a header of 2,147,483,647 bytes"),
        (header("{'descr': '<f4'}"), "has a header that is not numpy's"),
        (header("__import__('os').system('true')"), "has a header that is not numpy's"),
        (header("(" * 5000), "has a header that is not numpy's"),
        (header("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", b"x" * 99), "holds Python objects"),
        (header("{'descr': '<U3', 'fortran_order': False, 'shape': (1,)}", b"x" * 99), "which cannot be compared"),
        (header("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}"), "has the shape (-1,)"),
        (header("{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}", b"x" * 11), "needs 12 bytes from byte"),
        (
            header("{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776,)}"),
            "needs 4,398,046,511,104 bytes",
        ),
        (header("{'descr': '<f4', 'fortran_order': True, 'shape': (4294967296, 4294967296)}"), "bytes from byte"),
    ],
)
def test_a_bad_file_is_one_sentence_with_its_name(tmp_path: Path, content: bytes, says: str) -> None:
    (tmp_path / "x.npy").write_bytes(content)
    with pytest.raises(ReadError) as raised:
        open_trace(tmp_path / "x.npy")
    assert says in str(raised.value)
    assert str(raised.value).startswith(str(tmp_path / "x.npy"))


def test_a_pickle_in_a_npy_is_never_loaded(tmp_path: Path) -> None:
    marker = tmp_path / "marker"

    class Attack:
        def __reduce__(self) -> tuple[object, ...]:
            return (Path.touch, (marker,))

    np.save(tmp_path / "x.npy", np.array([Attack()], dtype=object), allow_pickle=True)
    with pytest.raises(ReadError, match="holds Python objects"):
        open_trace(tmp_path / "x.npy")
    assert not marker.exists()


def test_a_file_that_shrinks_after_opening_is_an_error_and_not_a_crash(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros(100_000))
    source = opened(tmp_path / "x.npy")
    (tmp_path / "x.npy").write_bytes((tmp_path / "x.npy").read_bytes()[:1000])
    with pytest.raises(ReadError, match="was it cut off"):
        source.read()
    (tmp_path / "x.npy").unlink()
    with pytest.raises(ReadError, match="is gone"):
        source.window(0, 1)
