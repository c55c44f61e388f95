"""The tensors of a row, as stored in their files and in the layout in which they were compared."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Literal, final

from firstdiff.align import Alignment
from firstdiff.errors import FirstdiffError, ReadError, UsageError
from firstdiff.measure.numerics import scalar
from firstdiff.schema import Pair, TensorInfo
from firstdiff.server.cancellation import CancellableSource
from firstdiff.server.context import Context
from firstdiff.server.responses import ConflictError
from firstdiff.server.trace_cache import OpenSides
from firstdiff.trace import Source, Tensor, Trace

SideName = Literal["reference", "candidate", "third"]
Space = Literal["aligned", "original"]


@final
class RowTensors:
    """One row of a comparison; sources are opened when asked for.

    gone: set once nobody wants their values any more
    """

    def __init__(self, context: Context, comparison: str, row: int, gone: threading.Event | None = None) -> None:
        result = context.result(comparison)
        self._result = result
        self.pair: Pair = result.pair(row)
        self._third = result.third(row)
        self._gone = gone
        self._opened: OpenSides = context.opened.traces(context.store, comparison)

    def info(self, side: SideName) -> TensorInfo | None:
        return {"reference": self.pair.reference, "candidate": self.pair.candidate}.get(side)

    @property
    def equal_nan(self) -> bool:
        """True if NaN matched NaN in the comparison."""
        return bool(self._result.head()["settings"].get("equal_nan"))

    def tensor(self, side: SideName) -> Tensor | None:
        """Return the first tensor of a side; None where the row has none."""
        found = self._tensors(side)
        return found[0] if found else None

    def original(self, side: SideName) -> Source:
        """Return the source of a side as stored in its file."""
        found = self._tensors(side)
        if not found:
            raise UsageError(f"{self.pair.key} is not in the {side}")
        if len(found) > 1:
            raise UsageError(
                f"{self.pair.key} is joined of {len(found)} tensors of the {side}; look at the pair as compared"
            )
        return self._wanted(found[0].values())

    def both(self) -> tuple[Source, Source]:
        """Return the source of a side in a layout; UsageError if no recipe relates the two."""
        sides = self._tensors("reference"), self._tensors("candidate")
        if not all(sides):
            raise UsageError(f"{self.pair.key} is on one side only: there is nothing to compare it with")
        reference, candidate = aligned(self.pair, *sides)
        return self._wanted(reference), self._wanted(candidate)

    def source(self, side: SideName, space: Space) -> Source:
        if space == "original":
            return self.original(side)
        if side == "third":
            return self.third_aligned() or self.original("third")
        return self.both()[0 if side == "reference" else 1]

    def third_aligned(self) -> Source | None:
        """Return the third tensor in the layout of the other two, by the recipe of the side whose shape it has."""
        third, references, candidates = (self._tensors(side) for side in ("third", "reference", "candidate"))
        if not third or len(references) != 1 or len(candidates) != 1 or self.shape is None:
            return None
        shape = third[0].values().shape
        if shape == references[0].values().shape:
            return self._wanted(aligned(self.pair, third, candidates)[0])
        if shape == candidates[0].values().shape:
            return self._wanted(aligned(self.pair, references, third)[1])
        return None

    def third_if_readable(self) -> Source | None:
        """Return the aligned third tensor; None also where it cannot be opened."""
        try:
            return self.third_aligned()
        except FirstdiffError:
            return None

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Return the shape in which the two were compared; None if they were not."""
        if self.pair.alignment is None:
            return None
        try:
            return self.both()[0].shape
        except UsageError:
            return None

    def changed(self) -> list[str]:
        """Return the sides whose value at the largest difference has changed."""
        metrics = self.pair.metrics
        if metrics is None or metrics.argmax is None or self.shape is None:
            return []
        then = {"reference": metrics.reference_at_max, "candidate": metrics.candidate_at_max}
        now = zip(then, self.both(), strict=True)
        return [side for side, source in now if then[side] is not None and not _is(source, metrics.argmax, then[side])]

    def _wanted(self, source: Source) -> Source:
        return source if self._gone is None else CancellableSource(source, self._gone)

    def _tensors(self, side: SideName) -> list[Tensor]:
        info = self.info(side)
        keys = (self._third,) if side == "third" and self._third else keys_of(info) if info else ()
        if not keys:
            return []
        if side in self._opened.errors:
            raise ConflictError(f"the {side} cannot be opened: {self._opened.errors[side]}")
        trace = self._opened.traces.get(side) or self._opened.traces["reference"]
        try:
            found = tensors_named(trace, keys)
        except UsageError as error:
            raise ConflictError(f"the {side} has changed since it was compared: {error}; compare again") from error
        self._must_be_as_compared(side, info, found)
        return found

    def _must_be_as_compared(self, side: SideName, info: TensorInfo | None, found: list[Tensor]) -> None:
        if info is None or info.shape is None or len(found) != 1 or found[0].source is None:
            return
        if found[0].source.shape != info.shape:
            raise ConflictError(
                f"{info.name} of the {side} was {list(info.shape)} when it was compared and is "
                f"{list(found[0].source.shape)} now; compare again"
            )


def _is(source: Source, index: tuple[int, ...], then: Any) -> bool:
    """True if a value equals the recorded one; complex numbers are not recorded, and pass."""
    return not isinstance(then, int | float) or scalar(source.read(index)) == then


def keys_of(info: TensorInfo) -> tuple[str, ...]:
    """Return the keys a side is made of; results of earlier versions have the name alone."""
    return info.keys or (info.name,)


def tensors_named(trace: Trace, keys: Sequence[str]) -> list[Tensor]:
    """Return the tensors of one side of a row; ReadError where a key means two tensors."""
    repeated = next((key for key in keys if key in trace.repeated), None)
    if repeated is not None:
        raise ReadError(f"has more than one tensor {repeated!r}, which a row cannot tell apart", trace.path)
    return [trace[key] for key in keys]


def aligned(pair: Pair, references: Sequence[Tensor], candidates: Sequence[Tensor]) -> tuple[Source, Source]:
    """Return both sides in the layout in which they were measured; UsageError where nothing relates them."""
    sides = [tensor.values() for tensor in references], [tensor.values() for tensor in candidates]
    if pair.alignment is None:
        raise UsageError(f"no layout is known in which {pair.key} and its partner are alike; map them by hand")
    recipe = Alignment.parse(pair.alignment.recipe) if pair.alignment.applied else Alignment()
    return recipe.apply(*sides)
