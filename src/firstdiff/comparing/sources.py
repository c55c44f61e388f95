"""The values of a row that was compared before: found by its keys, brought into the layout it was measured in."""

from __future__ import annotations

from collections.abc import Sequence

from firstdiff.align import Alignment
from firstdiff.errors import ReadError, UsageError
from firstdiff.schema import Pair
from firstdiff.trace import Source, Tensor, Trace

_JOINED = " + "


def tensors_named(trace: Trace, name: str) -> list[Tensor]:
    """The tensors of one side of a row; several where they were joined. ReadError where a name means two tensors."""
    try:
        return [_only(trace, name)]
    except UsageError:
        if _JOINED not in name:
            raise
    return [_only(trace, part) for part in name.split(_JOINED)]


def _only(trace: Trace, name: str) -> Tensor:
    if name in trace.repeated:
        raise ReadError(f"has more than one tensor {name!r}, which a row cannot tell apart", trace.path)
    return trace[name]


def aligned(pair: Pair, references: Sequence[Tensor], candidates: Sequence[Tensor]) -> tuple[Source, Source]:
    """Both sides in the layout in which they were measured; UsageError where nothing relates them."""
    sides = [tensor.values() for tensor in references], [tensor.values() for tensor in candidates]
    if pair.alignment is None:
        raise UsageError(f"no layout is known in which {pair.key} and its partner are alike; map them by hand")
    recipe = Alignment.parse(pair.alignment.recipe) if pair.alignment.applied else Alignment()
    return recipe.apply(*sides)
