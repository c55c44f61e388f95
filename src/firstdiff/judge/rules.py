"""Select the tolerance rule of a tensor: options, a table of rules in TOML, or the defaults."""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from firstdiff.errors import SettingsError
from firstdiff.schema import Tolerance

Table = Literal["default", "torch"]
_FIELDS = {"name", "atol", "rtol", "k"}
_EVERY = "(?s).*"  # a key may hold any letter
_HEAD = "# What is allowed; pass it with --tolerances.\n"


@dataclass(frozen=True, slots=True)
class NamedRule:
    """One `[[tolerances]]` entry: `atol` and `rtol`, or `k` in place of the default's factor. `where` is its line."""

    pattern: re.Pattern[str]
    atol: float | None
    rtol: float | None
    k: float | None
    where: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Everything that decides what is allowed.

    named: looked through first, the first that matches a tensor's key wins
    atol, rtol: for every tensor no named rule matches; one alone leaves the other at 0
    table: what holds where nothing else is stated
    equal_nan: NaN at the same places on both sides is no mismatch
    """

    named: tuple[NamedRule, ...] = ()
    atol: float | None = None
    rtol: float | None = None
    table: Table = "default"
    equal_nan: bool = False

    def __post_init__(self) -> None:
        for name in ("atol", "rtol"):
            value = getattr(self, name)
            if value is not None:
                _tolerance(value, f"{name}")

    def named_rule(self, key: str) -> NamedRule | None:
        return next((rule for rule in self.named if rule.pattern.fullmatch(key)), None)

    def unused(self, keys: Iterable[str]) -> tuple[str, ...]:
        """A warning for every named rule that no key of the comparison matched first."""
        used = {id(self.named_rule(key)) for key in keys}
        return tuple(
            f"{rule.where}: the tolerance for {rule.pattern.pattern!r} matches no tensor"
            for rule in self.named
            if id(rule) not in used
        )


def load_rules(path: str | Path) -> tuple[NamedRule, ...]:
    """The `[[tolerances]]` of a TOML file; SettingsError names the line of a wrong one."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})") from error
    return parse_rules(text, str(path))


def parse_rules(text: str, path: str = "tolerances") -> tuple[NamedRule, ...]:
    """The same from text; `path` is what messages call it."""
    import tomllib

    try:
        entries = tomllib.loads(text).get("tolerances", [])
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path}: is not valid TOML: {error}") from error
    lines = [number for number, line in enumerate(text.splitlines(), 1) if line.strip().startswith("[[tolerances]]")]
    if not isinstance(entries, list) or not entries or not all(isinstance(entry, dict) for entry in entries):
        raise SettingsError(f"{path}: has no [[tolerances]] with a name and atol, rtol or k")
    places = [f"{path}, line {line}" for line in lines] if len(lines) == len(entries) else [path] * len(entries)
    return tuple(_rule(entry, place) for entry, place in zip(entries, places, strict=True))


def _rule(entry: Mapping[str, Any], where: str) -> NamedRule:
    unknown = set(entry) - _FIELDS
    if unknown:
        raise SettingsError(f"{where}: {', '.join(sorted(unknown))} is none of {', '.join(sorted(_FIELDS))}")
    name = entry.get("name")
    if not isinstance(name, str):
        raise SettingsError(f"{where}: a tolerance needs a name, a regular expression over the tensors' keys")
    try:
        pattern = re.compile(name)
    except re.error as error:
        raise SettingsError(f"{where}: {name!r} is not a regular expression ({error})") from error
    limits = {field: _tolerance(entry[field], f"{where}: {field}") for field in ("atol", "rtol", "k") if field in entry}
    if not limits or ("k" in limits and len(limits) > 1):
        raise SettingsError(f"{where}: a tolerance takes atol and rtol, or k alone")
    return NamedRule(pattern, limits.get("atol"), limits.get("rtol"), limits.get("k"), where)


def _tolerance(value: Any, what: str) -> float:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or math.isnan(value) or value < 0:
        raise SettingsError(f"{what} is {value!r}; it takes a number from 0 up")
    return float(value)


def tolerances_toml(allowed: Iterable[tuple[str, Tolerance]], *, equal_nan: bool = False) -> str:
    """A file under which every key gets the tolerance stated here; what most of them have comes last, for all others.

    >>> print(tolerances_toml([("x", Tolerance(rule="stated", atol=1e-3, rtol=0.0))]))
    # What is allowed; pass it with --tolerances.
    <BLANKLINE>
    [[tolerances]]
    name = "(?s).*"
    atol = 0.001
    rtol = 0.0
    <BLANKLINE>
    """
    keys: dict[str, list[str]] = defaultdict(list)
    for key, tolerance in allowed:
        keys[_limits(tolerance)].append(key)
    ranked = sorted(keys.items(), key=lambda item: len(item[1]))
    blocks = [_HEAD + ("# NaN may match NaN: pass --equal-nan, too.\n" if equal_nan else "")]
    for place, (limits, names) in enumerate(ranked, 1):
        pattern = _EVERY if place == len(ranked) else "|".join(re.escape(name) for name in names)
        blocks.append(f"[[tolerances]]\nname = {_quoted(pattern)}\n{limits}")
    return "\n".join(blocks)


def _limits(tolerance: Tolerance) -> str:
    if tolerance.rule in ("default", "eps") and tolerance.k is not None:
        return f"k = {float(tolerance.k)!r}\n"
    return f"atol = {float(tolerance.atol)!r}\nrtol = {float(tolerance.rtol)!r}\n"


def _quoted(text: str) -> str:
    """A TOML string: JSON's escapes are among TOML's, which escapes delete as well."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
