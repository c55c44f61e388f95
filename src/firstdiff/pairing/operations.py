"""Compute what a reference makes of a value, by its recorded operations."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, final

import numpy as np

from firstdiff.errors import ReadError
from firstdiff.pairing.dataflow import Arguments
from firstdiff.pairing.fingerprints import FEWEST_DISTINCT
from firstdiff.pairing.strategy import Side
from firstdiff.trace import ArraySource
from firstdiff.trace.views import view_of

if TYPE_CHECKING:
    from firstdiff.align import Alignment

_MOST_OPERATIONS = 32  # that are computed from one value
_MOST_PARAMS = 24  # containers hold the weights of everything inside them
_MOST_PRODUCTS = 1 << 29  # in all
_KEPT = 256
_RECENT = 8  # outputs of its size that an input may be a copy of
_LARGEST_COPY = 1 << 20
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
        self._origins: dict[int, int | None] = {}
        self._layouts: dict[tuple[tuple[int, ...], tuple[int, ...]], list[Alignment]] = defaultdict(list)
        self._views: dict[tuple[int, int], Callable[[np.ndarray], np.ndarray] | None] = {}

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
        return is_given or record.role in _WEIGHTS or not known.isdisjoint(self._views_of(argument))

    def _is_plain(self, place: int) -> bool:
        """True for numbers, masks and other tensors of few different values, whatever they are computed from."""
        values = self._read(place)
        return values is not None and len(np.unique(values.reshape(-1)[:_FEW_VALUES])) < FEWEST_DISTINCT

    def _views_of(self, place: int) -> Iterator[int]:
        """Yield a tensor, the one that it is a view of, and so on."""
        at: int | None = place
        while at is not None:
            yield at
            at = self._origin(at)

    def _origin(self, place: int) -> int | None:
        """Return the tensor that an input, or what a module gives, is, or is a view or a copy in another order of."""
        if place not in self._origins:
            self._origins[place] = self._find_origin(place)
        return self._origins[place]

    def _find_origin(self, place: int) -> int | None:
        record, size = self._side.tensor(place).record, self._side.sizes[place] or 0
        is_made = record.role != "input" and (record.is_function or self._is_copy(place))
        if record.sources or is_made or not 1 < size <= _LARGEST_COPY:
            return self._arguments.origin(place)
        # a copy in another layout is a tensor of its own, of which no record says what it was made of
        before = bisect_left(self._outputs[size], place)
        given = self._read(place)
        for at in reversed(self._outputs[size][max(before - _RECENT, 0) : before]):
            made = self._read(at)
            if made is not None and given is not None and _are_one(made, given):
                return at
        if given is None or record.role != "input" or record.parent is None:
            return None
        inner = self._made_in[record.parent]
        for at in reversed(inner[max(bisect_left(inner, place) - _RECENT, 0) : bisect_left(inner, place)]):
            made = self._read(at)  # a part of it, or heads that are repeated
            if made is not None and made.size != size and _gathered(made, given) is not None:
                return at
        return None

    @cached_property
    def _made_in(self) -> dict[str, list[int]]:
        """Outputs by the module whose code made them."""
        found: dict[str, list[int]] = defaultdict(list)
        for place, key in enumerate(self._side.keys):
            parent = self._side.tensor(place).record.parent
            if key.role == "output" and parent is not None:
                found[parent].append(place)
        return found

    @cached_property
    def _outputs(self) -> dict[int, list[int]]:
        """Outputs by their size."""
        found: dict[int, list[int]] = defaultdict(list)
        for place, key in enumerate(self._side.keys):
            if key.role == "output":
                found[self._side.sizes[place] or 0].append(place)
        return found

    def _is_copy(self, place: int) -> bool:
        """True for an output that holds the values of an earlier one of its shape, as that of a module's last part."""
        return self._first.get(place, place) != place and self._shape(place) == self._shape(self._first[place])

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
                arguments = (at for _, argument in self._arguments.of(place) for at in self._views_of(argument))
                for at in {*arguments, *self._views_of(place)} - {place}:
                    found[at].add(place)
        return {place: sorted(users) for place, users in found.items()}

    def _computed(self, place: int, known: dict[int, np.ndarray]) -> np.ndarray | None:
        """Return the result of an operation with known values in place of the recorded ones."""
        from firstdiff.ops import NotReplayable, replay

        record = self._side.tensor(place).record
        origin = self._origin(place)
        if origin is not None and origin in known:
            return self._seen(place, origin, known[origin])
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
            return self._seen(place, arguments[0][1], inputs[arguments[0][0]]) if len(arguments) == 1 else None
        result = again.outputs.get(record.slot)
        return result if result is not None and result.size == size else None

    def _argument(self, place: int, known: dict[int, np.ndarray]) -> tuple[np.ndarray | None, bool]:
        """Return an argument's values, and whether they are other than the recorded ones."""
        if place in known:
            return known[place], True
        origin = self._origin(place)
        if origin is not None:
            values, is_changed = self._argument(origin, known)
            if is_changed:
                return None if values is None else self._seen(place, origin, values), True
        return self._read(place), False

    def _seen(self, place: int, origin: int, values: np.ndarray) -> np.ndarray | None:
        """Return the view that a tensor is of another, of other values of that one."""
        if (place, origin) not in self._views:
            source, recorded = self._read(origin), self._read(place)
            if source is not None and recorded is not None:
                seen = view_of(source, recorded) or _gathered(source, recorded)
                self._views[place, origin] = seen or self._rearranged(source, recorded)
            else:
                self._views[place, origin] = None
        seen = self._views[place, origin]
        return None if seen is None else seen(values.reshape(self._shape(origin)))

    def _rearranged(self, source: np.ndarray, view: np.ndarray) -> Callable[[np.ndarray], np.ndarray] | None:
        """Find the layout that makes a tensor of another, such as heads that are folded into the batch."""
        from firstdiff.align import solve

        if source.size != view.size:
            return None
        hints = self._layouts[source.shape, view.shape]
        alignment = solve(ArraySource(view), ArraySource(source), hints=hints).alignment
        if alignment is None or alignment.reference or not np.array_equal(_laid_out(alignment, source), view):
            return None
        if alignment not in hints:
            hints.append(alignment)
        return lambda values: _laid_out(alignment, values)

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


def _laid_out(alignment: Alignment, values: np.ndarray) -> np.ndarray:
    return alignment.candidate.apply([ArraySource(values)]).read()


def _gathered(source: np.ndarray, view: np.ndarray) -> Callable[[np.ndarray], np.ndarray] | None:
    """Find how a tensor takes its elements from another, no two of which are equal: any order, any part, repeated."""
    if source.dtype != view.dtype or source.dtype.kind != "f" or not 1 < source.size <= _LARGEST_COPY:
        return None
    flat = source.reshape(-1)
    order = np.argsort(flat)
    ordered = flat[order]
    if (ordered[1:] == ordered[:-1]).any():
        return None
    at = np.minimum(np.searchsorted(ordered, view.reshape(-1)), flat.size - 1)
    if not np.array_equal(ordered[at], view.reshape(-1)):
        return None
    index = order[at].reshape(view.shape)
    return lambda values: np.asarray(values.reshape(-1)[index])


def _are_one(made: np.ndarray, given: np.ndarray) -> bool:
    """True if two tensors hold the same values, in whatever order, which are not all the same few."""
    if made.dtype != given.dtype or made.dtype.kind in "iubc" or made.min() != given.min() or made.max() != given.max():
        return False
    one, other = np.sort(made, axis=None), np.sort(given, axis=None)
    return bool(one[0] < one[-1] and np.array_equal(one, other))
