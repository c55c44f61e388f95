"""What makes a NaN or an Inf of finite numbers: the range of a type, a logarithm, a division, a masked row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import log
from typing import Any

import ml_dtypes
import numpy as np

from firstdiff import dtypes


@dataclass(frozen=True, slots=True)
class At:
    """An operation at the element where it went wrong, on the candidate's side.

    inputs: by slot
    output: its values; None where they are in another layout
    dtype: the candidate's type
    expected: what the reference has there
    """

    op: str
    attrs: Mapping[str, Any]
    inputs: Mapping[str, np.ndarray]
    index: tuple[int, ...]
    output: np.ndarray | None
    dtype: np.dtype | None
    expected: complex | None

    def operand(self, *slots: str) -> float | None:
        """The element of an input, or the plain number, that this element of an operation was computed from."""
        values = next((self.inputs[slot] for slot in slots if slot in self.inputs), None)
        told = next((self.attrs[slot] for slot in slots if isinstance(self.attrs.get(slot), int | float)), None)
        if values is None or self.output is None:
            return None if told is None else float(told)
        try:
            same = np.broadcast_to(values, self.output.shape)
        except ValueError:
            return None
        if same.dtype.kind == "c":
            return None
        return float(dtypes.doubles(np.asarray(same[self.index]).reshape(1))[0])

    @property
    def highest(self) -> float | None:
        """The largest number of the type; None for whole numbers."""
        if self.dtype is None or dtypes.kind_of(self.dtype) != "float":
            return None
        return float(ml_dtypes.finfo(self.dtype).max)


@np.errstate(all="ignore")
def cause(at: At) -> str | None:
    """What led there, in words; None if nothing that is known did."""
    for test in (_logarithm, _division, _root, _exponential, _masked_row, _infinities, _range):
        found = test(at)
        if found is not None:
            return found
    return None


def _logarithm(at: At) -> str | None:
    if at.op not in ("log", "log2", "log10", "log1p", "Log"):
        return None
    value = at.operand("input", "0", "x")
    edge = -1.0 if at.op == "log1p" else 0.0
    if value is None or value > edge:
        return None
    return f"the logarithm of {'zero' if value == edge == 0 else f'{value:.6g}'}"


def _division(at: At) -> str | None:
    if at.op in ("reciprocal", "rsqrt"):
        value = at.operand("input", "0", "x")
        return "a division by zero" if value == 0 else None
    if at.op not in ("div", "Div", "truediv", "floor_divide", "remainder"):
        return None
    above, below = at.operand("input", "0"), at.operand("other", "1")
    if below != 0:
        return None
    return "zero divided by zero" if above == 0 else "a division by zero"


def _root(at: At) -> str | None:
    value = at.operand("input", "0", "x") if at.op in ("sqrt", "rsqrt", "Sqrt") else None
    return f"the square root of {value:.6g}, a negative number" if value is not None and value < 0 else None


def _exponential(at: At) -> str | None:
    value = at.operand("input", "0", "x") if at.op in ("exp", "Exp", "expm1") else None
    if value is None or at.highest is None or value <= log(at.highest):
        return None
    return f"exp({value:.6g}) is beyond the range of {_name(at)}"


def _masked_row(at: At) -> str | None:
    """Softmax of nothing but -Inf is 0 / 0."""
    name = at.op.lower().replace("_", "")
    if name in ("softmax", "logsoftmax"):
        scores = next(iter(at.inputs.values()), None)
        dim = at.attrs.get("dim", at.attrs.get("axis", -1))
        if scores is None or scores.shape != getattr(at.output, "shape", None) or not isinstance(dim, int):
            return None
        row = dtypes.doubles(np.moveaxis(np.asarray(scores), dim, -1)[_without(at.index, dim)])
        return "every score of this row is masked (-Inf): softmax of a fully masked row" if _all_masked(row) else None
    mask = at.inputs.get("attn_mask") if name == "scaleddotproductattention" else None
    if mask is None or at.output is None:
        return None
    seen = np.broadcast_to(mask, (*at.output.shape[:-1], mask.shape[-1]))[at.index[:-1]]
    hidden = not seen.any() if seen.dtype == np.bool_ else _all_masked(dtypes.doubles(seen))
    return "the mask hides every key from this query: a fully masked row" if hidden else None


def _infinities(at: At) -> str | None:
    """Inf - Inf and 0 * Inf: an input that is rightly infinite, such as a mask, used where it must not be."""
    for slot, values in at.inputs.items():
        if (
            values.dtype.kind != "c"
            and dtypes.kind_of(values.dtype) == "float"
            and np.isinf(dtypes.doubles(values)).any()
        ):
            return f"input {slot} has infinities, which the operation turns into this"
    return None


def _range(at: At) -> str | None:
    highest = at.highest
    if highest is None:
        return None
    if at.expected is not None and np.isfinite(at.expected) and abs(at.expected) > highest:
        return f"the reference has {at.expected.real:.6g} there, beyond the {highest:.6g} that {_name(at)} holds"
    largest = max((_largest(values) for values in at.inputs.values()), default=0.0)
    if largest > highest / 16:
        return f"its inputs reach {largest:.6g}, near the {highest:.6g} that {_name(at)} holds: it overflows"
    if largest * largest > highest:
        return (
            f"its inputs reach {largest:.6g}: products of such numbers are beyond the {highest:.6g} that "
            f"{_name(at)} holds"
        )
    return None


def _largest(values: np.ndarray) -> float:
    if values.dtype.kind == "c" or values.size == 0 or dtypes.kind_of(values.dtype) != "float":
        return 0.0
    numbers = np.abs(dtypes.doubles(values))
    return float(np.max(numbers[np.isfinite(numbers)], initial=0.0))


def _all_masked(row: np.ndarray) -> bool:
    return bool(row.size) and bool(np.all(np.isneginf(row)))


def _without(index: tuple[int, ...], dim: int) -> tuple[int, ...]:
    dim %= len(index)
    return index[:dim] + index[dim + 1 :]


def _name(at: At) -> str:
    return at.dtype.name if at.dtype is not None else "its type"
