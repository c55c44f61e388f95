"""`[:, 8:16]`: a part of a tensor, in the notation of slices."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import final

import numpy as np

from firstdiff.align.notation import Shape
from firstdiff.align.steps import Step
from firstdiff.align.tiled import Tiled
from firstdiff.errors import UsageError

_RANGE = re.compile(r"(?P<start>-?\d+)?\s*:\s*(?P<stop>-?\d+)?")

Part = slice | int | None  # None stands for `...`


@final
@dataclass(frozen=True, slots=True)
class Crop(Step):
    """Ranges keep their axis, numbers drop it; steps between the elements are not taken."""

    parts: tuple[Part, ...]

    @classmethod
    def parse(cls, text: str) -> Crop:
        words = text.strip()[1:-1].split(",")
        parts = tuple(_parse_part(word.strip(), text.strip()) for word in words)
        if parts.count(None) > 1:
            raise UsageError(f"{text.strip()!r} has ... twice; once is enough")
        return cls(parts)

    @classmethod
    def along(cls, axis: int, start: int, stop: int) -> Crop:
        """A range of one axis, all of the others."""
        return cls((slice(None),) * axis + (slice(start, stop),))

    def __str__(self) -> str:
        return "[" + ", ".join(_write_part(part) for part in self.parts) + "]"

    @property
    def moves(self) -> tuple[str, ...]:
        return ("crop",)

    def shape(self, shape: Shape) -> Shape:
        ranges = self.ranges(shape)
        return tuple(stop - start for start, stop, kept in ranges if kept)

    def pull(self, shape: Shape, flat: np.ndarray) -> np.ndarray:
        ranges = self.ranges(shape)
        rest, source, stride = flat, np.zeros_like(flat), 1
        for (start, stop, _), length in zip(reversed(ranges), reversed(shape), strict=True):
            rest, digit = np.divmod(rest, max(stop - start, 1))
            source = source + (digit + start) * stride
            stride *= length
        return source

    def view(self, tensor: Tiled) -> Tiled | None:
        ranges = self.ranges(tensor.shape)
        refined = tensor.refined(tensor.shape)
        if refined is None:
            return None
        cropped, groups = refined
        for (start, stop, _), group, length in reversed(list(zip(ranges, groups, tensor.shape, strict=True))):
            if stop - start == length:
                continue
            inner = length // cropped.axes[group[0]]
            if start % inner or stop % inner:
                return None
            cropped = cropped.cropped(group[0], start // inner, stop // inner)
        return cropped.shaped(self.shape(tensor.shape))

    def ranges(self, shape: Shape) -> list[tuple[int, int, bool]]:
        """First, end, and whether the axis is kept, for every axis."""
        missing = len(shape) - sum(part is not None for part in self.parts)
        if missing < 0:
            raise UsageError(
                f"'{self}' names {len(shape) - missing} axes, but the tensor has {len(shape)}: {list(shape)}"
            )
        at = self.parts.index(None) if None in self.parts else len(self.parts)
        parts = [*self.parts[:at], *(slice(None),) * missing, *self.parts[at + 1 :]]
        return [self._range(part, axis, shape) for axis, part in enumerate(parts)]

    def _range(self, part: Part, axis: int, shape: Shape) -> tuple[int, int, bool]:
        length = shape[axis]
        kept = isinstance(part, slice)
        asked = part if isinstance(part, slice) else slice(part, None if part == -1 else (part or 0) + 1)
        bounds = [bound for bound in (asked.start, asked.stop) if bound is not None]
        start, stop, _ = asked.indices(length)
        if any(not -length <= bound <= length for bound in bounds) or start > stop or (not kept and start == stop):
            raise UsageError(f"'{self}' reaches outside axis {axis} of {list(shape)}, which has {length} elements")
        return start, stop, kept


def _parse_part(word: str, text: str) -> Part:
    if word == "...":
        return None
    if re.fullmatch(r"-?\d+", word):
        return int(word)
    found = _RANGE.fullmatch(word)
    if found is None:
        raise UsageError(f"{word!r} in {text!r} is no range; write 8:16, :16, 8:, : or a number")
    start, stop = (int(found[key]) if found[key] else None for key in ("start", "stop"))
    return slice(start, stop)


def _write_part(part: Part) -> str:
    if isinstance(part, slice):
        return f"{'' if part.start is None else part.start}:{'' if part.stop is None else part.stop}"
    return "..." if part is None else str(part)
