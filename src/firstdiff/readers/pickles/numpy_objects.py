"""Builders for numpy's arrays, scalars and dtypes inside a pickle."""

from __future__ import annotations

from math import prod
from typing import Any, final

import numpy as np

from firstdiff import dtypes
from firstdiff.errors import ReadError
from firstdiff.readers.pickles.values import Budget, Buildable, Builder, Leaf, Symbol, shown, whole_numbers
from firstdiff.readers.sources import check_possible
from firstdiff.trace import ArraySource

_CODES = {f"{dtype.kind}{dtype.itemsize}": dtype for dtype in map(np.dtype, "efdFD?bhiqBHIQ")}


@final
class PickledDtype(Buildable):
    """A dtype: made from a code such as `f4`, then told its byte order."""

    __slots__ = ("_plain", "dtype", "name")

    def __init__(self, name: str, dtype: np.dtype | None) -> None:
        self.name = name
        self._plain = dtype
        self.dtype = dtype

    def set_state(self, state: Any, _: Budget) -> None:
        match state:
            case (int(), "<" | ">" | "|" | "=" as order, None, None, None, *_) if self._plain is not None:
                self.dtype = self._plain.newbyteorder(order)
            case _:
                self.dtype = None

    def usable(self) -> np.dtype:
        """The dtype, if it is one of plain numbers."""
        if self.dtype is None:
            raise ReadError(f"has elements of numpy's type {shown(self.name)}, which cannot be compared")
        return self.dtype


@final
class PickledArray(Leaf, Buildable):
    """An array: made empty, then filled."""

    __slots__ = ()

    def set_state(self, state: Any, budget: Budget) -> None:
        match state:
            case (int(), shape, PickledDtype() as dtype, int(fortran), data):
                self.source = _source(data, dtype, shape, "F" if fortran else "C", budget)
            case _:
                self.source = ReadError("is a numpy array in a state that is not numpy's")


def _source(data: Any, dtype: PickledDtype, given: Any, order: str, budget: Budget) -> ArraySource | ReadError:
    try:
        stored = dtype.usable()
        shape = whole_numbers(given)
        check_possible(shape, stored.itemsize)
    except ReadError as error:
        return error
    if type(data) is str:  # as Python 2 wrote it
        budget.spend(len(data))
        data = data.encode("latin-1", "replace")
    size = len(data) if type(data) is bytes else 0
    if type(data) is not bytes or prod(shape) * stored.itemsize != size:
        return ReadError(f"shape {list(shape)} of {stored.name} does not fit its {size:,} bytes of data")
    return ArraySource(np.ndarray(shape, stored, data, order="F" if order == "F" else "C"))


def _empty_array(args: tuple[Any, ...], _: Budget) -> Leaf:
    match args:
        case (Symbol(name="numpy.ndarray"), *_):
            return PickledArray(ReadError("is a numpy array without its values"))
        case (Symbol(name=name), *_):
            return Leaf(ReadError(f"is a {shown(name)}, which firstdiff does not read; save a plain array instead"))
        case _:
            return Leaf(ReadError("is a numpy array of no class"))


def _scalar(args: tuple[Any, ...], budget: Budget) -> Leaf:
    match args:
        case (PickledDtype() as dtype, data):
            return Leaf(_source(data, dtype, (), "C", budget))
        case _:
            return Leaf(ReadError("is a numpy number without its value"))


def _from_buffer(args: tuple[Any, ...], budget: Budget) -> Leaf:
    match args:
        case (data, PickledDtype() as dtype, shape, "C" | "F" as order, *_):
            return Leaf(_source(data, dtype, shape, order, budget))
        case _:
            return Leaf(ReadError("is a numpy array in a state that is not numpy's"))


def _dtype(args: tuple[Any, ...], _: Budget) -> PickledDtype:
    match args:
        case (str(code), *_):
            return PickledDtype(code, _CODES.get(code))
        case (Symbol(name=name), *_) if name.startswith(("ml_dtypes.", "numpy.")):
            return PickledDtype(name, dtypes.BY_NAME.get(name.partition(".")[2]))
        case (Symbol(name=name), *_):
            return PickledDtype(name, None)
        case _:
            return PickledDtype("unknown", None)


NUMPY: dict[str, Builder] = {"numpy.dtype": _dtype}
for _module in ("numpy.core", "numpy._core"):
    NUMPY[f"{_module}.multiarray._reconstruct"] = _empty_array
    NUMPY[f"{_module}.multiarray.scalar"] = _scalar
    NUMPY[f"{_module}.numeric._frombuffer"] = _from_buffer
