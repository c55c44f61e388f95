"""The calls that each weight of a run takes part in, of modules and of functions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import final

from firstdiff.pairing.names import op_kind
from firstdiff.pairing.strategy import Side

_WEIGHTS = frozenset({"param", "buffer"})
_PRODUCTS = frozenset({"linear", "conv"})  # a convolution over patches is a product of patches
# how a norm and a product with a bias end where they are written out
_ENDS = {"norm": frozenset({"mul", "add"}), "linear": frozenset({"add"})}


@dataclass(frozen=True, slots=True)
class Use:
    """A call that weights take part in.

    output: the tensor it gives
    kind: of its operation
    weights: by the names of its arguments
    step, rank: of the call
    """

    output: int
    kind: str | None
    weights: Mapping[str, int]
    step: int
    rank: int


@final
class WeightUses:
    """The uses of each weight of one side, in the order of the run."""

    def __init__(self, side: Side) -> None:
        self._side = side
        self._by_weight: dict[int, list[Use]] = defaultdict(list)
        self._kinds: dict[int, str | None] = {}
        for use in self._uses():
            self._kinds[use.output] = use.kind
            for weight in use.weights.values():
                self._by_weight[weight].append(use)

    def of(self, weight: int) -> list[Use]:
        """Return every call that a weight takes part in."""
        return self._by_weight.get(weight, [])

    def kind(self, output: int) -> str | None:
        """Return the kind of the operation that gives a tensor; None where no weight takes part in it."""
        return self._kinds.get(output)

    def completed(self, use: Use, others: Collection[int]) -> Use | None:
        """Return the call that ends an operation of which some weights are applied by calls of their own.

        None if one of them is applied to something else, such as a bias to a sum.

        others: the weights that belong to the operation
        """
        last, left = use, set(others) - set(use.weights.values())
        while left:
            seq = self._side.tensor(last.output).record.seq
            following = [one for weight in left for one in self.of(weight) if seq in self._sources(one)]
            if len(following) != 1:
                return None
            last = following[0]
            left -= set(last.weights.values())
        return last

    def _sources(self, use: Use) -> tuple[int, ...]:
        return self._side.tensor(use.output).record.sources

    def _uses(self) -> Iterator[Use]:
        modules = self._weights_of_modules()
        weight_of = {key.name: at for at, key in enumerate(self._side.keys) if key.role in _WEIGHTS}
        known = {
            key.name
            for key, tensor in zip(self._side.keys, self._side.trace, strict=True)
            if key.role == "output" and not tensor.record.is_function and op_kind(tensor.record.op) is not None
        }
        for place, (key, tensor) in enumerate(zip(self._side.keys, self._side.trace, strict=True)):
            record = tensor.record
            if key.role != "output" or key.slot != "0":
                continue
            if record.is_function:
                params = record.attrs.get("params")
                named = params if isinstance(params, dict) and record.parent not in known else {}
                weights = {str(slot): weight_of[name] for slot, name in named.items() if name in weight_of}
            else:
                weights = modules.get(key.name, {}) if key.name in known else {}
            if weights:
                yield Use(place, _kind(record.op), weights, key.step, key.rank)

    def _weights_of_modules(self) -> dict[str, dict[str, int]]:
        found: dict[str, dict[str, int]] = defaultdict(dict)
        for place, key in enumerate(self._side.keys):
            if key.role in _WEIGHTS:
                module, _, name = key.name.rpartition(".")
                found[module][name] = place
        return found


def _kind(op: str | None) -> str | None:
    kind = "linear" if op == "einsum" else op_kind(op)
    return "linear" if kind in _PRODUCTS else kind


def are_one_operation(one: Use, other: Use) -> bool:
    """True for calls of one kind; one of them may be the last of several that together are the other."""
    if one.kind is None or other.kind is None:
        return False
    ends = _ENDS.get(one.kind, frozenset()), _ENDS.get(other.kind, frozenset())
    return one.kind == other.kind or other.kind in ends[0] or one.kind in ends[1]
