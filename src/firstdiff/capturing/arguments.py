"""Name the arguments of a call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from enum import Enum
from types import BuiltinFunctionType, FunctionType
from typing import Any

_MARKS = str.maketrans("@:#", "___")  # what a key keeps for itself
_DEEPEST = 12
_LONGEST_TEXT = 200
_LONGEST_LIST = 32
_PLAIN = (bool, int, float, str)


@dataclass(slots=True)
class Parts:
    """Tensors in order, each with its slot, and the scalars by theirs."""

    tensors: list[tuple[str, Any]] = field(default_factory=list)
    scalars: dict[str, Any] = field(default_factory=dict)


def parts_of_call(args: Sequence[Any], kwargs: Mapping[str, Any], is_tensor: Callable[[Any], bool]) -> Parts:
    """Positional arguments are slots `0`, `1`, …; the others have their names; what is nested follows a dot."""
    parts = Parts()
    for number, value in enumerate(args):
        _take(parts, str(number), value, is_tensor, 0)
    for name, value in kwargs.items():
        _take(parts, _clean(name), value, is_tensor, 0)
    return parts


def parts_of_value(value: Any, is_tensor: Callable[[Any], bool]) -> Parts:
    """A lone value is slot `0`; the members of a tuple, a dict or a dataclass are slots of their own."""
    parts = Parts()
    members = None if is_tensor(value) or is_scalar(value) else _members(value)
    if members is None:
        _take(parts, "0", value, is_tensor, 0)
    for name, member in members or ():
        _take(parts, name, member, is_tensor, 0)
    return parts


def is_scalar(value: Any) -> bool:
    """True for a value that is short as JSON: numbers, short strings, dtypes, functions, short lists."""
    if value is None or isinstance(value, _PLAIN):
        return not isinstance(value, str) or len(value) <= _LONGEST_TEXT
    if isinstance(value, list | tuple):
        return len(value) <= _LONGEST_LIST and all(item is None or isinstance(item, _PLAIN) for item in value)
    return _is_named(value)


def scalar(value: Any) -> Any:
    """The JSON of what `is_scalar`."""
    if isinstance(value, Enum):
        return value.name
    if value is None or isinstance(value, _PLAIN):
        return value
    if isinstance(value, list | tuple):
        return list(value)
    return getattr(value, "__name__", None) or str(value).removeprefix("torch.")


def _is_named(value: Any) -> bool:
    if isinstance(value, FunctionType | BuiltinFunctionType | Enum):
        return True
    kind = type(value)
    return kind.__module__ == "torch" and kind.__name__ in ("dtype", "device", "layout", "memory_format")


def _take(parts: Parts, slot: str, value: Any, is_tensor: Callable[[Any], bool], depth: int) -> None:
    if is_tensor(value):
        parts.tensors.append((slot, value))
    elif is_scalar(value):
        if value is not None:
            parts.scalars[slot] = scalar(value)
    elif depth < _DEEPEST:
        for name, member in _members(value) or ():
            _take(parts, f"{slot}.{name}", member, is_tensor, depth + 1)


def _members(value: Any) -> list[tuple[str, Any]] | None:
    """The named members of a container; None for anything else."""
    if isinstance(value, Mapping):
        return [(_clean(str(name)), member) for name, member in value.items()]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return list(zip(value._fields, value, strict=True))
    if isinstance(value, list | tuple):
        return [(str(number), member) for number, member in enumerate(value)]
    if is_dataclass(value) and not isinstance(value, type):
        return [(item.name, getattr(value, item.name, None)) for item in fields(value)]
    return None


def _clean(name: str) -> str:
    return name.translate(_MARKS)
