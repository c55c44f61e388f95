from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from firstdiff.ops.reductions import cumulate, logsumexp, reduce, variance
from tests.ops.oracle import assert_agrees, double, dtypes, seeds, values

DIMS = [None, 0, -1, [0, 2], [1], []]


@settings(max_examples=60)
@given(seed=seeds, dim=st.sampled_from(DIMS), keepdim=st.booleans(), dtype=dtypes)
def test_reductions_are_torchs(seed: int, dim: Any, keepdim: bool, dtype: np.dtype) -> None:
    x = values(seed, 2, 3, 4, dtype=dtype)
    how = {"dim": dim, "keepdim": keepdim}
    for kind in ("mean", "sum"):
        assert_agrees(reduce(x, kind=kind, **how), getattr(torch, kind)(double(x), **how), 1e-11)
    if dim is not None:
        assert_agrees(reduce(x, kind="amax", **how), torch.amax(double(x), **how))
        assert_agrees(reduce(x, kind="amin", **how), torch.amin(double(x), **how))
    for correction in (0, 1):
        wanted = torch.var(double(x), correction=correction, **how)
        assert_agrees(variance(x, correction=correction, **how), wanted, 1e-11)
        assert_agrees(variance(x, correction=correction, root=True, **how), wanted.sqrt(), 1e-11)


def test_products_and_running_sums_are_torchs() -> None:
    x = values(1, 3, 4)
    assert_agrees(reduce(x, kind="prod", dim=1), torch.prod(double(x), 1))
    assert_agrees(cumulate(x, dim=1), torch.cumsum(double(x), 1))
    assert_agrees(cumulate(x, dim=0, product=True), torch.cumprod(double(x), 0))


@pytest.mark.parametrize("dim", [0, -1, [0, 1]])
@pytest.mark.parametrize("keepdim", [False, True])
def test_logsumexp_is_torchs(dim: Any, keepdim: bool) -> None:
    x = values(1, 3, 4, scale=1000.0)
    x[1] = -np.inf
    x[2, 2] = np.inf
    assert_agrees(logsumexp(x, dim=dim, keepdim=keepdim), torch.logsumexp(double(x), dim, keepdim))


def test_the_variance_of_one_number_is_nan_and_no_warning() -> None:
    assert np.isnan(variance(np.ones((2, 1)), dim=1)).all()
    assert np.isnan(reduce(np.zeros((0, 2)), kind="mean", dim=0)).all()


def test_unknown_reductions_are_refused() -> None:
    with pytest.raises(ValueError, match="no reduction is called 'median'"):
        reduce(np.zeros(1), kind="median")
