"""Read and write JSON with NaN and infinities as strings, so that it is always valid."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")


def plain(value: Any) -> Any:
    """Dataclasses, tuples and numpy scalars as JSON's own types; non-finite numbers as "nan", "inf", "-inf"."""
    if isinstance(value, float):
        return value if math.isfinite(value) else str(float(value))
    if value is None or isinstance(value, str | bool | int):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return {item.name: plain(getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if isinstance(value, complex):
        return [plain(value.real), plain(value.imag)]
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        return plain(value.item())
    return str(value)


def to_json(value: Any, *, indent: int | None = None) -> str:
    """Valid JSON of any of the above, whatever the numbers in it."""
    try:  # most values hold no number that JSON lacks, and need no copy
        return json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False, default=plain)
    except (TypeError, ValueError):
        return json.dumps(plain(value), indent=indent, ensure_ascii=False, allow_nan=False)


def from_plain(kind: type[T], value: Any) -> T:
    """The dataclass that `plain` made this of; fields that are absent keep their defaults, unknown ones are left out.

    >>> from firstdiff.schema import Required
    >>> from_plain(Required, {"atol": "inf", "rtol": None})
    Required(atol=inf, rtol=None)
    """
    hint: Any = kind
    read: T = _reader(hint)(value)
    return read


@cache
def _reader(hint: Any) -> Callable[[Any], Any]:
    """Return a function that converts parsed JSON to a value of type `hint`."""
    if hint is float:
        return lambda value: float(value) if isinstance(value, str) else value
    if is_dataclass(hint):
        return _dataclass_reader(hint)
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        kinds = [part for part in parts if part is not NoneType]
        read = _reader(kinds[0]) if len(kinds) == 1 else _as_it_is
        return lambda value: None if value is None else read(value)
    if origin is tuple:
        return _tuple_reader(parts)
    if origin in (Mapping, dict):
        read_value = _reader(parts[1])
        return lambda value: {key: read_value(item) for key, item in value.items()}
    return _as_it_is


def _dataclass_reader(kind: Any) -> Callable[[Any], Any]:
    readers = {name: _reader(hint) for name, hint in get_type_hints(kind).items()}
    return lambda value: kind(**{name: read(value[name]) for name, read in readers.items() if name in value})


def _tuple_reader(parts: tuple[Any, ...]) -> Callable[[Any], Any]:
    if parts[1:] == (...,):
        read = _reader(parts[0])
        return lambda value: tuple(read(item) for item in value)
    readers = [_reader(part) for part in parts]
    return lambda value: tuple(read(item) for read, item in zip(readers, value, strict=True))


def _as_it_is(value: Any) -> Any:
    return value
