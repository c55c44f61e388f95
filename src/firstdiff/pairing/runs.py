"""Pair runs of one model on the same text split differently: cached steps, a row of a batch, other padding.

The relation is read from the inputs of the runs, which must agree exactly.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from firstdiff.errors import ReadError
from firstdiff.pairing.side import Side
from firstdiff.pairing.strategy import Findings, Proposal, Situation, Strategy
from firstdiff.trace import Key

_MOST_VALUES = 1 << 20  # of an input that is read to tell the relation
_CONFIDENCE = 0.97
_EXECUTED = frozenset({"input", "output"})

Shape = tuple[int, ...]
Two = tuple[int, int]


def _propose(situation: Situation) -> Findings:
    sides = situation.reference, situation.candidate
    for find in (_steps_of_one, _row_of_batch, _other_padding):
        found = find(*sides)
        if found is not None:
            return found
    return Findings()


def _steps_of_one(reference: Side, candidate: Side) -> Findings | None:
    """Several steps with a cache, where the other side ran all tokens at once."""
    ours, theirs = _by_key(reference), _by_key(candidate)
    steps = len({key.step for key in reference.keys}), len({key.step for key in candidate.keys})
    if 1 not in steps or steps == (1, 1):
        return None
    flip = steps[0] > 1
    whole_side, part_side = (candidate, reference) if flip else (reference, candidate)
    whole, parts = (theirs, ours) if flip else (ours, theirs)
    shared = [key for key in whole if key in parts and len(whole[key]) == 1]
    if not any(_are_joined_tokens(whole_side, whole[key][0], part_side, parts[key]) for key in shared):
        return None
    proposals, apart = [], (set[int](), set[int]())
    for key in shared:
        chosen = _joined(whole_side, whole[key][0], part_side, parts[key])
        if chosen is not None:
            places, axis = chosen
            recipe = None if axis is None else f"concat(axis={axis})"
            proposals.append(_oriented((whole[key][0],), places, recipe, flip=flip))
        used = chosen[0] if chosen else ()
        lone = [place for place in parts[key] if place not in used]
        apart[1 if flip else 0].update(() if chosen else whole[key])
        apart[0 if flip else 1].update(lone)
    who, other = ("reference", "candidate") if flip else ("candidate", "reference")
    text = (
        f"the {who} ran in {max(steps)} steps what the {other} ran in one; its steps were put together, token by token"
    )
    return Findings(proposals, (text,), (frozenset(apart[0]), frozenset(apart[1])))


def _oriented(whole: tuple[int, ...], parts: tuple[int, ...], recipe: str | None, *, flip: bool) -> Proposal:
    why = "steps of a run, put together"
    if flip:
        return Proposal(parts, whole, _CONFIDENCE, why=why, recipe=recipe and f"reference: {recipe}")
    return Proposal(whole, parts, _CONFIDENCE, why=why, recipe=recipe)


def _joined(whole: Side, place: int, parts: Side, places: Sequence[int]) -> tuple[tuple[int, ...], int | None] | None:
    """Return the steps that make a tensor up and the axis to join them along; the last alone where it grew to it."""
    shape, shapes = _shape(whole, place), [_shape(parts, at) for at in places]
    if shape is None or None in shapes or len(places) < 2:
        return None
    known = [one for one in shapes if one is not None]
    axes = {axis for one in known for axis in _differing(shape, one)}
    if any(len(one) != len(shape) for one in known) or len(axes) > 1:
        return None
    if not axes:  # a table that every step makes anew
        return (places[0],), None
    axis = axes.pop()
    if sum(one[axis] for one in known) == shape[axis]:
        return tuple(places), axis
    return ((places[-1],), None) if known[-1] == shape else None


def _are_joined_tokens(whole: Side, place: int, parts: Side, places: Sequence[int]) -> bool:
    """True for ids given to the model, all at once or part by part."""
    if whole.keys[place].role != "input" or not _is_index(whole, place):
        return False
    found = _joined(whole, place, parts, places)
    if found is None or found[1] is None:
        return False
    values = [_values(parts, at) for at in found[0]]
    wanted = _values(whole, place)
    if wanted is None or any(one is None for one in values):
        return False
    return np.ptp(wanted) > 0 and np.array_equal(
        np.concatenate([one for one in values if one is not None], found[1]), wanted
    )


def _row_of_batch(reference: Side, candidate: Side) -> Findings | None:
    """One text, where the other side ran it in a batch."""
    pairs = list(_same_keys(reference, candidate))
    given = [(place, other) for place, other in pairs if _is_given(reference, place) and _is_given(candidate, other)]
    lengths = {
        (mine[0], yours[0])
        for place, other in given
        if (mine := _shape(reference, place)) and (yours := _shape(candidate, other)) and mine[1:] == yours[1:]
    }
    batches = [two for two in lengths if 1 in two and two != (1, 1)]
    if len(batches) != 1 or lengths - {batches[0], (1, 1)}:
        return None
    flip, count = batches[0][1] == 1, max(batches[0])
    rows = set(range(count))
    for place, other in given:
        ours, theirs = _values(reference, place), _values(candidate, other)
        if ours is None or theirs is None or ours.shape[:1] == theirs.shape[:1]:
            continue
        alone, batch = (theirs, ours) if flip else (ours, theirs)
        rows &= {row for row in rows if np.array_equal(batch[row], alone[0])}
    if len(rows) != 1:
        return None
    row = rows.pop()
    proposals = []
    for place, other in pairs:
        mine, yours = _shape(reference, place), _shape(candidate, other)
        if mine is None or yours is None or mine == yours or len(mine) != len(yours):
            continue
        small, large = (yours, mine) if flip else (mine, yours)
        axes = _differing(small, large)
        if len(axes) == 1 and large[axes[0]] == count * small[axes[0]]:
            size = small[axes[0]]
            crop = _cut(axes[0], row * size, (row + 1) * size)
            recipe = f"reference: {crop}" if flip else crop
            proposals.append(Proposal((place,), (other,), _CONFIDENCE, why="a row of a batch", recipe=recipe))
    who, whole = ("candidate", "reference") if flip else ("reference", "candidate")
    text = f"the {who} ran row {row} of the {whole}'s batch of {count} alone; that row was compared"
    return Findings(proposals, (text,))


def _other_padding(reference: Side, candidate: Side) -> Findings | None:
    """The same tokens with padding before them on one side and behind them on the other."""
    pairs = [two for two in _same_keys(reference, candidate) if _shape(reference, two[0]) == _shape(candidate, two[1])]
    given = [two for two in pairs if _is_given(reference, two[0]) and _is_index(reference, two[0])]
    spans = {spans for two in given if (spans := _spans(reference, candidate, two))}
    if len(spans) != 1:
        return None
    (ours, theirs), tokens = next(iter(spans))
    if not any(_hold_the_same(reference, candidate, two, ours, theirs, tokens) for two in given):
        return None
    proposals = []
    for place, other in pairs:
        shape = _shape(reference, place) or ()
        axes = [axis for axis, length in enumerate(shape) if length == tokens]
        if axes and not _are_equal(reference, place, candidate, other):
            cuts = (", ".join(_range(axis in axes, span) for axis in range(max(axes) + 1)) for span in (ours, theirs))
            recipe = "reference: [{}]; candidate: [{}]".format(*cuts)
            proposals.append(
                Proposal((place,), (other,), _CONFIDENCE, why="the tokens that are no padding", recipe=recipe)
            )
    where = ["before" if span[0] else "behind" for span in (ours, theirs)]
    text = f"the reference has padding {where[0]} the text, the candidate {where[1]} it; the text alone was compared"
    return Findings(proposals, (text,))


def _spans(reference: Side, candidate: Side, two: Two) -> tuple[tuple[Two, Two], int] | None:
    """Return where each side's mask, the same for every row, has its tokens."""
    masks = _values(reference, two[0]), _values(candidate, two[1])
    found = []
    for mask in masks:
        if mask is None or mask.ndim != 2 or not np.isin(mask, (0, 1)).all() or (mask != mask[:1]).any():
            return None
        kept = np.flatnonzero(mask[0])
        if not kept.size or kept[-1] - kept[0] + 1 != kept.size or kept.size == mask.shape[1]:
            return None
        found.append((int(kept[0]), int(kept[-1]) + 1))
    same = found[0] == found[1] or found[0][1] - found[0][0] != found[1][1] - found[1][0]
    return None if same or masks[0] is None else ((found[0], found[1]), masks[0].shape[1])


def _hold_the_same(reference: Side, candidate: Side, two: Two, ours: Two, theirs: Two, tokens: int) -> bool:
    """True for ids that are the same where the masks have tokens, and nothing but one id elsewhere."""
    one, other = _values(reference, two[0]), _values(candidate, two[1])
    if one is None or other is None or one.ndim != 2 or one.shape[1] != tokens:
        return False
    text = one[:, slice(*ours)]
    return np.ptp(text) > 1 and np.array_equal(text, other[:, slice(*theirs)])


def _are_equal(reference: Side, place: int, candidate: Side, other: int) -> bool:
    """True for what does not depend on the text, such as places counted from the first token of all."""
    one, yours = _values(reference, place), _values(candidate, other)
    return one is not None and yours is not None and np.array_equal(one, yours)


def _range(chosen: bool, span: Two) -> str:
    return f"{span[0]}:{span[1]}" if chosen else ":"


def _cut(axis: int, start: int, stop: int) -> str:
    return f"[{', '.join([':'] * axis + [f'{start}:{stop}'])}]"


def _by_key(side: Side) -> dict[Key, list[int]]:
    """Places of executed tensors by key, the step apart."""
    found: dict[Key, list[int]] = defaultdict(list)
    for place in side.free:
        if side.keys[place].role in _EXECUTED:
            found[replace(side.keys[place], step=0)].append(place)
    return found


def _same_keys(reference: Side, candidate: Side) -> Iterator[Two]:
    theirs = {candidate.keys[place]: place for place in candidate.free}
    for place in reference.free:
        if reference.keys[place] in theirs and reference.keys[place].role in _EXECUTED:
            yield place, theirs[reference.keys[place]]


def _differing(one: Shape, other: Shape) -> list[int]:
    return [axis for axis, lengths in enumerate(zip(one, other, strict=False)) if lengths[0] != lengths[1]]


def _shape(side: Side, place: int) -> Shape | None:
    source = side.tensor(place).source
    return None if source is None else source.shape


def _is_given(side: Side, place: int) -> bool:
    """True for an input of the model itself."""
    record = side.tensor(place).record
    return side.keys[place].role == "input" and record.parent is None and not record.is_function


def _is_index(side: Side, place: int) -> bool:
    source = side.tensor(place).source
    return source is not None and source.dtype.kind in "iub"


def _values(side: Side, place: int) -> np.ndarray | None:
    source = side.tensor(place).source
    if source is None or source.size > _MOST_VALUES or not source.size:
        return None
    try:
        return source.read()
    except ReadError:
        return None


STRATEGY = Strategy("exact", 5, _propose)
