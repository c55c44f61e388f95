"""Parse slices as text: `0,:,3:8`."""

from __future__ import annotations

import re
from types import EllipsisType

from firstdiff.errors import UsageError

_PART = re.compile(r"\s*(-?\d+)?\s*(?:(:)\s*(-?\d+)?\s*(?:(:)\s*(-?\d+)?)?)?\s*")

Part = int | slice | EllipsisType


def parse_slice(text: str, shape: tuple[int, ...]) -> tuple[Part, ...]:
    """The index a text means for a shape; UsageError says which part does not fit.

    >>> parse_slice("0,:,3:8", (2, 4, 64))
    (0, slice(None, None, None), slice(3, 8, None))
    """
    parts = tuple(_parse(part, text) for part in text.strip().strip("[]").split(",")) if text.strip() else ()
    if parts.count(...) > 1:
        raise UsageError(f"the slice {text!r} has more than one '...'")
    given = len(parts) - parts.count(...)
    if given > len(shape):
        raise UsageError(f"the slice {text!r} has {given} parts, but the shape {list(shape)} has {len(shape)}")
    spread = parts.index(...) if ... in parts else len(parts)
    for place, part in enumerate(parts):
        if isinstance(part, int):
            dim = place if place < spread else len(shape) - len(parts) + place
            if not -shape[dim] <= part < shape[dim]:
                raise UsageError(f"the slice {text!r} asks for index {part} of dimension {dim}, which has {shape[dim]}")
    return parts


def _parse(part: str, text: str) -> Part:
    if part.strip() == "...":
        return ...
    found = _PART.fullmatch(part)
    if found is None or not part.strip():
        raise UsageError(f"the slice {text!r} has a part {part!r}; write numbers, ranges like 3:8, or ':', with commas")
    start, colon, stop, _, step = found.groups()
    if not colon:
        return int(start)
    if step == "0":
        raise UsageError(f"the slice {text!r} has a step of 0")
    return slice(*(None if number is None else int(number) for number in (start, stop, step)))
