"""A tensor's line in a trace, and the key that identifies it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

Role = Literal["input", "output", "param", "buffer", "grad", "tap"]
ROLES: tuple[Role, ...] = get_args(Role)

_SHORT: dict[str, str] = {"input": "in", "output": "out"}
_LONG: dict[str, Role] = {_SHORT.get(role, role): role for role in ROLES}
_MARKS = frozenset("@:#")  # every suffix begins with one
_SUFFIX = re.compile(
    r"(?P<name>.*?)(?:@(?P<call>\d+))?"
    rf"(?::(?P<role>{'|'.join(_LONG)})(?:\.(?P<slot>[^@:#]*))?)?"
    r"(?:#s(?P<step>\d+))?(?:#r(?P<rank>\d+))?",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """The identity of a tensor within its trace.

    As text: `layers.0.attn@1:in.0#s2#r3` is input 0 of the second call, in step 2, on rank 3.
    Whatever is zero, and `:out.0`, is left out, so most keys are just a name. A slot has none of `@:#` in it.
    """

    name: str
    role: Role = "output"
    slot: str = "0"
    call: int = 0
    step: int = 0
    rank: int = 0

    def __str__(self) -> str:
        text = self.name
        if self.call or _looks_suffixed(self.name):
            text += f"@{self.call}"
        if self.role != "output" or self.slot != "0":
            text += f":{_SHORT.get(self.role, self.role)}"
            if self.slot != "0" or self.role in _SHORT:
                text += f".{self.slot}"
        if self.step:
            text += f"#s{self.step}"
        return text + (f"#r{self.rank}" if self.rank else "")

    @classmethod
    def parse(cls, text: str) -> Key:
        """The inverse of `str`."""
        part = _match(text)
        return cls(
            name=part["name"],
            role=_LONG[part["role"] or "out"],
            slot="0" if part["slot"] is None else part["slot"],
            call=int(part["call"] or 0),
            step=int(part["step"] or 0),
            rank=int(part["rank"] or 0),
        )


def _match(text: str) -> re.Match[str]:
    found = _SUFFIX.fullmatch(text)
    assert found is not None, "the pattern ends every text somewhere"
    return found


def _looks_suffixed(name: str) -> bool:
    return not _MARKS.isdisjoint(name) and _match(name)["name"] != name


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The metadata of a recorded tensor. Only `name` is required; `docs/trace-format.md` explains each field."""

    name: str
    role: Role | None = None
    slot: str = "0"
    call: int = 0
    step: int = 0
    rank: int = 0
    world: int = 1
    seq: int | None = None
    op: str | None = None
    attrs: Mapping[str, Any] = field(default_factory=dict)
    parent: str | None = None
    sources: tuple[int, ...] = ()
    dims: str | None = None
    floor: Mapping[str, Any] | None = None

    @property
    def key(self) -> Key:
        """Identity; a tap, or a tensor of no stated role, is an output."""
        role: Role = self.role if self.role and self.role != "tap" else "output"
        return Key(self.name, role, self.slot, self.call, self.step, self.rank)

    @property
    def is_function(self) -> bool:
        """True for a torch function called in a module's code, rather than a module."""
        return is_function_op(self.op)

    def to_line(self) -> dict[str, Any]:
        """The JSON fields, defaults left out."""
        line: dict[str, Any] = {"name": self.name}
        for attribute, json_name, default in _FIELDS:
            value = getattr(self, attribute)
            if value != default:
                line[json_name] = value
        return line

    @classmethod
    def from_line(cls, line: Mapping[str, Any]) -> Record:
        """Read the JSON fields; ValueError says which one is wrong."""
        values: dict[str, Any] = {"name": _typed(line, "name", str)}
        for attribute, json_name, default in _FIELDS:
            if line.get(json_name) is not None:
                values[attribute] = _typed(line, json_name, _types_of(attribute, default))
        if values.get("role", "output") not in ROLES:
            raise ValueError(f"role {values['role']!r} is none of {', '.join(ROLES)}")
        if "slot" in values:
            values["slot"] = str(values["slot"])
            if any(mark in values["slot"] for mark in "@:#"):
                raise ValueError(f"slot {values['slot']!r} has one of @ : # in it")
        if "sources" in values:
            values["sources"] = tuple(values["sources"])
        return cls(**values)


def is_function_op(op: str | None) -> bool:
    """True for the op of a function: recorders write `softmax` for a function and `Softmax` for a module."""
    return op is not None and op[:1].islower()


# attribute, its name in JSON, the default that is left out
_FIELDS: tuple[tuple[str, str, Any], ...] = (
    ("role", "role", None),
    ("slot", "slot", "0"),
    ("call", "call", 0),
    ("step", "step", 0),
    ("seq", "seq", None),
    ("op", "op", None),
    ("attrs", "attrs", {}),
    ("parent", "parent", None),
    ("sources", "from", ()),
    ("rank", "rank", 0),
    ("world", "world", 1),
    ("dims", "dims", None),
    ("floor", "floor", None),
)


def _types_of(attribute: str, default: Any) -> tuple[type, ...]:
    if attribute == "slot":
        return (str, int)
    if attribute == "sources":
        return (list,)
    if attribute in ("attrs", "floor"):
        return (dict,)
    return (int,) if attribute == "seq" or isinstance(default, int) else (str,)


def _typed(line: Mapping[str, Any], json_name: str, types: type | tuple[type, ...]) -> Any:
    value = line.get(json_name)
    if not isinstance(value, types) or isinstance(value, bool):
        raise ValueError(f"{json_name} is {value!r}")
    return value
