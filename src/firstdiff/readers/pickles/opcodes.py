"""The opcodes of pickle, protocols 0 to 5: each a function that works on the machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from firstdiff.errors import ReadError
from firstdiff.readers.pickles.literals import LITERALS, Opcode, parsed
from firstdiff.readers.pickles.values import Bag, Table

if TYPE_CHECKING:
    from firstdiff.readers.pickles.machine import Machine

_HIGHEST_PROTOCOL = 5


def _stop(_: Machine) -> None:
    raise StopIteration


def _unknown(machine: Machine) -> None:
    raise machine.damaged()


def _protocol(machine: Machine) -> None:
    version = machine.take_number(1)
    if version > _HIGHEST_PROTOCOL:
        raise ReadError(f"holds a pickle of protocol {version}; firstdiff reads up to {_HIGHEST_PROTOCOL}")


def _frame(machine: Machine) -> None:
    machine.take(8)


def _extension(_: Machine) -> None:
    raise ReadError("holds a pickle with a code from Python's extension registry, which is different everywhere")


def _out_of_band(_: Machine) -> None:
    raise ReadError("holds a pickle whose data was kept outside of it; save it with torch.save or numpy.save")


def _empty(kind: Callable[[], Any]) -> Opcode:
    def push(machine: Machine) -> None:
        machine.stack.append(kind())

    return push


def _tuple(machine: Machine) -> None:
    items = machine.pop_mark()
    machine.stack.append(tuple(items))


def _tuple1(machine: Machine) -> None:
    machine.stack[-1] = (machine.stack[-1],)


def _tuple2(machine: Machine) -> None:
    second = machine.stack.pop()
    machine.stack[-1] = (machine.stack[-1], second)


def _tuple3(machine: Machine) -> None:
    third = machine.stack.pop()
    second = machine.stack.pop()
    machine.stack[-1] = (machine.stack[-1], second, third)


def _list(machine: Machine) -> None:
    items = machine.pop_mark()
    machine.stack.append(items)


def _frozenset(machine: Machine) -> None:
    items = machine.pop_mark()
    machine.stack.append(Bag(items))


def _dict(machine: Machine) -> None:
    flat = machine.pop_mark()
    table = Table()
    machine.set_items(table, flat)
    machine.stack.append(table)


def _append(machine: Machine) -> None:
    item = machine.stack.pop()
    machine.extend(machine.stack[-1], [item])


def _appends(machine: Machine) -> None:
    items = machine.pop_mark()
    machine.extend(machine.stack[-1], items)


def _set_item(machine: Machine) -> None:
    value = machine.stack.pop()
    key = machine.stack.pop()
    machine.set_items(machine.stack[-1], [key, value])


def _set_items(machine: Machine) -> None:
    flat = machine.pop_mark()
    machine.set_items(machine.stack[-1], flat)


def _mark(machine: Machine) -> None:
    machine.marks.append(machine.stack)
    machine.stack = []


def _pop(machine: Machine) -> None:
    if machine.stack:
        machine.drop([machine.stack.pop()])
    else:
        machine.pop_mark()


def _pop_mark(machine: Machine) -> None:
    machine.drop(machine.pop_mark())


def _duplicate(machine: Machine) -> None:
    machine.stack.append(machine.stack[-1])


def _long_put(machine: Machine) -> None:
    at = machine.position
    machine.position = at + 4
    machine.memo[int.from_bytes(machine.data[at : at + 4], "little")] = machine.stack[-1]


def _put_line(machine: Machine) -> None:
    machine.memo[parsed(machine.take_line())] = machine.stack[-1]


def _memoize(machine: Machine) -> None:
    machine.memo[len(machine.memo)] = machine.stack[-1]


def _get(machine: Machine) -> None:
    machine.stack.append(machine.memo[machine.data[machine.position]])
    machine.position += 1


def _long_get(machine: Machine) -> None:
    at = machine.position
    machine.position = at + 4
    machine.stack.append(machine.memo[int.from_bytes(machine.data[at : at + 4], "little")])


def _get_line(machine: Machine) -> None:
    machine.stack.append(machine.memo[parsed(machine.take_line())])


def _global(machine: Machine) -> None:
    module = machine.take_line().decode("utf-8", "replace")
    name = machine.take_line().decode("utf-8", "replace")
    machine.stack.append(machine.name(module, name))


def _stack_global(machine: Machine) -> None:
    name = machine.stack.pop()
    machine.stack[-1] = machine.name(machine.stack[-1], name)


def _reduce(machine: Machine) -> None:
    args = machine.stack.pop()
    machine.stack[-1] = machine.call(machine.stack[-1], args)


def _new_with_keywords(machine: Machine) -> None:
    keywords = machine.stack.pop()
    args = machine.stack.pop()
    if type(keywords) is not Table:
        raise machine.damaged()
    if keywords.flat:
        machine.stack[-1] = machine.foreign(machine.stack[-1])
    else:
        machine.stack[-1] = machine.call(machine.stack[-1], args)


def _object(machine: Machine) -> None:
    callee, *args = machine.pop_mark()
    machine.stack.append(machine.call(callee, tuple(args)))


def _instance(machine: Machine) -> None:
    _global(machine)
    callee = machine.stack.pop()
    args = machine.pop_mark()
    machine.stack.append(machine.call(callee, tuple(args)))


def _build(machine: Machine) -> None:
    state = machine.stack.pop()
    machine.stack[-1] = machine.build(machine.stack[-1], state)


def _persistent(machine: Machine) -> None:
    machine.stack[-1] = machine.persistent(machine.stack[-1])


def _persistent_line(machine: Machine) -> None:
    machine.stack.append(machine.persistent(machine.take_line().decode("ascii", "replace")))


_BY_CODE: dict[bytes, Opcode] = {
    **LITERALS,
    b".": _stop,
    b"\x80": _protocol,
    b"\x95": _frame,
    b"\x82": _extension,
    b"\x83": _extension,
    b"\x84": _extension,
    b"\x97": _out_of_band,
    b"\x98": _out_of_band,
    b"]": _empty(list),
    b"}": _empty(Table),
    b"\x8f": _empty(Bag),
    b"t": _tuple,
    b"\x85": _tuple1,
    b"\x86": _tuple2,
    b"\x87": _tuple3,
    b"l": _list,
    b"\x91": _frozenset,
    b"d": _dict,
    b"a": _append,
    b"e": _appends,
    b"\x90": _appends,
    b"s": _set_item,
    b"u": _set_items,
    b"(": _mark,
    b"0": _pop,
    b"1": _pop_mark,
    b"2": _duplicate,
    b"r": _long_put,
    b"p": _put_line,
    b"\x94": _memoize,
    b"h": _get,
    b"j": _long_get,
    b"g": _get_line,
    b"c": _global,
    b"\x93": _stack_global,
    b"R": _reduce,
    b"\x81": _reduce,
    b"\x92": _new_with_keywords,
    b"o": _object,
    b"i": _instance,
    b"b": _build,
    b"Q": _persistent,
    b"P": _persistent_line,
}
OPCODES: tuple[Opcode, ...] = tuple(_BY_CODE.get(bytes([code]), _unknown) for code in range(256))
