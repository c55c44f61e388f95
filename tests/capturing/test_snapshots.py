from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import torch
from torch import nn

from firstdiff.capturing.snapshots import CopyRule, UnreadableTensorError, sequence_axis
from tests.capturing.models import Function, captured

HALVES = ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"]


@pytest.mark.parametrize(
    "name", [*HALVES, "float16", "float32", "float64", "int8", "uint8", "int64", "bool", "complex64"]
)
def test_every_type_stays_what_it_is(name: str, tmp_path: Path) -> None:
    x = torch.tensor([[0, 1, -2, 3]]).to(getattr(torch, name))
    trace = captured(Function(lambda _, x: x), tmp_path / "t", x, params="none")
    stored = trace["root:in.0"].values()
    assert stored.dtype.name == name
    np.testing.assert_array_equal(stored.read().astype(np.complex128), x.to(torch.complex128).numpy())


@pytest.mark.parametrize(
    "view",
    [lambda x: x.t(), lambda x: x[::2, 1:], lambda x: x[0, 0], lambda x: x.expand(3, 4, 6), lambda x: x[:0]],
    ids=["transposed", "strided", "scalar", "expanded", "empty"],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_strides_do_not_matter(view: object, dtype: torch.dtype) -> None:
    x = view(torch.arange(24.0).reshape(4, 6).to(dtype))  # type: ignore[operator]
    array = CopyRule().copy(x).array
    assert array.flags.c_contiguous
    np.testing.assert_array_equal(array.astype(np.float32), x.float().numpy())


def test_a_copy_does_not_follow_the_tensor() -> None:
    x = torch.ones(3)
    copies = [
        CopyRule().copy(x).array,
        CopyRule(tokens=slice(0, 2)).copy(x, 3).array,
        CopyRule(dtype="float64").copy(x).array,
    ]
    x.zero_()
    assert all((array == 1).all() for array in copies)


def test_not_a_number_and_infinity_are_kept_bit_by_bit() -> None:
    bits = torch.tensor([0x7FC0, 0x7F80, -0x80, 0x7F81], dtype=torch.int16)
    array = CopyRule().copy(bits.view(torch.bfloat16)).array
    assert array.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(array.view(np.int16), bits.numpy())


def test_conjugates_and_negatives_are_resolved() -> None:
    x = torch.tensor([1 + 2j])
    np.testing.assert_array_equal(CopyRule().copy(x.conj()).array, [1 - 2j])
    np.testing.assert_array_equal(CopyRule().copy(x.conj().imag).array, [-2])


@pytest.mark.filterwarnings("ignore:ComplexHalf support:UserWarning")
def test_half_complex_becomes_single() -> None:
    copy = CopyRule().copy(torch.ones(2, dtype=torch.complex32))
    assert copy.array.dtype == np.complex64
    assert copy.attrs == {"dtype_was": "complex32"}


@pytest.mark.parametrize(
    ("tensor", "reason"),
    [
        (lambda: torch.ones(2, device="meta"), "meta device"),
        (lambda: torch.eye(2).to_sparse(), "layout sparse_coo"),
        (lambda: torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8), "type qint8"),
    ],
)
@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor:UserWarning")
def test_what_has_no_plain_values_says_so(tensor: object, reason: str) -> None:
    with pytest.raises(UnreadableTensorError, match=reason):
        CopyRule().copy(tensor())  # type: ignore[operator]


def test_tensors_inside_a_transform_are_left_out(tmp_path: Path) -> None:
    model = nn.Linear(3, 3)
    with pytest.warns(UserWarning, match=r"torch\.func"):
        trace = captured(model, tmp_path / "t", call=lambda: torch.func.vmap(model)(torch.ones(2, 3)))
    assert not [tensor for tensor in trace if tensor.record.role in ("input", "output")]


@pytest.mark.parametrize(
    ("shape", "length", "axis"),
    [
        ((2, 7, 5), 7, 1),
        ((2, 4, 7, 7), 7, 2),
        ((7, 7, 5), 7, 1),
        ((7,), 7, 0),
        ((7, 3), 7, None),
        ((2, 5), 7, None),
        ((2, 1), 1, None),
        ((2, 7), None, None),
    ],
)
def test_the_sequence_axis_is_the_first_as_long_as_the_sequence(
    shape: tuple[int, ...], length: int | None, axis: int | None
) -> None:
    assert sequence_axis(shape, length) == axis
