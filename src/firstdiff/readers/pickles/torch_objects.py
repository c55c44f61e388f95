"""Builders for torch's tensors inside a pickle: they locate the values in the file without importing torch."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from firstdiff import dtypes
from firstdiff.errors import ReadError
from firstdiff.readers.blob import Blob
from firstdiff.readers.pickles.numpy_objects import NUMPY
from firstdiff.readers.pickles.python_objects import BUILTINS, left_out
from firstdiff.readers.pickles.torch_classes import (
    RETURN_TYPES,
    UNREADABLE,
    explain_class,
    explain_object,
    is_plain,
    is_property,
)
from firstdiff.readers.pickles.values import (
    MOST_ARGUMENTS,
    Budget,
    Builder,
    Leaf,
    Opaque,
    Symbol,
    Table,
    refused,
    shown,
    whole_numbers,
)
from firstdiff.readers.sources import DerivedSource, MappedSource
from firstdiff.readers.unpack import refuse_bomb
from firstdiff.settings import Limits
from firstdiff.trace import Source

_LARGEST = 1 << 63
_COMPLEX32 = "complex32"
_HALVES = np.dtype([("real", np.float16), ("imag", np.float16)])
_KNOWN = {**dtypes.BY_NAME, _COMPLEX32: _HALVES}
_LITTLE, _BIG = (
    {name: dtype.newbyteorder(order) if dtype.itemsize > 1 else dtype for name, dtype in _KNOWN.items()}
    for order in ("<", ">")
)


@final
class Storage:
    """A run of bytes that tensors are views of, and the type of its elements as its class tells it."""

    __slots__ = ("big_endian", "blob", "count", "dtype")

    def __init__(self, blob: Blob, dtype: str, count: Any, *, big_endian: bool) -> None:
        self.blob = blob
        self.dtype = dtype
        self.count = count
        self.big_endian = big_endian


def expand(value: Any) -> Leaf | None:
    """Return the tensor or failure that a value other than a number or container stands for; None if neither."""
    match value:
        case Storage():
            return _tensor(value, (0, (value.count,), (1,)), value.dtype)
        case Opaque():
            return Leaf(explain_object(value))
        case Symbol(name=name):
            return None if is_property(name) else Leaf(refused(name))
        case _:
            return None


def _tensor(storage: Any, layout: tuple[Any, ...], dtype: str, metadata: Any = None) -> Leaf:
    """A view of a storage; `layout` is offset, shape and strides, in elements."""
    if isinstance(storage, Leaf):
        return storage
    try:
        if type(storage) is not Storage:
            raise ReadError("is a tensor whose values are not in the file")
        source = _mapped(storage, layout, dtype)
        return Leaf(source) if metadata is None and dtype != _COMPLEX32 else _derived(source, dtype, metadata)
    except ReadError as error:
        return Leaf(type(error)(error.finding.replace(_HALVES.name, _COMPLEX32), error.label))


def _mapped(storage: Storage, layout: tuple[Any, ...], dtype: str) -> MappedSource:
    stored = (_BIG if storage.big_endian else _LITTLE).get(dtype)
    if stored is None:
        raise ReadError(f"has elements of type {shown(dtype)}, which cannot be compared")
    offset, shape, strides = layout[0], whole_numbers(layout[1]), whole_numbers(layout[2])
    if type(offset) is not int or not 0 <= offset < _LARGEST or len(strides) != len(shape):
        raise ReadError("has an offset or strides that do not fit its shape")
    source = MappedSource(
        storage.blob,
        stored,
        shape,
        offset=offset * stored.itemsize if 0 not in shape else 0,
        strides=_byte_strides(shape, strides, stored.itemsize),
    )
    if source.nbytes > storage.blob.size:  # an expanded tensor repeats its elements
        refuse_bomb(source.nbytes, source.nbytes, Limits.from_environment())
    return source


def _byte_strides(shape: tuple[int, ...], strides: tuple[int, ...], width: int) -> tuple[int, ...] | None:
    """Strides in bytes; None for C order. The stride of an axis of one element means nothing and may be anything."""
    expected = 1
    for n, step in zip(reversed(shape), reversed(strides), strict=True):
        if n != 1 and step != expected and 0 not in shape:
            return tuple(step * width if n > 1 else 0 for n, step in zip(shape, strides, strict=True))
        expected *= n
    return None


def _derived(stored: MappedSource, dtype: str, metadata: Any) -> Leaf:
    """Half-precision complex numbers, and torch's lazy conjugates and negatives."""
    source: Source = stored
    attrs: dict[str, Any] = {}
    if dtype == _COMPLEX32:
        source = DerivedSource(source, np.dtype(np.complex64), _widened)
        attrs["stored"] = _COMPLEX32
    for name, is_set in metadata.items() if type(metadata) is Table else ():
        if is_set is not True:
            continue
        if name == "conj" and source.dtype.kind == "c":
            source = DerivedSource(source, source.dtype, np.conjugate)
        elif name == "neg" and source.dtype.kind not in "bu":
            source = DerivedSource(source, source.dtype, np.negative)
        else:
            raise ReadError("has a property that firstdiff does not know; save tensor.clone() instead")
    return Leaf(source, attrs)


def _widened(halves: np.ndarray) -> np.ndarray:
    wide = np.empty(halves.shape, np.complex64)
    wide.real = halves["real"]
    wide.imag = halves["imag"]
    return wide


def _rebuild_v2(args: tuple[Any, ...], _: Budget) -> Leaf:
    """Also the first version, which has only the first four arguments."""
    if len(args) < 4:
        return _not_torch()
    return _tensor(args[0], args[1:4], getattr(args[0], "dtype", ""), args[6] if len(args) > 6 else None)


def _rebuild_v3(args: tuple[Any, ...], _: Budget) -> Leaf:
    if len(args) < 7 or type(args[6]) is not Symbol:
        return _not_torch()
    dtype = args[6].name.removeprefix("torch.")
    return _tensor(args[0], args[1:4], dtype, args[7] if len(args) > 7 else None)


def _rebuild_parameter(args: tuple[Any, ...], _: Budget) -> Leaf:
    return args[0] if args and isinstance(args[0], Leaf) else _not_torch()


def _rebuild_cast(args: tuple[Any, ...], _: Budget) -> Leaf:
    """From devices that have no storages: an array or tensor, and the type it had there."""
    match args:
        case (Leaf(source=Source() as source), Symbol(name=name), *_):
            dtype = dtypes.BY_NAME.get(name.removeprefix("torch."))
            if dtype is None:
                return Leaf(ReadError("has elements of a type which cannot be compared"))
            return args[0] if source.dtype == dtype else Leaf(_cast(source, dtype))
        case (Leaf() as failed, *_):
            return failed
        case _:
            return _not_torch()


def _cast(source: Source, dtype: np.dtype) -> DerivedSource:
    return DerivedSource(source, dtype, lambda values: values.astype(dtype))


def _rebuild_from_type(args: tuple[Any, ...], budget: Budget) -> Any:
    """A tensor with attributes, or of a class of its own."""
    match args:
        case (Symbol(name=function), Symbol(name=cls), tuple() as inner, *_) if len(inner) <= MOST_ARGUMENTS:
            if not is_plain(cls):
                return Leaf(explain_class(cls))
            if function not in _REBUILDERS:
                return Leaf(refused(function))
            opaque = next((argument for argument in inner if type(argument) is Opaque), None)
            return opaque or _REBUILDERS[function](inner, budget)
        case _:
            return _not_torch()


def _rebuild_wrapper(args: tuple[Any, ...], _: Budget) -> Leaf:
    return Leaf(explain_class(args[0].name)) if args and type(args[0]) is Symbol else _not_torch()


def _return_type(args: tuple[Any, ...], _: Budget) -> Any:
    """Build the named tuple that torch.max and others return."""
    return args[0] if args and type(args[0]) is tuple else _not_torch()


def _not_torch() -> Leaf:
    return Leaf(ReadError("is a tensor described in a way that torch does not"))


def _failure(finding: str) -> Builder:
    return lambda _, __: Leaf(ReadError(finding))


_REBUILDERS: dict[str, Builder] = {
    "torch._utils._rebuild_tensor": _rebuild_v2,
    "torch._utils._rebuild_tensor_v2": _rebuild_v2,
    "torch._utils._rebuild_tensor_v3": _rebuild_v3,
    "torch._utils._rebuild_parameter": _rebuild_parameter,
    "torch._utils._rebuild_parameter_with_state": _rebuild_parameter,
    "torch._utils._rebuild_device_tensor_from_numpy": _rebuild_cast,
    "torch._utils._rebuild_device_tensor_from_cpu_tensor": _rebuild_cast,
    "torch._utils._rebuild_xla_tensor": _rebuild_cast,
    "torch._utils._rebuild_wrapper_subclass": _rebuild_wrapper,
    **{f"torch._utils.{name}": _failure(finding) for name, finding in UNREADABLE.items()},
    "torch.storage._load_from_bytes": _failure(
        "was written by Python's pickle, which keeps tensors in torch's legacy format; save it with torch.save instead"
    ),
}

TORCH: dict[str, Builder] = {
    **BUILTINS,
    **NUMPY,
    **_REBUILDERS,
    "torch._tensor._rebuild_from_type_v2": _rebuild_from_type,
    "torch._tensor._rebuild_from_type": _rebuild_from_type,
    "torch.Size": BUILTINS["builtins.tuple"],
    "torch.device": left_out,
    "torch.serialization._get_layout": left_out,
    "torch.torch_version.TorchVersion": left_out,
    **dict.fromkeys((f"torch.return_types.{name}" for name in RETURN_TYPES), _return_type),
}
