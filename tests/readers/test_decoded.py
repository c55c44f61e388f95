from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from firstdiff.errors import ReadError
from firstdiff.readers import sources
from firstdiff.readers.blob import file_blob
from firstdiff.readers.sources import DecodedSource

INT32 = np.dtype(np.int32)


def doubled(packed: np.ndarray) -> np.ndarray:
    """Each byte is one number."""
    return packed.astype(np.int32) * 2


@given(data=st.data(), values=st.integers(1, 4), piece=st.integers(1, 9))
def test_any_part_is_that_part_of_the_whole(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, values: int, piece: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "decoded"
    *rows, units = data.draw(hnp.array_shapes(min_dims=1, max_dims=4, max_side=5))
    shape = (*rows, units * values)
    packed = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    path.write_bytes(b"front" + packed.tobytes())
    source = DecodedSource(file_blob(path), shape, INT32, doubled, offset=5, unit=values, values=values)
    expected = doubled(packed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources, "_PIECE", piece)
        index = data.draw(hnp.basic_indices(shape, allow_ellipsis=True, allow_newaxis=True))
        assert np.array_equal(source.read(index), expected[index])
        start, stop = sorted(data.draw(st.tuples(*[st.integers(0, expected.size)] * 2)))
        assert np.array_equal(source.window(start, stop), expected.reshape(-1)[start:stop])
        assert np.array_equal(source.view(), expected)


def test_values_that_are_not_there_are_told(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(bytes(10))
    with pytest.raises(ReadError, match=r"shape \[2, 8\] needs 8 bytes from byte 3 on, but only 7 are there"):
        DecodedSource(file_blob(tmp_path / "x"), (2, 8), INT32, doubled, offset=3, unit=2, values=4)
