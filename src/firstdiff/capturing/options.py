"""The options of `capture`, checked before the model runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

from firstdiff import dtypes
from firstdiff.capturing.module_tree import Params
from firstdiff.capturing.session import Filters
from firstdiff.capturing.snapshots import CopyRule
from firstdiff.errors import UsageError

Level = Literal["module", "function", "op"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Checked options of `capture`; its documentation explains each."""

    level: Level
    params: Params
    filters: Filters
    rule: CopyRule
    grads: bool


def checked(
    *,
    level: str,
    params: str,
    filters: Filters,
    max_bytes: int | None,
    tokens: slice | str | None,
    dtype: Any,
    grads: bool,
) -> Options:
    """The options, or a UsageError that names the wrong one."""
    return Options(
        level=_one_of("level", level, get_args(Level)),
        params=_one_of("params", params, get_args(Params)),
        filters=filters,
        rule=CopyRule(_slice(tokens), _float_name(dtype), _positive(max_bytes)),
        grads=grads,
    )


def _one_of(option: str, value: str, allowed: tuple[Any, ...]) -> Any:
    if value not in allowed:
        raise UsageError(f"{option} is {value!r}; it takes one of {', '.join(allowed)}")
    return value


def _slice(tokens: slice | str | None) -> slice | None:
    if tokens is None or isinstance(tokens, slice):
        return tokens
    try:
        ends = [int(end) if end.strip() else None for end in tokens.split(":")]
    except (ValueError, AttributeError):
        ends = []
    if not 2 <= len(ends) <= 3:
        raise UsageError(f"tokens is {tokens!r}; it takes a slice, or a text such as '0:8' or '-4:'")
    return slice(*ends)


def _float_name(dtype: Any) -> str | None:
    if dtype is None:
        return None
    name = str(dtype).removeprefix("torch.") if not isinstance(dtype, type) else dtype.__name__
    if not dtypes.known(name) or dtypes.kind_of(dtypes.from_name(name)) != "float":
        raise UsageError(f"dtype is {dtype!r}; it takes a floating-point type such as 'float32' or 'bfloat16'")
    return name


def _positive(max_bytes: int | None) -> int | None:
    if max_bytes is not None and max_bytes <= 0:
        raise UsageError(f"max_bytes is {max_bytes}; it takes a number above 0")
    return max_bytes
