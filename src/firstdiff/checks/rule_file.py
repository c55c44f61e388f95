"""Rules as users write them: `[[rules]]` of a TOML file, each a glob over tensors, a check and its limits."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from firstdiff import dtypes
from firstdiff.errors import SettingsError, did_you_mean
from firstdiff.trace import Key, Tensor

Read = Callable[[Any], Any]
_OWN_FIELDS = ("name", "check", "slice")


class _RefusedError(ValueError):
    """A field holds something it does not take; the text says what it does take."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One `[[rules]]` entry.

    names: globs over keys, of which one must fit; a step, call or rank need not be written
    limits: the fields of the check, defaults filled in
    where: file and line, for messages
    """

    names: tuple[str, ...]
    check: str
    limits: Mapping[str, Any]
    slice: str | None
    where: str

    @property
    def name(self) -> str:
        return ", ".join(self.names)

    def matches(self, tensor: Tensor) -> bool:
        return fits(self.names, tensor.key)


@dataclass(frozen=True, slots=True)
class RuleFile:
    """The rules of a file.

    sizes: names for sizes that `shape` and `vocab_size` may use
    folder: what paths in the file are relative to
    """

    rules: tuple[Rule, ...]
    sizes: Mapping[str, int] = field(default_factory=dict)
    folder: Path = field(default_factory=Path)


def fits(globs: Sequence[str], key: Key) -> bool:
    """Return True if a glob fits the key, as it is or without call, step and rank."""
    texts = {str(key), str(Key(key.name, key.role, key.slot))}
    return any(text == glob or fnmatchcase(text, glob) for glob in globs for text in texts)


def load_rule_file(path: str | os.PathLike[str]) -> RuleFile:
    """Read a TOML file; SettingsError names the line of a rule that makes no sense."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})") from error
    return parse_rule_file(text, str(path), folder=Path(path).parent)


def parse_rule_file(text: str, path: str = "rules", *, folder: Path | None = None) -> RuleFile:
    """Read the same from text; `path` is what messages call it."""
    import tomllib

    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path}: is not valid TOML: {error}") from error
    lines = [number for number, line in enumerate(text.splitlines(), 1) if line.strip().startswith("[[rules]]")]
    return rules_of(table, path, lines, folder or Path())


def rules_of(table: Mapping[str, Any], path: str, lines: Sequence[int] = (), folder: Path | None = None) -> RuleFile:
    """Read the same from what TOML gives."""
    unknown = sorted(set(table) - {"rules", "sizes"})
    if unknown:
        raise SettingsError(f"{path}: {', '.join(unknown)} is neither [[rules]] nor [sizes]")
    entries = table.get("rules", [])
    if not isinstance(entries, list) or not entries or not all(isinstance(entry, Mapping) for entry in entries):
        raise SettingsError(f"{path}: has no [[rules]], each with a name and a check")
    sizes = table.get("sizes", {})
    if not isinstance(sizes, Mapping) or not all(_is_whole(size) and size >= 0 for size in sizes.values()):
        raise SettingsError(f"{path}: [sizes] takes whole numbers from 0 up, as in vocab = 65")
    known_lines = len(lines) == len(entries)
    places = [
        f"{path}, line {lines[number]}" if known_lines else f"{path}, rule {number + 1}"
        for number in range(len(entries))
    ]
    rules = tuple(_rule(entry, place, sizes) for entry, place in zip(entries, places, strict=True))
    return RuleFile(rules, dict(sizes), folder or Path())


def _rule(entry: Mapping[str, Any], where: str, sizes: Mapping[str, int]) -> Rule:
    names = entry.get("name")
    globs = [names] if isinstance(names, str) else names
    if not isinstance(globs, list) or not globs or not all(isinstance(glob, str) for glob in globs):
        raise SettingsError(f"{where}: a rule needs a name, a glob over the tensors' keys, or a list of them")
    check = entry.get("check")
    if not isinstance(check, str):
        raise SettingsError(f"{where}: a rule needs a check, one of {', '.join(FIELDS)}")
    if check not in FIELDS:
        near = did_you_mean(check, FIELDS) or f"; the checks are {', '.join(FIELDS)}"
        raise SettingsError(f"{where}: there is no check {check!r}{near}")
    limits = _limits(entry, check, where, sizes)
    _check_together(check, limits, where)
    part = entry.get("slice")
    if part is not None and not isinstance(part, str):
        raise SettingsError(f"{where}: slice is {part!r}; it takes a text such as '0,:,3:8'")
    return Rule(tuple(globs), check, limits, part, where)


def _limits(entry: Mapping[str, Any], check: str, where: str, sizes: Mapping[str, int]) -> dict[str, Any]:
    """Read the fields of a check, defaults filled in."""
    fields = FIELDS[check]
    for name in entry:
        if name not in fields and name not in _OWN_FIELDS:
            near = did_you_mean(name, [*fields, *_OWN_FIELDS])
            raise SettingsError(f"{where}: {check} takes no {name!r}{near}; it takes {', '.join([*fields, 'slice'])}")
    limits: dict[str, Any] = {}
    for name, wanted in fields.items():
        value = entry.get(name)
        if value is None:
            if wanted.required:
                raise SettingsError(f"{where}: {check} needs {name}")
            limits[name] = wanted.default
            continue
        if name == "vocab_size" and isinstance(value, str):
            value = sizes.get(value, value)
        try:
            limits[name] = wanted.read(value)
        except _RefusedError as error:
            raise SettingsError(f"{where}: {name} is {value!r}; it takes {error}") from error
    return limits


def _check_together(check: str, limits: Mapping[str, Any], where: str) -> None:
    if check == "range":
        low, high = limits["min"], limits["max"]
        if low is None and high is None:
            raise SettingsError(f"{where}: range needs min, max or both")
        if low is not None and high is not None and low > high:
            raise SettingsError(f"{where}: min is {low:g}, which is above max, {high:g}")
    if check == "changed":
        stated = limits["low"] is not None or limits["high"] is not None
        if stated == (limits["bands"] is not None):
            raise SettingsError(f"{where}: changed needs either low and high, or bands, the file that --measure writes")


@dataclass(frozen=True, slots=True)
class _Field:
    read: Read
    default: Any = None
    required: bool = False


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _number(value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or math.isnan(value):
        raise _RefusedError("a number")
    return float(value)


def _from_zero(value: Any) -> float:
    if _number(value) < 0:
        raise _RefusedError("a number from 0 up")
    return float(value)


def _whole(value: Any) -> int:
    if not _is_whole(value):
        raise _RefusedError("a whole number")
    return int(value)


def _above_zero(value: Any) -> int:
    if not _is_whole(value) or value < 1:
        raise _RefusedError("a whole number above 0, or a name from [sizes]")
    return int(value)


def _wholes(value: Any) -> tuple[int, ...]:
    if not isinstance(value, list) or not all(map(_is_whole, value)):
        raise _RefusedError("a list of whole numbers")
    return tuple(value)


def _numbers(value: Any) -> tuple[float, ...]:
    if not isinstance(value, list) or not value:
        raise _RefusedError("a list of numbers")
    return tuple(map(_number, value))


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _RefusedError("true or false")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise _RefusedError("a text")
    return value


def _direction(value: Any) -> str:
    if value not in ("up", "down"):
        raise _RefusedError("up or down")
    return str(value)


def _dtype_names(value: Any) -> tuple[str, ...]:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not names:
        raise _RefusedError("the name of a dtype, or a list of them")
    for name in names:
        if not isinstance(name, str) or not dtypes.known(name):
            raise _RefusedError(f"names of dtypes{did_you_mean(str(name), dtypes.BY_NAME)}")
    return tuple(names)


_AXIS = _Field(_whole, -1)

# every check, and the fields it takes beside name, check and slice
FIELDS: dict[str, dict[str, _Field]] = {
    "finite": {},
    "range": {"min": _Field(_number), "max": _Field(_number)},
    "positive": {"allow_zero": _Field(_flag, False)},
    "sum": {"axis": _AXIS, "value": _Field(_number, 1.0), "atol": _Field(_from_zero, 1e-6)},
    "norm": {"axis": _AXIS, "value": _Field(_from_zero, 1.0), "atol": _Field(_from_zero, 1e-6)},
    "monotone": {
        "direction": _Field(_direction, required=True),
        "axis": _Field(_whole),
        "strict": _Field(_flag, False),
    },
    "dtype": {"dtype": _Field(_dtype_names, required=True)},
    "shape": {"shape": _Field(_text, required=True)},
    "ids": {"vocab_size": _Field(_above_zero, required=True), "allow": _Field(_wholes, ())},
    "equal": {"values": _Field(_numbers, required=True), "atol": _Field(_from_zero, 0.0)},
    "unique": {"axis": _AXIS},
    "no_constant_rows": {"axis": _AXIS},
    "not_uniform": {"axis": _AXIS, "min_std": _Field(_from_zero, 0.05)},
    "varies": {},
    "changed": {
        "low": _Field(_from_zero),
        "high": _Field(_from_zero),
        "bands": _Field(_text),
        "with": _Field(_text),
        "axis": _Field(_whole),
    },
}
