"""Copy array-likes to numpy: numpy, torch, jax, lists, numbers, `__array__`, DLPack."""

from __future__ import annotations

import sys
from numbers import Number
from typing import Any

import numpy as np

from firstdiff import dtypes
from firstdiff.errors import UsageError

_WANTED = "an array, a tensor, a number, or lists and dicts of these"


def is_array(value: Any) -> bool:
    """True if a value is one array rather than a container of several."""
    if isinstance(value, list | tuple):
        while isinstance(value, list | tuple) and value:
            value = value[0]
        return isinstance(value, list | tuple | Number | np.generic)
    return isinstance(value, Number | np.ndarray | np.generic) or _converts(value)


def as_array(name: str, value: Any) -> np.ndarray:
    """A copy of the values as they are now, in native byte order; UsageError names what cannot be copied."""
    try:
        array = _copied(value)
    except (TypeError, ValueError, RuntimeError, BufferError, OverflowError) as error:
        raise UsageError(f"{name} cannot be recorded: {type(value).__name__} gives no array ({error})") from error
    if not dtypes.is_supported(array.dtype):
        raise UsageError(f"{name} cannot be recorded: it has elements of type {array.dtype}; give {_WANTED}")
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def no_array(name: str, value: Any) -> UsageError:
    return UsageError(f"{name} cannot be recorded: it is of type {type(value).__name__}; give {_WANTED}")


def _copied(value: Any) -> np.ndarray:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        from firstdiff.capturing.snapshots import CopyRule, UnreadableTensorError

        try:
            with torch._C.DisableTorchFunction():
                return CopyRule().copy(value).array
        except UnreadableTensorError as error:
            raise ValueError(f"it is {error}") from error
    if hasattr(value, "__array__") or not hasattr(value, "__dlpack__"):
        return np.array(value, order="C")
    return np.array(np.from_dlpack(value), order="C")


def _converts(value: Any) -> bool:
    return not isinstance(value, type) and (hasattr(value, "__array__") or hasattr(value, "__dlpack__"))
