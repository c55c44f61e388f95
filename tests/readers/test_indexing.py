from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from firstdiff.readers.sources import as_asked, forward, plain_axes


@given(shape=hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=7), data=st.data())
def test_a_cut_forward_and_turned_is_what_numpy_gives(shape: tuple[int, ...], data: st.DataObject) -> None:
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    index = data.draw(hnp.basic_indices(shape, allow_ellipsis=True))
    axes = plain_axes(index, shape)
    assert axes is not None
    slices = tuple(forward(axis) for axis in axes)
    assert all((part.step or 1) > 0 and part.start >= 0 for part in slices)
    assert np.array_equal(array[slices][tuple(as_asked(axis) for axis in axes)], array[index])


@pytest.mark.parametrize("index", [None, [0, 1], np.array([0]), True, np.True_, (0, None), np.array(1), "x", 1.0])
def test_what_is_more_than_a_cut_is_left_to_numpy(index: object) -> None:
    assert plain_axes(index, (3, 4)) is None


@pytest.mark.parametrize("index", [3, -4, (0, 4), (0, 0, 0), (..., ...), (..., 0, 0, 0)])
def test_what_numpy_would_not_take_is_an_index_error(index: object) -> None:
    with pytest.raises(IndexError):
        np.zeros((3, 4))[index]  # type: ignore[index]
    with pytest.raises(IndexError):
        plain_axes(index, (3, 4))
