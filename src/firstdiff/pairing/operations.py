"""Compute what a reference makes of a value, by its recorded operations."""

from __future__ import annotations

from bisect import insort
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from functools import cached_property, lru_cache
from typing import final

import numpy as np

from firstdiff.errors import ReadError
from firstdiff.pairing.dataflow import Arguments
from firstdiff.pairing.fingerprints import FEWEST_DISTINCT
from firstdiff.pairing.origins import Origins
from firstdiff.pairing.strategy import Side

_MOST_OPERATIONS = 32  # that are computed from one value
_MOST_PARAMS = 24  # containers hold the weights of everything inside them
_MOST_PRODUCTS = 1 << 29  # in all
_KEPT = 256
_FEW_VALUES = 1 << 12
_WEIGHTS = frozenset({"param", "buffer"})


@final
class Operations:
    """The operations of a run, to be computed on other values; what does not come from those is as it was recorded.

    first: for each output the first one that holds the same values, such as the last function of a module
    """

    def __init__(self, side: Side, first: Mapping[int, int]) -> None:
        self._side, self._first = side, first
        self._arguments = Arguments(side, {"input", "output", *_WEIGHTS})
        self._read = lru_cache(_KEPT)(self._values)
        self._products = 0
        self._origins = Origins(side, first, self._arguments, self._read)

    def follow(self, place: int, values: np.ndarray, given: Collection[int] = ()) -> Iterator[tuple[int, np.ndarray]]:
        """Yield each tensor that is computed from one, had that one these values.

        given: tensors that are as they were recorded all the same
        """
        known = dict.fromkeys(self._copies(place), values)
        waiting, done = sorted({user for at in known for user in self._users.get(at, ())}), set[int]()
        while waiting and len(done) < _MOST_OPERATIONS:
            made = waiting.pop(0)
            if made in done or made in given or made in known:
                continue
            done.add(made)
            result = self._computed(made, known)
            if result is None:
                continue
            if np.isfinite(result).all():
                yield made, result
            for copy in self._copies(made):
                known[copy] = result
                for user in self._users.get(copy, ()):
                    if user not in done and user not in waiting:
                        insort(waiting, user)

    def of_it_alone(self, place: int) -> set[int]:
        """Return what is computed from a tensor, weights and masks, and from no other tensor."""
        found = set(self._copies(place))
        waiting, seen = sorted({user for at in found for user in self._users.get(at, ())}), set[int]()
        while waiting and len(seen) < _MOST_OPERATIONS:
            made = waiting.pop(0)
            seen.add(made)
            if all(self._is_of(argument, found) for _, argument in self._arguments.of(made)):
                found.update(self._copies(made))
                users = {user for copy in self._copies(made) for user in self._users.get(copy, ())}
                waiting = sorted({*waiting, *users} - seen)
        return found

    def _is_of(self, argument: int, known: set[int]) -> bool:
        record = self._side.tensor(argument).record
        is_given = record.role == "input" and not record.sources and self._is_plain(argument)
        return is_given or record.role in _WEIGHTS or not known.isdisjoint(self._origins.chain(argument))

    def _is_plain(self, place: int) -> bool:
        """True for numbers, masks and other tensors of few different values, whatever they are computed from."""
        values = self._read(place)
        return values is not None and len(np.unique(values.reshape(-1)[:_FEW_VALUES])) < FEWEST_DISTINCT

    def _copies(self, place: int) -> list[int]:
        """Return the outputs of one shape that hold the values of one, and itself."""
        same = self._by_value.get(self._first.get(place, place), ())
        return [place, *(at for at in same if at != place and self._shape(at) == self._shape(place))]

    def _shape(self, place: int) -> tuple[int, ...]:
        return self._side.tensor(place).values().shape

    @cached_property
    def _by_value(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = defaultdict(list)
        for place, first in self._first.items():
            found[first].append(place)
        return found

    @cached_property
    def _users(self) -> dict[int, list[int]]:
        """Outputs by the tensors that their operations take, directly or as a recorded input."""
        found: dict[int, set[int]] = defaultdict(set)
        for place, key in enumerate(self._side.keys):
            if key.role == "output":
                arguments = (at for _, argument in self._arguments.of(place) for at in self._origins.chain(argument))
                for at in {*arguments, *self._origins.chain(place)} - {place}:
                    found[at].add(place)
        return {place: sorted(users) for place, users in found.items()}

    def _computed(self, place: int, known: dict[int, np.ndarray]) -> np.ndarray | None:
        """Return the result of an operation with known values in place of the recorded ones."""
        from firstdiff.ops import NotReplayable, replay

        record = self._side.tensor(place).record
        origin = self._origins.find(place)
        if origin is not None and origin in known:
            return self._origins.seen(place, origin, known[origin])
        if record.op is None:
            return None
        inputs, is_changed = {}, False
        arguments = list(self._arguments.of(place))
        for slot, argument in arguments:
            values, changed = self._argument(argument, known)
            if values is None:
                return None
            inputs[slot] = values
            is_changed |= changed
        params = self._params(record.name, record.parent)
        size = self._side.sizes[place] or 0
        width = max((values.shape[-1] for values in inputs.values() if values.ndim), default=1)
        self._products += size * width
        if not is_changed or params is None or self._products > _MOST_PRODUCTS:
            return None
        again = replay(record.op, record.attrs, inputs, params, name=record.name)
        if isinstance(again, NotReplayable):
            # a module nobody knows may only cut its input, or change its layout
            return self._origins.seen(place, arguments[0][1], inputs[arguments[0][0]]) if len(arguments) == 1 else None
        result = again.outputs.get(record.slot)
        return result if result is not None and result.size == size else None

    def _argument(self, place: int, known: dict[int, np.ndarray]) -> tuple[np.ndarray | None, bool]:
        """Return an argument's values, and whether they are other than the recorded ones."""
        if place in known:
            return known[place], True
        origin = self._origins.find(place)
        if origin is not None:
            values, is_changed = self._argument(origin, known)
            if is_changed:
                return None if values is None else self._origins.seen(place, origin, values), True
        return self._read(place), False

    def _params(self, name: str, parent: str | None) -> dict[str, np.ndarray] | None:
        prefix = f"{name}." if parent is not None else ""
        names = [full for full in self._weights if full.startswith(prefix)]
        if len(names) > _MOST_PARAMS:
            return None
        read = ((full[len(prefix) :], self._read(self._weights[full])) for full in names)
        return {own: values for own, values in read if values is not None}

    @cached_property
    def _weights(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for place, key in enumerate(self._side.keys):
            if key.role in _WEIGHTS:
                aliases = self._side.tensor(place).record.attrs.get("aliases")
                for name in (key.name, *(aliases if isinstance(aliases, list) else ())):
                    found.setdefault(str(name), place)
        return found

    def _values(self, place: int) -> np.ndarray | None:
        try:
            return np.asarray(self._side.tensor(place).values().view())
        except ReadError:
            return None
