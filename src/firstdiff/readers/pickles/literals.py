"""The opcodes of pickle that push a number, a text or bytes."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from firstdiff.errors import ReadError

if TYPE_CHECKING:
    from firstdiff.readers.pickles.machine import Machine

Opcode = Callable[["Machine"], None]

_MOST_DIGITS = 1000
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|.)")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\", "'": "'", '"': '"'}
_DOUBLE = struct.Struct(">d")


def _constant(value: Any) -> Opcode:
    def push(machine: Machine) -> None:
        machine.stack.append(value)

    return push


def _unsigned(machine: Machine, *, width: int) -> None:
    machine.stack.append(int.from_bytes(machine.take(width), "little"))


def _byte(machine: Machine) -> None:
    machine.stack.append(machine.data[machine.position])
    machine.position += 1


def _signed(machine: Machine) -> None:
    machine.stack.append(int.from_bytes(machine.take(4), "little", signed=True))


def _long(machine: Machine, *, width: int) -> None:
    size = machine.take_number(width)
    machine.stack.append(int.from_bytes(machine.take(size), "little", signed=True))


def _float(machine: Machine) -> None:
    machine.stack.append(_DOUBLE.unpack(machine.take(8))[0])


def _text(machine: Machine, *, width: int) -> None:
    size = int.from_bytes(machine.take(width), "little")
    machine.stack.append(str(machine.take(size), "utf-8", "replace"))


def _old_string(machine: Machine, *, width: int) -> None:
    size = machine.take_number(width)
    machine.stack.append(machine.take(size).decode("latin-1"))


def _bytes(machine: Machine, *, width: int) -> None:
    size = machine.take_number(width)
    machine.stack.append(machine.take(size))


def _integer_line(machine: Machine) -> None:
    line = machine.take_line()
    machine.stack.append({b"00": False, b"01": True}.get(line, parsed(line)))


def _long_line(machine: Machine) -> None:
    machine.stack.append(parsed(machine.take_line().removesuffix(b"L")))


def _float_line(machine: Machine) -> None:
    line = machine.take_line()
    if len(line) > _MOST_DIGITS:
        raise machine.damaged()
    machine.stack.append(float(line))


def _text_line(machine: Machine) -> None:
    text = machine.take_line().decode("raw-unicode-escape", "replace")
    machine.stack.append(text.encode("utf-8", "replace").decode("utf-8"))


def _string_line(machine: Machine) -> None:
    line = machine.take_line()
    if len(line) < 2 or line[:1] != line[-1:] or line[:1] not in (b"'", b'"'):
        raise machine.damaged()
    machine.stack.append(_ESCAPE.sub(_unescaped, line[1:-1].decode("latin-1")))


def _unescaped(match: re.Match[str]) -> str:
    escape = match[1]
    return chr(int(escape[1:], 16)) if len(escape) > 1 else _ESCAPES.get(escape, match[0])


def parsed(digits: bytes) -> int:
    """A number in decimal, of a length that takes no time."""
    if len(digits) > _MOST_DIGITS:
        raise ReadError(f"holds a pickle with an integer of over {_MOST_DIGITS:,} digits")
    return int(digits)


LITERALS: dict[bytes, Opcode] = {
    b"N": _constant(None),
    b"\x88": _constant(True),
    b"\x89": _constant(False),
    b")": _constant(()),
    b"K": _byte,
    b"M": partial(_unsigned, width=2),
    b"J": _signed,
    b"\x8a": partial(_long, width=1),
    b"\x8b": partial(_long, width=4),
    b"G": _float,
    b"X": partial(_text, width=4),
    b"\x8c": partial(_text, width=1),
    b"\x8d": partial(_text, width=8),
    b"U": partial(_old_string, width=1),
    b"T": partial(_old_string, width=4),
    b"C": partial(_bytes, width=1),
    b"B": partial(_bytes, width=4),
    b"\x8e": partial(_bytes, width=8),
    b"\x96": partial(_bytes, width=8),
    b"I": _integer_line,
    b"L": _long_line,
    b"F": _float_line,
    b"V": _text_line,
    b"S": _string_line,
}
