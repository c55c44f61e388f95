"""Layers that are counted differently: pairs that fit by value and differ in nothing but the layer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from firstdiff.pairing.forms import Form

_FEWEST = 3


def offset_of(ours: Form, theirs: Form) -> int | None:
    """What to add to the candidate's layer; None where the two differ in more than that."""
    if not ours.layers or not theirs.layers or (ours.part, ours.tail) != (theirs.part, theirs.tail):
        return None
    return ours.layers[0] - theirs.layers[0] if ours.layers[1:] == theirs.layers[1:] else None


def propose_offset(offsets: Iterable[int | None], said: str) -> tuple[str, ...]:
    """A warning that proposes the layer offset most pairs speak for, if it is not 0 and they are enough."""
    votes = Counter(offset for offset in offsets if offset is not None)
    if not votes:
        return ()
    offset, count = votes.most_common(1)[0]
    if offset == 0 or count < _FEWEST or 2 * count <= votes.total():
        return ()
    where = f"{abs(offset)} layer{'s' if abs(offset) > 1 else ''} {'lower' if offset > 0 else 'higher'}"
    return (
        f"{count} tensors {said} of the same name {where} in the candidate; "
        f"if its layers are counted so, pass --layer-offset {offset}",
    )
