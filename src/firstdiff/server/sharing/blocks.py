"""Select the values of a row for the offline page: all of them, or the slices shown first."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from firstdiff.server.responses import little_endian
from firstdiff.server.row_tensors import RowTensors, SideName
from firstdiff.trace import Source
from firstdiff.viewing import Cut

# of the last two dimensions; a screen shows fewer
_WINDOW = 128


@dataclass(frozen=True, slots=True)
class Block:
    """A box of a tensor on each side that is there.

    begin, shape: where the box lies; one number for each dimension
    sides: type and bytes, in C order
    """

    begin: tuple[int, ...]
    shape: tuple[int, ...]
    sides: dict[str, tuple[str, bytes]]


def blocks_of(seen: RowTensors, most_bytes: int) -> list[Block]:
    """The whole tensor if it is not larger than that, else its beginning and where the difference is largest."""
    sources = _sources(seen)
    if not sources:
        return []
    shape = next(iter(sources.values())).shape
    width = sum(source.dtype.itemsize for source in sources.values())
    if prod(shape) * width <= most_bytes:
        return [_block(sources, Cut.whole(shape))]
    metrics = seen.pair.metrics
    worst = metrics.argmax if metrics and metrics.argmax and len(metrics.argmax) == len(shape) else None
    boxes = [_box_at(place, shape) for place in (worst, (0,) * len(shape)) if place is not None]
    taken = [box for place, box in enumerate(boxes) if box not in boxes[:place]]
    return [_block(sources, box) for box in taken if box.size * width <= most_bytes]


def _sources(seen: RowTensors) -> dict[str, Source]:
    """In the layout of the comparison, or the one side that is there as it lies."""
    if seen.shape is not None:
        reference, candidate = seen.both()
        third = seen.third_aligned()
        return {"reference": reference, "candidate": candidate} | ({"third": third} if third is not None else {})
    sides: tuple[SideName, ...] = ("reference", "candidate")
    there = [side for side in sides if seen.tensor(side) is not None]
    return {side: seen.original(side) for side in there[:1]}


def _box_at(index: tuple[int, ...], shape: tuple[int, ...]) -> Cut:
    """A window of the last two dimensions around an element."""
    parts = []
    for dim, (at, length) in enumerate(zip(index, shape, strict=True)):
        wide = min(length, _WINDOW if dim >= len(shape) - 2 else 1)
        begin = min(max(at - wide // 2, 0), length - wide)
        parts.append(range(begin, begin + wide))
    return Cut(tuple(parts))


def _block(sources: dict[str, Source], cut: Cut) -> Block:
    return Block(
        begin=tuple(part.start for part in cut.ranges),
        shape=cut.shape,
        sides={side: (source.dtype.name, little_endian(cut.read(source))) for side, source in sources.items()},
    )
