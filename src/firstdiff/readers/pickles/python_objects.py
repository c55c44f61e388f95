"""Builders for the standard library's plain containers, which any pickle may hold."""

from __future__ import annotations

from typing import Any

from firstdiff.errors import ReadError
from firstdiff.readers.pickles.values import Bag, Budget, Builder, Opaque, Symbol, Table


def _table(args: tuple[Any, ...], budget: Budget) -> Table:
    """OrderedDict() with its items to follow, OrderedDict([[key, value], …]) of old, Counter({…})."""
    given = args[0] if args else None
    if type(given) is Table:
        return given
    if type(given) is not list:
        return Table()
    budget.spend(len(given))
    flat: list[Any] = []
    for pair in given:
        if type(pair) not in (list, tuple) or len(pair) != 2:
            raise ReadError("holds a pickle with a dictionary that is not made of pairs")
        flat.extend(pair)
    return Table(flat)


def _items(args: tuple[Any, ...], budget: Budget) -> list[Any]:
    given = args[0] if args else []
    if not isinstance(given, list | tuple):
        raise ReadError("holds a pickle with a container made of something else than a list")
    budget.spend(len(given))
    return list(given)


def _bag(args: tuple[Any, ...], budget: Budget) -> Bag:
    return Bag(_items(args, budget))


def _bytes(args: tuple[Any, ...], budget: Budget) -> bytes | None:
    """Protocols before 3 write bytes as the text that latin-1 makes of them."""
    given = args[0] if args else b""
    if type(given) is bytes:
        return given
    if type(given) is not str:
        return None
    budget.spend(len(given))
    return given.encode("latin-1", "replace")


def _complex(args: tuple[Any, ...], _: Budget) -> complex:
    if len(args) == 2 and all(type(part) is float for part in args):
        return complex(*args)
    raise ReadError("holds a pickle with a complex number that is not made of two floats")


def _reconstructed(args: tuple[Any, ...], _: Budget) -> Opaque:
    """Build what copyreg._reconstructor makes: an object of a class in protocols 0 and 1."""
    if args and type(args[0]) is Symbol:
        return Opaque(args[0].name)
    raise ReadError("holds a pickle with an object of no class")


def left_out(_: tuple[Any, ...], __: Budget) -> None:
    """Something harmless that holds no numbers to compare."""


BUILTINS: dict[str, Builder] = {
    "collections.OrderedDict": _table,
    "collections.Counter": _table,
    "collections.defaultdict": lambda args, budget: _table(args[1:], budget),
    "collections.deque": _items,
    "builtins.dict": _table,
    "builtins.list": _items,
    "builtins.tuple": lambda args, budget: tuple(_items(args, budget)),
    "builtins.set": _bag,
    "builtins.frozenset": _bag,
    "builtins.bytes": _bytes,
    "builtins.bytearray": _bytes,
    "builtins.complex": _complex,
    "builtins.slice": left_out,
    "builtins.range": left_out,
    "builtins.xrange": left_out,  # its name in protocol 2
    "_codecs.encode": _bytes,
    "_io.BytesIO": left_out,
    "copyreg._reconstructor": _reconstructed,
}
