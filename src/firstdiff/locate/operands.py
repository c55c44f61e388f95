"""Read the operands of an operation as arrays, on either side."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice, takewhile
from typing import final

import numpy as np

from firstdiff import dtypes
from firstdiff.errors import ReadError
from firstdiff.locate.graph import RowGraph
from firstdiff.locate.row import MeasuredPair
from firstdiff.trace import Record

# containers hold the weights of everything inside them; what can be computed again as a whole has few
_MOST_PARAMS = 24
# opening a file costs more than what is computed from a small one; mapped values cost no memory
_KEPT = 256


@dataclass(frozen=True, slots=True)
class Operands:
    """One side of an operation; `lost` is the key of an input that this side does not have."""

    inputs: dict[str, np.ndarray]
    lost: str | None = None
    latest: int | None = None


@final
class Values:
    """Reads rows as arrays, both sides in the reference's layout."""

    def __init__(self, graph: RowGraph) -> None:
        self._graph = graph
        held: dict[str, int] = {}
        for place, row in enumerate(graph.rows):
            if row.is_evidence and row.record is not None and row.reference and row.reference.source:
                for name in (row.record.name, *_listed(row.record, "aliases")):
                    held.setdefault(name, place)
        self._params = held
        self._reference = lru_cache(_KEPT)(self._read)
        self._laid_out = lru_cache(_KEPT)(lambda place: laid_out(graph.rows[place]))
        self._names = sorted(held)

    def slots(self, place: int) -> dict[str, int]:
        """Slot -> the row that has it, for everything that goes into the call of an output."""
        graph = self._graph
        given = ((graph.rows[at].record, at) for at in graph.calls.of(place).inputs)
        found = {record.slot: at for record, at in given if record is not None}
        record = graph.rows[place].record
        if record is None:
            return found
        views = _listed(record, "views")
        for slot, seq in zip(_listed(record, "inputs"), record.sources, strict=False):
            at = graph.through(place, seq)
            if slot not in found and slot not in views and at is not None:
                found[slot] = at
        return found

    def params(
        self, name: str, parent: str | None, rounding: np.dtype | None = None, *, as_held: bool = False
    ) -> dict[str, np.ndarray] | None:
        """The reference's parameters below a module, by the module's names; None where there are too many.

        parent: None for the model itself, whose name is no part of theirs
        rounding: the type of a candidate that may hold them in less precision
        as_held: each in the type that the candidate recorded it in, if it did
        """
        prefix = _prefix(name, parent)
        start = bisect_left(self._names, prefix)
        names = list(takewhile(lambda full: full.startswith(prefix), islice(self._names, start, None)))
        if len(names) > _MOST_PARAMS and any("." in full[len(prefix) :] for full in names):
            return None
        places = {full[len(prefix) :]: self._params[full] for full in names}
        types = {name: (self._held_in(place) if as_held else None) or rounding for name, place in places.items()}
        return {name: _held_as(self.reference(place), types[name]) for name, place in places.items()}

    def weights(self, name: str) -> list[int]:
        """Rows of the parameters a module itself holds."""
        return [self._params[full] for full in self._held_by(f"{name}.") if "weight" in full.removeprefix(f"{name}.")]

    def are_wider(self, name: str, parent: str | None, dtype: np.dtype) -> bool:
        """Return whether the candidate's module holds weights or tables in a finer type."""
        types = [self._held_in(self._params[full]) for full in self._held_by(_prefix(name, parent))]
        return any(dtypes.eps_of(held) < dtypes.eps_of(dtype) for held in types if held is not None)

    def _held_by(self, prefix: str) -> list[str]:
        """Names of the parameters and buffers that a module itself holds, by the prefix of its names."""
        start = bisect_left(self._names, prefix)
        below = takewhile(lambda full: full.startswith(prefix), islice(self._names, start, None))
        return [full for full in below if "." not in full.removeprefix(prefix)]

    def _held_in(self, place: int) -> np.dtype | None:
        candidate = self._graph.rows[place].candidate
        return candidate.source.dtype if candidate is not None and candidate.source is not None else None

    def reference(self, place: int) -> np.ndarray:
        return self._reference(place)

    def own(self, place: int) -> np.ndarray | None:
        """The candidate's values of a row itself, in the reference's layout; None where they have no such form."""
        return self._laid_out(place)

    def _read(self, place: int) -> np.ndarray:
        tensor = self._graph.rows[place].reference
        if tensor is None:
            raise ReadError("has no values")
        return tensor.values().view()

    def candidate(self, place: int) -> np.ndarray | None:
        """Return the candidate's values of a row in the reference's layout; for weights, the reference's, rounded."""
        row = self._graph.rows[place]
        if row.is_evidence:
            return _held_as(self.reference(place), self._held_in(place))
        own = self.own(place)
        return self._as_it_came(place) if own is None else own

    def candidate_operands(self, slots: dict[str, int]) -> Operands:
        found: dict[str, np.ndarray] = {}
        moments = []
        for slot, at in slots.items():
            values = self.candidate(at)
            if values is None:
                return Operands(found, lost=self._graph.rows[at].key)
            found[slot] = values
            candidate = self._graph.rows[at].candidate
            if candidate is not None and candidate.record.seq is not None and not self._graph.rows[at].is_evidence:
                moments.append(candidate.record.seq)
        return Operands(found, latest=max(moments, default=None))

    def _as_it_came(self, place: int) -> np.ndarray | None:
        """An input the candidate did not record is the tensor it came from, if that was and looks the same."""
        record = self._graph.rows[place].record
        fed = self._graph.direct[place].rows
        if record is None or record.role != "input" or len(record.sources) != 1 or len(fed) != 1:
            return None
        reference, candidate = self.reference(fed[0]), self.candidate(fed[0])
        shape = self.reference(place).shape
        if candidate is None or reference.size != np.prod(shape, dtype=np.int64):
            return None
        if record.attrs.get("view") and not np.array_equal(reference.reshape(shape), self.reference(place)):
            return None
        return candidate.reshape(shape)


def _prefix(name: str, parent: str | None) -> str:
    """Return what the names of a module's parameters begin with; the model itself is no part of them."""
    return f"{name}." if parent is not None else ""


def laid_out(row: MeasuredPair) -> np.ndarray | None:
    """The candidate's values of a row in the reference's own layout; None where it has no such form."""
    if row.sources is None or row.reference is None or row.reference.source is None:
        return None
    shape = row.reference.source.shape
    return row.sources[1].view() if row.sources[0].shape == row.sources[1].shape == shape else None


def coarsest(arrays: Sequence[np.ndarray]) -> np.dtype | None:
    """The coarsest floating type among some arrays."""
    types = [array.dtype for array in arrays if dtypes.kind_of(array.dtype) in ("float", "complex")]
    return max(types, key=dtypes.eps_of, default=None)


def _listed(record: Record, attribute: str) -> list[str]:
    """A list of names among the attributes; other recorders may mean something else by the word."""
    found = record.attrs.get(attribute)
    return [name for name in found if isinstance(name, str)] if isinstance(found, list) else []


def _held_as(values: np.ndarray, dtype: np.dtype | None) -> np.ndarray:
    """Weights as a candidate of a coarser type would hold them; those beyond its range stay: that is no rounding."""
    if dtype is None or dtypes.kind_of(values.dtype) != "float" or dtypes.kind_of(dtype) != "float":
        return values
    if dtypes.eps_of(dtype) <= dtypes.eps_of(values.dtype):
        return values
    with np.errstate(over="ignore"):
        rounded = values.astype(dtype)
    lost = np.isfinite(values) & ~np.isfinite(rounded)
    return np.where(lost, values, rounded.astype(values.dtype)) if lost.any() else rounded
