"""The key that identifies a tensor within a run, and its text form."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, get_args

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
