"""Places of a reference: keys with the same values share one, numbered in the order of the run."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property

import numpy as np

from firstdiff.testing.zoo.scoring import call_of
from firstdiff.trace import Key, Trace

BRACKET = 0.1  # of the model: how wide an answer "between X and Y" may be
_WEIGHTS = frozenset({"param", "buffer"})


@dataclass(frozen=True)
class Places:
    """The places of a reference.

    keys: every activation, in the order of the run
    place_of: for each key the number of its place: the same for keys with the same values, in any layout
    inputs: keys of inputs
    """

    keys: tuple[str, ...]
    place_of: dict[str, int]
    inputs: frozenset[str]

    @classmethod
    def of(cls, reference: Trace) -> Places:
        found: dict[bytes, int] = {}
        place_of: dict[str, int] = {}
        inputs = set()
        for tensor in reference:
            if tensor.record.role in _WEIGHTS:
                continue
            key = str(tensor.key)
            place_of[key] = found.setdefault(_digest(tensor.values().read()), len(found))
            if tensor.record.role == "input":
                inputs.add(key)
        return cls(tuple(place_of), place_of, frozenset(inputs))

    @cached_property
    def count(self) -> int:
        return len(set(self.place_of.values()))

    def matching(self, patterns: Iterable[str]) -> frozenset[str]:
        """Keys that patterns name; `*` stands for anything, but only a key written out names an input."""
        return frozenset(
            key
            for pattern in patterns
            for key in self.keys
            if key == pattern or ("*" in pattern and key not in self.inputs and fnmatchcase(key, pattern))
        )

    def numbers(self, patterns: Iterable[str]) -> frozenset[int]:
        """The places that patterns name."""
        return frozenset(self.place_of[key] for key in self.matching(patterns))

    def accepted(self, patterns: Iterable[str]) -> frozenset[str]:
        """Keys at which an answer is right: those named and those of the same values.

        Of an input only later ones count: the tensor it should have been may well be right.
        """
        index = {key: number for number, key in enumerate(self.keys)}
        return frozenset(
            key
            for named in self.matching(patterns)
            for key in self.keys
            if self.place_of[key] == self.place_of[named] and (named not in self.inputs or index[key] >= index[named])
        )

    def is_exact(self, answer: str, patterns: Sequence[str]) -> bool:
        """True if the answer is a place that patterns name; outputs of one call are one place."""
        return answer in self.place_of and _call(answer) in {_call(key) for key in self.accepted(patterns)}

    def is_bracketed(self, between: Sequence[str], patterns: Sequence[str]) -> bool:
        """True if an answer "after X, at or before Y" holds a place that patterns name, and little else."""
        if len(between) != 2 or any(key not in self.place_of for key in between):
            return False
        low, high = (self.keys.index(key) for key in between)
        inside = self.keys[low + 1 : high + 1]
        width = len({self.place_of[key] for key in inside})
        return width <= max(1.0, BRACKET * self.count) and not self.accepted(patterns).isdisjoint(inside)


def _call(key: str) -> tuple[object, ...]:
    return (*call_of(key), Key.parse(key).step)


def _digest(values: np.ndarray) -> bytes:
    ordered = np.sort(values, axis=None)
    return hashlib.blake2b(ordered.tobytes() + str((values.dtype, values.size)).encode()).digest()
