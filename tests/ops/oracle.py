"""Torch in float64 as the judge of the operators."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import torch
from hypothesis import strategies as st

DTYPES = (np.dtype(np.float64), np.dtype(np.float32), np.dtype(ml_dtypes.bfloat16), np.dtype(np.float16))

seeds = st.integers(0, 2**32 - 1)
dtypes = st.sampled_from(DTYPES)


def values(seed: int, *shape: int, dtype: np.dtype = DTYPES[0], scale: float = 1.0) -> np.ndarray:
    """Random numbers of a type."""
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(dtype)


def double(array: np.ndarray | None) -> Any:
    """The same numbers as torch's float64."""
    return None if array is None else torch.from_numpy(np.array(array, dtype=np.float64, order="C"))


def assert_agrees(actual: np.ndarray, expected: torch.Tensor, tolerance: float = 1e-12) -> None:
    """Equal shapes, NaN and Inf at the same places, and all else within the tolerance of the tensor's scale."""
    wanted = expected.detach().numpy()
    assert actual.dtype in (np.float64, np.complex128)
    assert actual.shape == wanted.shape
    finite = np.isfinite(wanted)
    np.testing.assert_array_equal(actual[~finite], wanted[~finite])
    if finite.any():
        scale = np.abs(wanted[finite]) + np.std(wanted[finite]) + np.finfo(np.float64).smallest_normal
        assert np.max(np.abs(actual[finite] - wanted[finite]) / scale) <= tolerance
