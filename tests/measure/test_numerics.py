from __future__ import annotations

import numpy as np
import pytest

from firstdiff import dtypes
from firstdiff.measure.numerics import fits_float32, scalar, to_float32, to_float64

SHORT = [name for name, dtype in dtypes.BY_NAME.items() if dtype.itemsize <= 2]


@pytest.mark.parametrize("name", SHORT)
@pytest.mark.parametrize("finite", [True, False])
def test_every_bit_pattern_of_a_short_type_comes_out_right(name: str, finite: bool) -> None:
    dtype = dtypes.from_name(name)
    every = np.arange(1 << (8 * dtype.itemsize), dtype=f"u{dtype.itemsize}")
    values = (every & 1 if name == "bool" else every).view(dtype)
    assert fits_float32(dtype)
    with np.errstate(invalid="ignore"):
        expected = values.astype(np.float64)
        if finite:
            values, expected = values[np.isfinite(expected)], expected[np.isfinite(expected)]
        np.testing.assert_array_equal(to_float32(values).astype(np.float64), expected)
        np.testing.assert_array_equal(to_float64(values), expected)


@pytest.mark.parametrize("name", ["int32", "int64", "float64", "complex64"])
def test_wider_types_do_not_fit_float32(name: str) -> None:
    assert not fits_float32(dtypes.from_name(name))


@pytest.mark.parametrize(
    ("name", "kind"), [("bfloat16", float), ("bool", bool), ("uint64", int), ("complex64", complex)]
)
def test_a_scalar_is_a_number_of_python(name: str, kind: type) -> None:
    assert type(scalar(np.ones(1, dtypes.from_name(name)))) is kind
