"""Find the tensor that a recorded input, or what a module gives, is a view or a rearranged copy of."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, final

import numpy as np

from firstdiff.pairing.dataflow import Arguments
from firstdiff.pairing.strategy import Side
from firstdiff.trace import ArraySource
from firstdiff.trace.views import view_of

if TYPE_CHECKING:
    from firstdiff.align import Alignment

_MOST_INNER = 24  # outputs of the same code that an input may be a part or a repetition of
_RECENT = 8  # outputs of its size that an input may be a copy of
_LARGEST_COPY = 1 << 20
_MOST_SEARCHED = 1 << 27  # elements in all
_FEW = 4

View = Callable[[np.ndarray], np.ndarray]


@final
class Origins:
    """The tensors that others are views or copies of, by the records where they tell, else by values.

    first: for each output the first one that holds the same values
    read: gives the values of a tensor; None if it cannot be read
    """

    def __init__(
        self, side: Side, first: Mapping[int, int], arguments: Arguments, read: Callable[[int], np.ndarray | None]
    ) -> None:
        self._side, self._first, self._arguments, self._read = side, first, arguments, read
        self._known: dict[int, int | None] = {}
        self._searched = 0
        self._layouts: dict[tuple[tuple[int, ...], tuple[int, ...]], list[Alignment]] = defaultdict(list)
        self._views: dict[tuple[int, int], View | None] = {}

    def chain(self, place: int) -> Iterator[int]:
        """Yield a tensor, the one that it is a view of, and so on."""
        at: int | None = place
        while at is not None:
            yield at
            at = self.find(at)

    def find(self, place: int) -> int | None:
        """Return the tensor that an input, or what a module gives, is, or is a view or a copy in another order of."""
        if place not in self._known:
            self._known[place] = self._find_origin(place)
        return self._known[place]

    def _find_origin(self, place: int) -> int | None:
        record, size = self._side.tensor(place).record, self._side.sizes[place] or 0
        is_made = record.role != "input" and (record.is_function or self._is_copy(place))
        if record.sources or is_made or not 1 < size <= _LARGEST_COPY:
            return self._arguments.origin(place)
        # a copy in another layout is a tensor of its own, of which no record says what it was made of
        given = self._read(place)
        if given is None:
            return None
        for at, made in self._before(place, self._outputs[size], _RECENT):
            if _are_one(made, given):
                return at
        inner = self._made_in[record.parent] if record.role == "input" and record.parent is not None else ()
        for at, made in self._before(place, inner, _MOST_INNER):
            if made.size != size and _gathered(made, given) is not None:  # a part of it, or heads that are repeated
                return at
        return None

    def _before(self, place: int, places: Sequence[int], count: int) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the last of some tensors before one, the nearest first, as long as there is time to read them."""
        end = bisect_left(places, place)
        for at in reversed(places[max(end - count, 0) : end]):
            size = self._side.sizes[at] or 0
            self._searched += size
            if size <= _LARGEST_COPY and self._searched <= _MOST_SEARCHED:
                made = self._read(at)
                if made is not None:
                    yield at, made

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

    def seen(self, place: int, origin: int, values: np.ndarray) -> np.ndarray | None:
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

    def _rearranged(self, source: np.ndarray, view: np.ndarray) -> View | None:
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

    def _shape(self, place: int) -> tuple[int, ...]:
        return self._side.tensor(place).values().shape


def _laid_out(alignment: Alignment, values: np.ndarray) -> np.ndarray:
    return alignment.candidate.apply([ArraySource(values)]).read()


def _gathered(source: np.ndarray, view: np.ndarray) -> View | None:
    """Find how a tensor takes its elements from another, no two of which are equal: any order, any part, repeated."""
    if source.dtype != view.dtype or source.dtype.kind != "f" or not 1 < source.size <= _LARGEST_COPY:
        return None
    if not np.isin(view.reshape(-1)[:_FEW], source).all():
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
