"""Find the layer number in a name: `h.3`, `layers.3`, `blk.3`, `layer_3`, `3_query`, `Qcur-3`."""

from __future__ import annotations

import re
from dataclasses import dataclass

_AFTER_A_WORD = re.compile(
    r"(?:(?:^|(?<=[^A-Za-z0-9]))(?:layers?|blocks?|blks?|resblocks)[._/\-\[]?|(?:^|(?<=[./]))h[._/])"
    r"(\d+)(?![A-Za-z0-9])",
    re.IGNORECASE,
)
_IN_FRONT = re.compile(r"(\d+)(?=[_.\- ]\D)")
_AT_THE_END = re.compile(r"(?<=[A-Za-z_])-(\d+)(?=$| \()")


@dataclass(frozen=True, slots=True)
class LayerIndex:
    """A layer's number, where its digits stand in the name, what stands before it, and what it is part of the layer."""

    layer: int
    start: int
    stop: int
    stack: str
    part: str


def layer_index(name: str, *, numbered: bool = False) -> LayerIndex | None:
    """The first layer number in a name; `numbered` says that a number in front is the place in the run instead."""
    if found := _AFTER_A_WORD.search(name):
        return LayerIndex(int(found[1]), *found.span(1), name[: found.start()], name[found.end() :])
    if not numbered and (found := _IN_FRONT.match(name)):
        return LayerIndex(int(found[1]), *found.span(1), "", name[found.end() :])
    if found := _AT_THE_END.search(name):
        return LayerIndex(int(found[1]), *found.span(1), "", name[: found.start()] + name[found.end() :])
    return None


def shifted(name: str, offset: int, *, numbered: bool = False) -> str | None:
    """The name with its layer moved; as it is where it tells none; None where the layer would be below 0."""
    index = layer_index(name, numbered=numbered) if offset else None
    if index is None:
        return name
    if index.layer + offset < 0:
        return None
    return f"{name[: index.start]}{index.layer + offset}{name[index.stop :]}"
