from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional

from firstdiff.ops.embedding import embedding
from tests.ops.oracle import DTYPES, assert_agrees, double, values


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (5,), (2, 3)], ids=str)
def test_rows_are_torchs(dtype: np.dtype, shape: tuple[int, ...]) -> None:
    rows = np.random.default_rng(1).integers(0, 7, shape)
    weight = values(2, 7, 4, dtype=dtype)
    assert_agrees(embedding(rows, weight), functional.embedding(torch.tensor(rows), double(weight)))


def test_scale_and_offset() -> None:
    weight = values(2, 7, 4)
    np.testing.assert_allclose(embedding(np.array([0, 3]), weight, scale=2.0, offset=2), weight[[2, 5]] * 2)


def test_long_rows_are_shortened_to_max_norm() -> None:
    rows, weight = np.arange(7), values(2, 7, 4)
    wanted = functional.embedding(torch.tensor(rows), double(weight), max_norm=1.5)
    assert_agrees(embedding(rows, weight, max_norm=1.5), wanted, 1e-7)


@pytest.mark.parametrize("row", [-1, 7])
def test_a_row_that_is_not_there_is_an_error_and_not_another_row(row: int) -> None:
    with pytest.raises(ValueError, match=f"row {row} is not among the 7"):
        embedding(np.array([1, row]), values(2, 7, 4))
