"""Nested dictionaries and lists, as pickles hold them, turned into named tensors."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, final

import numpy as np

from firstdiff.errors import ReadError
from firstdiff.readers.format import Found
from firstdiff.readers.pickles.values import Bag, Budget, Leaf, Symbol, Table
from firstdiff.trace import ArraySource

_DEEPEST = 64
_MOST_AXES = 32
_ROW_COST = 16
_MOST_KEY_PARTS = 16
_MOST_KEY_BITS = 256
_NUMBERS = {bool, int, float, complex}
_SORTABLE = {bool, int, float}
_TEXTS = {str, bytes, bytearray, type(None)}
_PLAIN_KEYS = _NUMBERS | {str, bytes, type(None)}

Expand = Callable[[Any], Any]
Grid = tuple[tuple[int, ...], frozenset[type]]


def named_tensors(root: Any, expand: Expand, budget: Budget) -> list[Found]:
    """Every tensor and number below a value, under its keys joined with dots.

    expand: turns a value of an unknown type into a Leaf or a container, or None if it is nothing to compare
    """
    walk = _Walk(expand, budget)
    walk.visit("", root, 0)
    if not walk.found:
        raise ReadError("holds no tensors or numbers; save at least one")
    return walk.found


@final
class _Walk:
    def __init__(self, expand: Expand, budget: Budget) -> None:
        self.found: list[Found] = []
        self._expand = expand
        self._budget = budget
        self._names: dict[str, int] = {}
        self._grids: dict[int, Grid | None] = {}

    def visit(self, name: str, value: Any, depth: int) -> None:
        kind = type(value)
        if kind in _TEXTS:
            return
        if isinstance(value, Leaf):
            self._add(name, value)
        elif kind in _NUMBERS:
            self._add(name, _array(value, frozenset([kind])))
        elif kind is Table or kind is list or kind is tuple or kind is Bag:
            if depth == _DEEPEST:
                raise ReadError(f"is nested more than {_DEEPEST} levels deep, or contains itself")
            self._visit_table(name, value, depth) if kind is Table else self._visit_list(name, value, depth)
        elif (expanded := self._expand(value)) is not None:
            self.visit(name, expanded, depth)

    def _visit_table(self, name: str, table: Table, depth: int) -> None:
        self._budget.spend(len(table.flat))
        # as in a dictionary, the last value of a key counts
        last = {self._identity(index, key): value for index, (key, value) in enumerate(table.items())}
        for (_, text), value in last.items():
            self._visit_child(name, text, value, depth)

    def _visit_list(self, name: str, items: list[Any] | tuple[Any, ...], depth: int) -> None:
        self._budget.spend(len(items))
        grid = self._grid(items, depth)
        if grid is not None:
            self._budget.spend(prod(grid[0]))
            values = sorted(items) if type(items) is Bag and grid[1] <= _SORTABLE else items
            self._add(name, _array(values, grid[1]))
            return
        for index, value in enumerate(items):
            self._visit_child(name, str(index), value, depth)

    def _visit_child(self, name: str, key: str, value: Any, depth: int) -> None:
        child = f"{name}.{key}" if name else key
        self._budget.spend(len(child) >> 3)
        self.visit(child, value, depth + 1)

    def _add(self, name: str, leaf: Leaf) -> None:
        self._budget.spend(_ROW_COST)
        self.found.append(Found(self._unused(name), leaf.source, leaf.attrs))

    def _unused(self, name: str) -> str:
        """The name, numbered where `{"a": {"b": 1}, "a.b": 2}` would give it twice."""
        count = self._names[name] = self._names.get(name, 0) + 1
        if count == 1:
            return name
        while (numbered := f"{name}~{count}") in self._names:
            count += 1
        self._names[name] = count
        self._names[numbered] = 1
        return numbered

    def _identity(self, index: int, key: Any) -> tuple[str, str]:
        """Return a dictionary key's type and text, which together are unique in the dictionary."""
        kind = type(key)
        if kind is str:
            return "str", key
        if kind is tuple and len(key) <= _MOST_KEY_PARTS and all(type(part) in _PLAIN_KEYS for part in key):
            self._budget.spend(sum(len(part) for part in key if type(part) in (str, bytes)))
            return "tuple", f"({', '.join(map(_text, key))})"
        if kind is bytes:
            self._budget.spend(len(key))
        if kind in _PLAIN_KEYS:
            return kind.__name__, _text(key)
        return "object", key.name if kind is Symbol else f"#{index}"

    def _grid(self, items: list[Any] | tuple[Any, ...], depth: int) -> Grid | None:
        """Shape and kinds of a regular array of numbers; None for any other list."""
        if not items or depth > _MOST_AXES:
            return None
        if id(items) not in self._grids:
            self._grids[id(items)] = None  # what holds itself is no grid
            self._grids[id(items)] = self._grid_of(items, depth)
        return self._grids[id(items)]

    def _grid_of(self, items: list[Any] | tuple[Any, ...], depth: int) -> Grid | None:
        kinds = frozenset(map(type, items))
        if kinds <= _NUMBERS:
            return (len(items),), kinds
        if type(items) is Bag or not kinds <= {list, tuple}:
            return None
        first = self._grid(items[0], depth + 1)
        if first is None:
            return None
        rows = [self._grid(item, depth + 1) for item in items]
        if any(row is None or row[0] != first[0] for row in rows):
            return None
        return (len(items), *first[0]), frozenset().union(*(row[1] for row in rows if row))


def _text(key: Any) -> str:
    if type(key) is bytes:
        return key.decode("utf-8", "replace")
    if type(key) is int and key.bit_length() > _MOST_KEY_BITS:
        return f"integer of {key.bit_length():,} bits"
    return str(key)


def _array(values: Any, kinds: frozenset[type]) -> Leaf:
    """A number, or a regular nesting of numbers, as Python would compare them."""
    for dtype in _dtypes_for(kinds):
        try:
            return Leaf(ArraySource(np.array(values, dtype)))
        except OverflowError:
            continue
    return Leaf(ReadError("is or holds an integer too large for any dtype"))


def _dtypes_for(kinds: frozenset[type]) -> tuple[type, ...]:
    if complex in kinds:
        return (np.complex128,)
    if float in kinds:
        return (np.float64,)
    return (np.int64, np.uint64) if int in kinds else (np.bool_,)
