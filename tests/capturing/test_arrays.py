from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

from firstdiff.capturing import record
from firstdiff.capturing.recording import as_array
from firstdiff.errors import UsageError
from firstdiff.readers import open_trace


class WithArray:
    """As jax, TensorFlow and cupy arrays are to numpy."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.array([1, 2], ml_dtypes.bfloat16)


class WithDlpack:
    def __init__(self) -> None:
        self._tensor = torch.arange(3.0)

    def __dlpack__(self, **options: Any) -> Any:
        return self._tensor.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._tensor.__dlpack_device__()


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (np.arange(3, dtype=">f4"), "float32", [0, 1, 2]),
        (np.float16(0.5), "float16", 0.5),
        (torch.ones(2, dtype=torch.bfloat16), "bfloat16", [1, 1]),
        (torch.ones(2, requires_grad=True), "float32", [1, 1]),
        (torch.arange(4).reshape(2, 2).t(), "int64", [[0, 2], [1, 3]]),
        ([[1, 2], [3, 4]], "int64", [[1, 2], [3, 4]]),
        ((1.5, 2.5), "float64", [1.5, 2.5]),
        ([], "float64", []),
        (3, "int64", 3),
        (True, "bool", True),
        (1j, "complex128", 1j),
        (WithArray(), "bfloat16", [1, 2]),
        (WithDlpack(), "float32", [0, 1, 2]),
    ],
)
def test_whatever_turns_into_an_array_is_recorded(value: Any, dtype: str, expected: Any, tmp_path: Path) -> None:
    with record(tmp_path / "t") as rec:
        rec.tap("x", value)
    source = open_trace(tmp_path / "t")["x"].values()
    assert source.dtype.name == dtype
    np.testing.assert_array_equal(source.read().astype(np.complex128), np.asarray(expected, np.complex128))


@pytest.mark.parametrize(
    "value",
    ["text", None, object(), {}, [[1], [2, 3]], [1, "a"], 2**70, np.array(["a"]), np.array([None]), Fraction(1, 3)],
    ids=lambda value: type(value).__name__,
)
def test_what_does_not_is_refused_by_name(value: Any, tmp_path: Path) -> None:
    with record(tmp_path / "t") as rec, pytest.raises(UsageError, match="mel cannot be recorded"):
        rec.tap("mel", value)
    assert len(open_trace(tmp_path / "t")) == 0


def test_a_copy_is_made_even_of_what_shares_memory() -> None:
    source = WithDlpack()
    copied = as_array("x", source)
    source._tensor.zero_()
    np.testing.assert_array_equal(copied, [0, 1, 2])


def test_a_tensor_without_values_says_why() -> None:
    with pytest.raises(UsageError, match="meta device"):
        as_array("x", torch.ones(1, device="meta"))
