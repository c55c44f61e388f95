"""One line of tensors.jsonl: the metadata of a tensor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from firstdiff.trace.key import ROLES, Key, Role


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
