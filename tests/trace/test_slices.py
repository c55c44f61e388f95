from __future__ import annotations

import numpy as np
import pytest

from firstdiff.errors import UsageError
from firstdiff.trace.slices import parse_slice

ARRAY = np.arange(2 * 4 * 10).reshape(2, 4, 10)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("0,:,3:8", ARRAY[0, :, 3:8]),
        ("-1", ARRAY[-1]),
        ("...,2", ARRAY[..., 2]),
        ("1,...", ARRAY[1, ...]),
        ("[0, 1:3, ::2]", ARRAY[0, 1:3, ::2]),
        (" 1 , 2 , -1 ", ARRAY[1, 2, -1]),
        (":,:,::-1", ARRAY[:, :, ::-1]),
        ("", ARRAY),
    ],
)
def test_a_slice_means_what_numpy_means(text: str, same: np.ndarray) -> None:
    np.testing.assert_array_equal(ARRAY[parse_slice(text, ARRAY.shape)], same)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("0,0,0,0", "has 4 parts, but the shape [2, 4, 10] has 3"),
        ("2", "index 2 of dimension 0, which has 2"),
        ("...,10", "index 10 of dimension 2, which has 10"),
        ("0,,1", "has a part ''"),
        ("a:b", "has a part 'a:b'"),
        ("...,...", "more than one '...'"),
        ("::0", "step of 0"),
        ("__import__('os')", "has a part"),
    ],
)
def test_what_does_not_fit_is_said(text: str, says: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_slice(text, ARRAY.shape)
    assert says in str(raised.value)
