"""Pair each tensor of a torch run with its value in an ONNX graph."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import final

import numpy as np

from firstdiff import dtypes
from firstdiff.trace import Record, Tensor, Trace
from firstdiff.workflows.onnx_export import ModuleValues

# a value this near, as a share of its length, is the same one whatever it is called
_SAME = 1e-2
_RIGHT = 1e-5  # what rounding leaves of a module's output
_RIGHT_HALF = 8.0  # the same in eps of types with fewer digits
_COMPARED = 1 << 16  # elements


@final
class ModulePairing:
    """Finds values for what modules give and take: as the export says, else by where they are and what they hold.

    number: of each value of the graph, its line in the trace
    """

    def __init__(self, torch: Trace, graph: Trace, known: ModuleValues) -> None:
        self._torch = torch
        self._known = known
        self._values = [item for item in graph if item.record.role in ("output", "input") and item.key.slot == "0"]
        self._by_name = {item.name: item for item in self._values}
        self._by_shape: defaultdict[tuple[int, ...], list[Tensor]] = defaultdict(list)
        for item in self._values:
            self._by_shape[item.values().shape].append(item)
        self._number = {id(item): number for number, item in enumerate(graph)}
        self._found: dict[int, Tensor] = {}

    def records(self) -> list[tuple[Record, int]]:
        """Lines to add to the graph's trace: the torch run's names for its values, and the number of each value."""
        outputs = [item for item in self._torch if item.record.role == "output"]
        for item in outputs:
            self._settle(item, self._stated(item, outputs))
        for way in (self._equal, self._by_content, self._between):
            for item in outputs:
                if item.record.seq not in self._found:
                    self._settle(item, way(item, outputs))
        for item in self._torch:
            if item.record.role == "input":
                self._settle(item, self._input(item, outputs))
        chosen = [(item, self._found[item.record.seq]) for item in self._torch if item.record.seq in self._found]
        return [(_named(item.record, value.record), self._number[id(value)]) for item, value in chosen]

    def _settle(self, item: Tensor, value: Tensor | None) -> None:
        value = self._made_real(item, value)
        if value is not None and item.record.seq is not None and value.values().shape == item.values().shape:
            self._found[item.record.seq] = value

    def _made_real(self, item: Tensor, value: Tensor | None) -> Tensor | None:
        """Where a quantised graph has whole numbers for a value, the real ones made of them; None without any."""
        if value is None or dtypes.kind_of(value.values().dtype) == dtypes.kind_of(item.values().dtype):
            return value
        later = (other for other in self._values if other.record.op == "DequantizeLinear")
        return next((other for other in later if value.record.seq in other.record.sources[:1]), None)

    def _stated(self, item: Tensor, outputs: Sequence[Tensor]) -> Tensor | None:
        """The value that the export has for an output."""
        name = item.name if not item.record.call else f"{item.name}@{item.record.call}"
        names = [value for value in self._known.outputs.get(name, ()) if value in self._by_name]
        own = [other for other in outputs if (other.name, other.record.call) == (item.name, item.record.call)]
        if len(names) == len(own):
            value = self._by_name[names[own.index(item)]]
            unsure = name in self._known.unsure and distance(item, value) >= _rounding(value)
            return None if unsure else value
        shaped = [self._by_name[name] for name in names if self._by_name[name].values().shape == item.values().shape]
        return shaped[0] if len(shaped) == 1 == len(own) else None

    def _equal(self, item: Tensor, _outputs: Sequence[Tensor]) -> Tensor | None:
        """The value that holds the same but for rounding."""
        alike = [(distance(item, value), value) for value in self._by_shape[item.values().shape]]
        far, value = min(alike, key=lambda pair: pair[0], default=(np.inf, None))
        return value if value is not None and far <= _rounding(value) else None

    def _by_content(self, item: Tensor, outputs: Sequence[Tensor]) -> Tensor | None:
        """The value that holds nearly the same; none where it is only similar, and what comes next is right.

        A value that another tensor has is only similar to this one, unless they are equal: layers change little.
        """
        alike = [(distance(item, value), value) for value in self._by_shape[item.values().shape]]
        claimed = {id(value) for value in self._found.values()}
        near = [(far, value) for far, value in alike if far < (_rounding(value) if id(value) in claimed else _SAME)]
        if not near:
            return None
        far, value = min(near, key=lambda pair: pair[0])
        return None if far > _rounding(value) and self._is_right_around(item, _later(item, outputs)) else value

    def _between(self, item: Tensor, outputs: Sequence[Tensor]) -> Tensor | None:
        """The last value of its shape between its neighbours' values; none where the module around it is right.

        Then the value was folded into a constant or fused, and another one in its place would be called wrong.
        """
        if self._is_right_around(item, _later(item, outputs)):
            return None
        parent = item.name.rpartition(".")[0]
        elsewhere = [other for other in outputs if other is item or other.name.rpartition(".")[0] != parent]
        return self._last_between(item, outputs) or self._last_between(item, elsewhere, unclaimed=True)

    def _last_between(self, item: Tensor, outputs: Sequence[Tensor], *, unclaimed: bool = False) -> Tensor | None:
        """The last value of a tensor's shape between those of its neighbours; siblings may be computed in any order."""
        place = next(number for number, other in enumerate(outputs) if other is item)
        before = [self._found[other.record.seq] for other in outputs[:place] if other.record.seq in self._found]
        after = [self._found[other.record.seq] for other in outputs[place + 1 :] if other.record.seq in self._found]
        low = max((value.record.seq or 0 for value in before), default=-1)
        high = min((value.record.seq or 0 for value in after if (value.record.seq or 0) > low), default=1 << 62)
        claimed = {id(value) for value in self._found.values()} if unclaimed else set()
        shaped = (value for value in self._by_shape[item.values().shape] if id(value) not in claimed)
        there = [value for value in shaped if low < (value.record.seq or 0) < high]
        return there[-1] if there else None

    def _is_right_around(self, item: Tensor, later: Sequence[Tensor]) -> bool:
        """True if the next module around a tensor's own, or that it goes into, gives what the graph has for it."""
        around = (other for other in later if not other.name or f"{item.name}.".startswith(f"{other.name}."))
        known = next((other for other in around if other.record.seq in self._found), None)
        known = known or next((other for other in reversed(later) if other.record.seq in self._found), None)
        if known is None:
            return False
        value = self._found[known.record.seq or 0]
        return distance(known, value) < _rounding(value)

    def _input(self, item: Tensor, outputs: Sequence[Tensor]) -> Tensor | None:
        """The value of the tensor that an input is, the one that the export says, or the one that holds the same."""
        sources = item.record.sources
        if len(sources) == 1 and not item.record.attrs.get("view") and sources[0] in self._found:
            return self._found[sources[0]]
        same = self._by_content(item, outputs)
        if same is not None:
            return same
        names = [name for name in self._known.inputs.get(item.name, ()) if name in self._by_name]
        shaped = [self._by_name[name] for name in names if self._by_name[name].values().shape == item.values().shape]
        return shaped[0] if len(shaped) == 1 else None


def _later(item: Tensor, outputs: Sequence[Tensor]) -> list[Tensor]:
    return [other for other in outputs if (other.record.seq or 0) > (item.record.seq or 0)]


def _rounding(value: Tensor) -> float:
    """What rounding leaves of a module's output that the graph has in this type, as a share of its length."""
    return max(_RIGHT, _RIGHT_HALF * dtypes.eps_of(value.values().dtype))


def distance(one: Tensor, two: Tensor) -> float:
    """The length of the difference of two tensors of one shape, as a share of the first one's; of large ones a part."""
    reference, candidate = one.values(), two.values()
    if dtypes.kind_of(reference.dtype) != dtypes.kind_of(candidate.dtype) or not reference.size:
        return float("inf")
    step = max(1, reference.size // _COMPARED)
    a = dtypes.doubles(reference.view().reshape(-1)[::step])
    b = dtypes.doubles(candidate.view().reshape(-1)[::step])
    with np.errstate(all="ignore"):
        gap = np.linalg.norm(np.nan_to_num(a - b))
        length = np.linalg.norm(np.nan_to_num(a))
    if not np.array_equal(np.isfinite(a), np.isfinite(b)):
        return float("inf")
    return 0.0 if gap == 0 else float(gap / length) if length else float("inf")


def _named(record: Record, value: Record) -> Record:
    """A torch run's name for a value; the value's own record tells where in the graph it is."""
    about = {name: value.attrs[name] for name in ("node", "module", "source") if name in value.attrs}
    return replace(
        record, seq=value.seq, sources=(), floor=None, attrs={"value": value.name, "node_op": value.op, **about}
    )
