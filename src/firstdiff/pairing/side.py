"""One trace for the strategies: the keys of its tensors, and those still free."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

from firstdiff.trace import Key, Tensor, Trace
from firstdiff.trace.order import ORDER_RULES, STAGES, layer_and_stage, rule_for

T = TypeVar("T")

_SEVERAL = 2  # steps; one alone may be any
_RANK = r"(?:[a-z]{2}[_-]?)?rank[_-]?(\d+)"
_RANK_IN_FRONT = re.compile(rf"(?:^|(?<=/)){_RANK}[/._\-]", re.IGNORECASE)
_RANK_AT_THE_END = re.compile(rf"[._\-/@]{_RANK}$", re.IGNORECASE)


@dataclass(frozen=True)
class Side:
    """A trace, and of each of its tensors the key and the number of elements; `free` ones have no partner yet.

    A rank that only the name tells (`rank0/mel`, `mel_rank0`) is in `keys` as the manifest would have it. A tensor that
    cannot be read has no number of elements.
    """

    trace: Trace
    keys: tuple[Key, ...]
    sizes: tuple[int | None, ...]
    free: tuple[int, ...]

    @classmethod
    def of(cls, trace: Trace) -> Side:
        sizes = tuple(None if tensor.source is None else tensor.source.size for tensor in trace)
        return cls(trace, tuple(ranked_key(tensor) for tensor in trace), sizes, tuple(range(len(trace))))

    def counted_as(self, other: Side) -> Side:
        """With steps counted from where the other side begins; as it is where the runs have not as many steps."""
        mine, yours = ({key.step for key in side.keys} for side in (self, other))
        if len(mine) < _SEVERAL or len(mine) != len(yours) or min(mine) == min(yours):
            return self
        moved = min(yours) - min(mine)
        return replace(self, keys=tuple(replace(key, step=key.step + moved) for key in self.keys))

    def without(self, used: Collection[int]) -> Side:
        return replace(self, free=tuple(place for place in self.free if place not in used))

    def with_free(self, released: Collection[int]) -> Side:
        """With some tensors free again."""
        return replace(self, free=tuple(sorted({*self.free, *released})))

    def all_but(self, used: Collection[int]) -> Side:
        """With everything free again except what is used."""
        return replace(self, free=tuple(place for place in range(len(self.keys)) if place not in used))

    def tensor(self, place: int) -> Tensor:
        return self.trace.tensors[place]

    def size(self, places: Iterable[int]) -> int | None:
        """Elements in all; None where one cannot be read."""
        sizes = [self.sizes[place] for place in places]
        return None if None in sizes else sum(size for size in sizes if size)

    @cached_property
    def numbered(self) -> bool:
        """True if numbers at the start of names count the tensors of the run rather than layers."""
        if self.trace.order in ORDER_RULES:
            return self.trace.order == "numbered"
        in_front = [key.name for key in self.keys if key.name[:1].isdigit()]
        stages = any(told.stage in STAGES for told in map(layer_and_stage, in_front) if told)
        return not stages and rule_for(in_front) == "numbered"

    @cached_property
    def world(self) -> int:
        """The number of ranks of the run, as far as the trace tells."""
        stated = (tensor.record.world for tensor in self.trace)
        return max([1, *stated, *(key.rank + 1 for key in self.keys)])


def ranked_key(tensor: Tensor) -> Key:
    """The key of a tensor, with a rank in its name moved to where it belongs."""
    key = tensor.key
    if key.rank:
        return key
    for pattern in (_RANK_IN_FRONT, _RANK_AT_THE_END):
        if found := pattern.search(key.name):
            rest = key.name[: found.start()] + key.name[found.end() :]
            if rest:
                return replace(key, name=rest, rank=int(found[1]))
    return key


def grouped(places: Iterable[int], identity: Iterable[T]) -> dict[T, list[int]]:
    """Places by what identifies them."""
    groups: dict[T, list[int]] = defaultdict(list)
    for place, this in zip(places, identity, strict=True):
        groups[this].append(place)
    return dict(groups)
