"""A slice of a tensor: an index or a range for every dimension."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from firstdiff.errors import UsageError
from firstdiff.trace import Source
from firstdiff.trace.slices import parse_slice


@dataclass(frozen=True, slots=True)
class Cut:
    """A slice: one index, or a range with both ends, for each dimension."""

    parts: tuple[int | range, ...]

    @classmethod
    def parse(cls, text: str, shape: tuple[int, ...]) -> Cut:
        """From `0,3,0:64,:`; UsageError says what does not fit.

        >>> Cut.parse("1,:", (2, 3)).shape
        (3,)
        """
        given = parse_slice(text, shape)
        if len(given) != len(shape) or ... in given:
            raise UsageError(
                f"the slice {text!r} must have {len(shape)} parts, one for each dimension of {list(shape)}"
            )
        parts: list[int | range] = []
        for part, length in zip(given, shape, strict=True):
            if isinstance(part, slice):
                taken = range(length)[part]
                if taken.step != 1:
                    raise UsageError(f"the slice {text!r} has a step; take every element")
                parts.append(taken)
            else:
                assert isinstance(part, int), "an ellipsis was refused above"
                parts.append(part % length)
        return cls(tuple(parts))

    @classmethod
    def whole(cls, shape: tuple[int, ...]) -> Cut:
        return cls(tuple(range(length) for length in shape))

    @property
    def shape(self) -> tuple[int, ...]:
        """Dimensions held at one index are dropped."""
        return tuple(len(part) for part in self.parts if isinstance(part, range))

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def ranges(self) -> tuple[range, ...]:
        return tuple(part for part in self.parts if isinstance(part, range))

    def narrowed(self, place: int, begin: int, end: int) -> Cut:
        """The same with only elements `begin` to `end` of one of its ranges."""
        at = [dim for dim, part in enumerate(self.parts) if isinstance(part, range)][place]
        parts = list(self.parts)
        taken = parts[at]
        assert isinstance(taken, range), "only ranges are counted"
        parts[at] = taken[begin:end]
        return Cut(tuple(parts))

    def run_in(self, shape: tuple[int, ...]) -> int | None:
        """Return the flat index of its first element in a tensor of that shape; None if it is not contiguous.

        >>> Cut.parse("1,0:2", (2, 3)).run_in((2, 3)), Cut.parse("0:2,1", (2, 3)).run_in((2, 3))
        (3, None)
        """
        start, stride, whole = 0, 1, True
        for part, length in zip(reversed(self.parts), reversed(shape), strict=True):
            taken = part if isinstance(part, range) else range(part, part + 1)
            if not whole and len(taken) != 1:
                return None
            start, stride = start + taken.start * stride, stride * length
            whole = whole and len(taken) == length
        return start

    def read(self, source: Source) -> np.ndarray:
        """The values; nothing outside them is read where the format allows it."""
        index = tuple(slice(part.start, part.stop) if isinstance(part, range) else part for part in self.parts)
        return source.read(index)
