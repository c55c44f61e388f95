"""A pickle interpreter that runs no code: it knows the opcodes and calls only the builders that the caller passes.

Python's own unpickler imports and calls what a file names. Here a name stays a name, a call outside the table gives
an `Opaque`, and the work is bounded by the size of the file.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat
from typing import Any, final

from firstdiff.errors import ReadError, RefusedError
from firstdiff.readers.pickles.opcodes import OPCODES
from firstdiff.readers.pickles.values import (
    MOST_ARGUMENTS,
    Bag,
    Budget,
    Buildable,
    Builders,
    Leaf,
    Opaque,
    Symbol,
    Table,
    shown,
)

MAX_SIZE = 1 << 28
_MAX_STEPS = 1 << 23
_PUT = ord("q")
_OLD_MODULES = {"__builtin__": "builtins", "copy_reg": "copyreg"}
_DAMAGE = (IndexError, KeyError, ValueError, OverflowError)

PersistentLoad = Callable[[Any], Any]


def unpickle(data: bytes, builders: Builders, persistent: PersistentLoad, budget: Budget) -> Any:
    """The value of a pickle.

    builders: what may be called, by its full name; each gets the arguments and the budget
    persistent: gives the value of a persistent id
    """
    return Machine(data, builders, persistent, budget).run()


@final
class Machine:
    """The state of one run; the opcodes work on it."""

    __slots__ = ("_builders", "budget", "data", "end", "marks", "memo", "persistent", "position", "stack")

    def __init__(self, data: bytes, builders: Builders, persistent: PersistentLoad, budget: Budget) -> None:
        self.data = data
        self.end = len(data)
        self.position = 0
        self.stack: list[Any] = []
        self.marks: list[list[Any]] = []
        self.memo: dict[int, Any] = {}
        self.persistent = persistent
        self.budget = budget
        self._builders = builders

    def run(self) -> Any:
        data, opcodes, memo = self.data, OPCODES, self.memo
        try:
            for _ in repeat(None, _MAX_STEPS):
                position = self.position
                code = data[position]
                if code == _PUT:  # every third opcode of a typical file
                    memo[data[position + 1]] = self.stack[-1]
                    self.position = position + 2
                else:
                    self.position = position + 1
                    opcodes[code](self)
        except StopIteration:
            return self._result()
        except _DAMAGE as error:
            if self.position >= self.end - 1:
                raise ReadError("holds a pickle that ends too early; was it cut off?") from error
            raise self.damaged() from error
        raise RefusedError(
            f"holds a pickle of over {_MAX_STEPS:,} steps, more than firstdiff takes; "
            "save lists of numbers as tensors, or split the file"
        )

    def damaged(self) -> ReadError:
        return ReadError(f"holds a pickle that is damaged at byte {self.position:,}")

    def take(self, count: int) -> bytes:
        """The next `count` bytes."""
        start = self.position
        self.position = stop = start + count
        if stop > self.end:
            raise ReadError("holds a pickle that ends too early; was it cut off?")
        return self.data[start:stop]

    def take_number(self, count: int) -> int:
        return int.from_bytes(self.take(count), "little")

    def take_line(self) -> bytes:
        stop = self.data.find(b"\n", self.position)
        if stop < 0:
            raise ReadError("holds a pickle that ends too early; was it cut off?")
        line = self.data[self.position : stop]
        self.position = stop + 1
        return line

    def pop_mark(self) -> list[Any]:
        """Everything above the last mark."""
        items = self.stack
        self.stack = self.marks.pop()
        return items

    def name(self, module: Any, name: Any) -> Symbol:
        if type(module) is not str or type(name) is not str:
            raise self.damaged()
        return Symbol(f"{_OLD_MODULES.get(module, module)}.{name}")

    def call(self, callee: Any, args: Any) -> Any:
        """Return what the callee's builder makes, or an `Opaque` without a builder or with an opaque argument."""
        builder = self._builders.get(callee.name) if type(callee) is Symbol else None
        if builder is None:
            return self.foreign(callee)
        if type(args) is Opaque:
            return args
        if type(args) is not tuple or len(args) > MOST_ARGUMENTS:
            raise self.damaged()
        for argument in args:
            if type(argument) is Opaque:
                return argument
        return builder(args, self.budget)

    def foreign(self, callee: Any) -> Opaque:
        """Return the `Opaque` that stands for a call without a builder."""
        if type(callee) is Symbol:
            return Opaque(callee.name)
        if type(callee) is Opaque:
            return callee
        raise self.damaged()

    def build(self, value: Any, state: Any) -> Any:
        """A value after it was filled; attributes of tensors, of dictionaries and of what was left out are, too."""
        if type(value) is Opaque:
            value.state = state
        elif type(state) is Opaque:
            return state
        elif isinstance(value, Buildable):
            value.set_state(state, self.budget)
        elif not (value is None or type(value) is Table or isinstance(value, Leaf)):
            raise self.damaged()
        return value

    def extend(self, target: Any, items: list[Any]) -> None:
        if type(target) is list or type(target) is Bag:
            target.extend(items)
        elif type(target) is not Opaque:
            raise self.damaged()

    def set_items(self, target: Any, flat: list[Any]) -> None:
        if type(target) is Table and not len(flat) % 2:
            target.flat.extend(flat)
        elif type(target) is not Opaque:
            raise self.damaged()

    def drop(self, items: list[Any]) -> None:
        """Throw values away. Writers of data never make an object for that; writers of exploits do."""
        for item in items:
            if type(item) is Opaque:
                raise RefusedError(
                    f"asks for {shown(item.name)} and throws the result away, as only a file made to run code does; "
                    "nothing of it was read"
                )

    def _result(self) -> Any:
        result = self.stack.pop() if self.stack else None
        for items in (self.stack, *self.marks):
            self.drop(items)
        return result
