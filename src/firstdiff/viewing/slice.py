"""Slices of tensors for display, parsed from text."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from firstdiff.errors import UsageError
from firstdiff.measure.numerics import to_numbers
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


def real(values: np.ndarray) -> np.ndarray:
    """As float64; complex values by their magnitude."""
    numbers = to_numbers(values)
    return np.abs(numbers) if numbers.dtype.kind == "c" else numbers


@np.errstate(invalid="ignore")
def difference(reference: np.ndarray, candidate: np.ndarray) -> np.ndarray:
    """Candidate - reference; 0 where both are NaN or the same infinity, the magnitude where they are complex.

    Whole numbers of 64 bits are subtracted as such: float64 would lose what they differ by.
    """
    if _needs_whole_numbers(reference, candidate):
        return np.asarray((candidate.astype(object) - reference.astype(object)).astype(np.float64))
    ref, cand = to_numbers(reference), to_numbers(candidate)
    apart = np.subtract(cand, ref)
    apart = np.abs(apart) if apart.dtype.kind == "c" else apart
    same = (ref == cand) | (np.isnan(ref) & np.isnan(cand))
    return np.where(same, 0.0, apart)


def _needs_whole_numbers(*sides: np.ndarray) -> bool:
    """Both sides are whole, and one holds numbers that float64 does not."""
    if any(side.dtype.kind not in "iub" for side in sides):
        return False
    ends = [int(end) for side in sides if side.size and side.dtype.itemsize == 8 for end in (side.min(), side.max())]
    return any(abs(end) > 2**53 for end in ends)


def weight(apart: np.ndarray) -> np.ndarray:
    """Return the magnitude of differences, infinite for NaN."""
    size = np.abs(apart)
    return np.where(np.isnan(size), np.inf, size)
