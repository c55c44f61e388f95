"""JSON that is always valid, whatever the numbers in it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any


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
    return json.dumps(plain(value), indent=indent, ensure_ascii=False, allow_nan=False)
