"""Pair runs of one model on the same text split differently: cached steps, a row of a batch, other padding.

The relation is read from the inputs of the runs, which must agree exactly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from firstdiff.pairing.cached_steps import (
    CONFIDENCE,
    EXECUTED,
    Shape,
    differing,
    is_index,
    shape_of,
    steps_of_one,
    values_of,
)
from firstdiff.pairing.strategy import Findings, Proposal, Side, Situation, Strategy

Two = tuple[int, int]


def _propose(situation: Situation) -> Findings:
    sides = situation.reference, situation.candidate
    for find in (steps_of_one, _row_of_batch, _without_padding, _other_padding):
        found = find(*sides)
        if found is not None:
            return found
    return Findings()


def _row_of_batch(reference: Side, candidate: Side) -> Findings | None:
    """One text, where the other side ran it in a batch."""
    pairs = list(_same_keys(reference, candidate))
    given = [(place, other) for place, other in pairs if _is_given(reference, place) and _is_given(candidate, other)]
    lengths = {
        (mine[0], yours[0])
        for place, other in given
        if (mine := shape_of(reference, place)) and (yours := shape_of(candidate, other)) and mine[1:] == yours[1:]
    }
    batches = [two for two in lengths if 1 in two and two != (1, 1)]
    if len(batches) != 1 or lengths - {batches[0], (1, 1)}:
        return None
    flip, count = batches[0][1] == 1, max(batches[0])
    rows = set(range(count))
    for place, other in given:
        ref, cand = values_of(reference, place), values_of(candidate, other)
        if ref is None or cand is None or ref.shape[:1] == cand.shape[:1]:
            continue
        alone, batch = (cand, ref) if flip else (ref, cand)
        rows &= {row for row in rows if np.array_equal(batch[row], alone[0])}
    if len(rows) != 1:
        return None
    row = rows.pop()
    proposals = []
    for place, other in pairs:
        mine, yours = shape_of(reference, place), shape_of(candidate, other)
        if mine is None or yours is None or mine == yours or len(mine) != len(yours):
            continue
        small, large = (yours, mine) if flip else (mine, yours)
        axes = differing(small, large)
        if len(axes) == 1 and large[axes[0]] == count * small[axes[0]]:
            size = small[axes[0]]
            crop = _cut(axes[0], row * size, (row + 1) * size)
            recipe = f"reference: {crop}" if flip else crop
            proposals.append(Proposal((place,), (other,), CONFIDENCE, why="a row of a batch", recipe=recipe))
    who, whole = ("candidate", "reference") if flip else ("reference", "candidate")
    text = f"the {who} ran row {row} of the {whole}'s batch of {count} alone; that row was compared"
    return Findings(proposals, (text,))


_Span = tuple[Side, int, Two]  # a tensor of a side, and where its tokens are


@dataclass(frozen=True, slots=True)
class _Padded:
    """Where a text that one side ran alone is in the other side's batch, whose mask marks the rest as padding.

    count, length: rows of the batch, and tokens of each
    row, span: which of them is the text, and its tokens
    """

    count: int
    length: int
    row: int
    span: Two

    def cut(self, small: Shape, large: Shape) -> str | None:
        """Return the part of a batch's tensor that belongs to the text; None where the shapes do not tell it."""
        parts = [self._part(axis, *sizes) for axis, sizes in enumerate(zip(small, large, strict=True))]
        known = [part for part in parts if part is not None]
        if len(known) < len(parts) or small == large:
            return None
        return f"[{', '.join(_range(part != (0, size), part) for part, size in zip(known, large, strict=True))}]"

    def _part(self, axis: int, small: int, large: int) -> Two | None:
        tokens = self.span[1] - self.span[0]
        if small == large:
            return 0, large
        if axis == 0 and small == tokens and large == self.count * self.length:  # batch and tokens as one axis
            start = self.row * self.length + self.span[0]
            return start, start + tokens
        if axis == 0 and self.count > 1 and large == self.count * small:
            return self.row * small, (self.row + 1) * small
        return self.span if (small, large) == (tokens, self.length) else None


def _without_padding(reference: Side, candidate: Side) -> Findings | None:
    """One text without padding, where the other side ran it with some, alone or in a batch."""
    pairs = list(_same_keys(reference, candidate))
    given = [two for two in pairs if _is_given(reference, two[0]) and is_index(reference, two[0])]
    values = [(values_of(reference, place), values_of(candidate, other)) for place, other in given]
    known = [(one, other) for one, other in values if one is not None and other is not None]
    for flip in (False, True):
        masks = _lone_masks(*(candidate, reference) if flip else (reference, candidate))
        found = _padded([two[::-1] if flip else two for two in known], masks)
        if found is None:
            continue
        proposals = []
        for place, other in pairs:
            mine, yours = shape_of(reference, place) or (), shape_of(candidate, other) or ()
            small, large = (yours, mine) if flip else (mine, yours)
            crop = found.cut(small, large) if len(small) == len(large) else None
            if crop is not None:
                recipe = f"reference: {crop}" if flip else crop
                why = "the tokens that are no padding"
                proposals.append(Proposal((place,), (other,), CONFIDENCE, why=why, recipe=recipe))
        who, whole = ("candidate", "reference") if flip else ("reference", "candidate")
        batch = f"row {found.row} of the {whole}'s batch of {found.count}" if found.count > 1 else f"the {whole}'s text"
        return Findings(proposals, (f"the {who} ran {batch} alone, without its padding; that text was compared",))
    return None


def _lone_masks(text: Side, padded: Side) -> list[np.ndarray]:
    """Return what only the model that ran padding was given: a text without any needs no mask."""
    known = set(text.keys)
    places = [place for place in padded.free if _is_given(padded, place) and padded.keys[place] not in known]
    values = (values_of(padded, place) for place in places if is_index(padded, place))
    return [mask for mask in values if mask is not None]


def _padded(given: Sequence[tuple[np.ndarray, np.ndarray]], masks: Sequence[np.ndarray] = ()) -> _Padded | None:
    """Find a text in a batch by all ids given to the model; the first of each two is the text's.

    masks: what only the batch has
    """
    shapes = {(small.shape, large.shape) for small, large in given if small.ndim == large.ndim == 2}
    longer = [(small, large) for small, large in shapes if small[0] == 1 and small[1] < large[1]]
    if len(longer) != 1:
        return None
    (_, tokens), (count, length) = longer[0]
    ids = [(small[0], large) for small, large in given if (small.shape, large.shape) == longer[0]]
    if not any(np.ptp(text) > 1 for text, _ in ids):
        return None
    alone = [mask for mask in masks if mask.shape == longer[0][1]]
    for mask in (large for large in (*(large for _, large in ids), *alone) if np.isin(large, (0, 1)).all()):
        for row in range(count):
            kept = np.flatnonzero(mask[row])
            if kept.size != tokens or kept[-1] - kept[0] + 1 != tokens:
                continue
            span = int(kept[0]), int(kept[-1]) + 1
            if all(np.array_equal(text, batch[row, slice(*span)]) for text, batch in ids):
                return _Padded(count, length, row, span)
    return None


def _other_padding(reference: Side, candidate: Side) -> Findings | None:
    """The same tokens with padding before them on one side and behind them on the other."""
    pairs = [
        two for two in _same_keys(reference, candidate) if shape_of(reference, two[0]) == shape_of(candidate, two[1])
    ]
    given = [two for two in pairs if _is_given(reference, two[0]) and is_index(reference, two[0])]
    spans = {spans for two in given if (spans := _spans(reference, candidate, two))}
    if len(spans) != 1:
        return None
    (ref, cand), tokens = next(iter(spans))
    if not any(_hold_the_same(reference, candidate, two, ref, cand, tokens) for two in given):
        return None
    proposals = []
    for place, other in pairs:
        axes = _token_axes((reference, place, ref), (candidate, other, cand), tokens)
        if axes and not _are_equal(reference, place, candidate, other):
            cuts = (", ".join(_range(axis in axes, span) for axis in range(max(axes) + 1)) for span in (ref, cand))
            recipe = "reference: [{}]; candidate: [{}]".format(*cuts)
            proposals.append(
                Proposal((place,), (other,), CONFIDENCE, why="the tokens that are no padding", recipe=recipe)
            )
    where = ["before" if span[0] else "behind" for span in (ref, cand)]
    text = f"the reference has padding {where[0]} the text, the candidate {where[1]} it; the text alone was compared"
    return Findings(proposals, (text,))


def _token_axes(reference: _Span, candidate: _Span, tokens: int) -> tuple[int, ...]:
    """Return the axes that count tokens: of several as long as the text, those that leave the same of both sides."""
    (one, place, ref), (other_side, other, cand) = reference, candidate
    shape = shape_of(one, place) or ()
    axes = tuple(axis for axis, length in enumerate(shape) if length == tokens)
    if len(axes) < 2:
        return axes
    values = values_of(one, place), values_of(other_side, other)
    if values[0] is None or values[1] is None:
        return axes

    def misfit(chosen: tuple[int, ...]) -> float:
        cuts = (
            np.asarray(side[tuple(slice(*span) if axis in chosen else slice(None) for axis in range(len(shape)))])
            for side, span in zip(values, (ref, cand), strict=True)
            if side is not None
        )
        left, right = (np.nan_to_num(cut if cut.dtype.kind == "c" else cut.astype(np.float64)) for cut in cuts)
        return float(np.mean(np.abs(left - right)))

    # all of them first: of scores, where a fault leaves nothing equal
    subsets = [chosen for count in range(len(axes), 0, -1) for chosen in combinations(axes, count)]
    return min(subsets, key=misfit)


def _spans(reference: Side, candidate: Side, two: Two) -> tuple[tuple[Two, Two], int] | None:
    """Return where each side's mask, the same for every row, has its tokens."""
    masks = values_of(reference, two[0]), values_of(candidate, two[1])
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


def _hold_the_same(reference: Side, candidate: Side, two: Two, ref: Two, cand: Two, tokens: int) -> bool:
    """True for ids that are the same where the masks have tokens, and nothing but one id elsewhere."""
    one, other = values_of(reference, two[0]), values_of(candidate, two[1])
    if one is None or other is None or one.ndim != 2 or one.shape[1] != tokens:
        return False
    text = one[:, slice(*ref)]
    return np.ptp(text) > 1 and np.array_equal(text, other[:, slice(*cand)])


def _are_equal(reference: Side, place: int, candidate: Side, other: int) -> bool:
    """True for what does not depend on the text, such as places counted from the first token of all."""
    one, yours = values_of(reference, place), values_of(candidate, other)
    return one is not None and yours is not None and np.array_equal(one, yours)


def _range(chosen: bool, span: Two) -> str:
    return f"{span[0]}:{span[1]}" if chosen else ":"


def _cut(axis: int, start: int, stop: int) -> str:
    return f"[{', '.join([':'] * axis + [f'{start}:{stop}'])}]"


def _same_keys(reference: Side, candidate: Side) -> Iterator[Two]:
    cand = {candidate.keys[place]: place for place in candidate.free}
    for place in reference.free:
        if reference.keys[place] in cand and reference.keys[place].role in EXECUTED:
            yield place, cand[reference.keys[place]]


def _is_given(side: Side, place: int) -> bool:
    """True for an input of the model itself."""
    record = side.tensor(place).record
    return side.keys[place].role == "input" and record.parent is None and not record.is_function


STRATEGY = Strategy("exact", 5, _propose)
