"""Pair the cached steps or chunks of one run with the other run, which took all tokens at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import gcd, prod
from typing import NamedTuple, final

import numpy as np

from firstdiff.errors import ReadError
from firstdiff.pairing.sequence import increasing
from firstdiff.pairing.strategy import Findings, Proposal, Side
from firstdiff.trace import Key

CONFIDENCE = 0.97
EXECUTED = frozenset({"input", "output"})
_MOST_VALUES = 1 << 20  # of a tensor that is read to tell the relation
_KEPT = 256
_MOST_TEXTS = 256
_SAME, _UNRELATED = 1e-3, 0.9  # distances in units of the values

Shape = tuple[int, ...]


def steps_of_one(reference: Side, candidate: Side) -> Findings | None:
    """Several steps with a cache, where the other side ran all tokens at once."""
    keyed = by_key(reference), by_key(candidate)
    steps = len({key.step for key in reference.keys}), len({key.step for key in candidate.keys})
    if 1 not in steps or steps == (1, 1):
        return None
    flip = steps[0] > 1
    whole_side, part_side = (candidate, reference) if flip else (reference, candidate)
    whole, parts = keyed[::-1] if flip else keyed
    parts |= _by_position(whole_side, whole, part_side, parts)
    shared = [key for key in whole if key in parts and len(whole[key]) == 1]
    ids = [key for key in shared if _are_joined_tokens(whole_side, whole[key][0], part_side, parts[key])]
    if not ids:
        return _by_values(whole_side, part_side, parts, max(steps), flip=flip)
    texts = max(_texts_in(whole_side, whole[key][0], part_side, parts[key]) for key in ids)
    proposals, apart = [], (set[int](), set[int]())
    for key in shared:
        chosen = _joined(whole_side, whole[key][0], part_side, parts[key])
        if chosen is not None:
            joint = None if chosen.axis is None else _joint_of(whole_side, whole[key][0], part_side, chosen, texts)
            recipe = None if joint is None else joint.recipe
            proposals.append(_oriented((whole[key][0],), chosen.places, recipe, flip=flip))
        used = chosen.places if chosen else ()
        lone = [place for place in parts[key] if place not in used]
        apart[1 if flip else 0].update(() if chosen else whole[key])
        apart[0 if flip else 1].update(lone)
    return Findings(proposals, (_said(max(steps), flip=flip),), (frozenset(apart[0]), frozenset(apart[1])))


def _by_position(
    whole_side: Side, whole: dict[Key, list[int]], part_side: Side, parts: dict[Key, list[int]]
) -> dict[Key, list[int]]:
    """Return the ids of the steps by the key of the other side's, where only one of the two was given them by name."""
    lone = [key for key in parts if key not in whole and key.role == "input"]
    found: dict[Key, list[int]] = {}
    for key, places in whole.items():
        if key in parts or len(places) != 1 or key.role != "input":
            continue
        others = (other for other in lone if other.name == key.name and other.slot.isdecimal() != key.slot.isdecimal())
        same = next((at for at in others if _are_joined_tokens(whole_side, places[0], part_side, parts[at])), None)
        if same is not None:
            found[key] = parts[same]
    return found


def _said(steps: int, *, flip: bool) -> str:
    who, other = ("reference", "candidate") if flip else ("candidate", "reference")
    return f"the {who} ran in {steps} steps what the {other} ran in one; its steps were put together, token by token"


def _by_values(whole: Side, part: Side, parts: dict[Key, list[int]], steps: int, *, flip: bool) -> Findings | None:
    """Pair steps that, put together, hold the values of a tensor of the other side, and by place what is between.

    Ports have other names, and do not record the ids they are given.
    """
    groups = [places for key, places in parts.items() if key.role == "output" and len(places) == steps]
    joined = _Joined(whole, part)
    found: dict[int, _Group] = {}
    for places in groups:
        group = joined.nearest(places, found.keys(), (0, len(whole.keys)))
        if group is not None and group.apart <= _SAME:
            found[group.whole] = group
    if not found:
        return None
    known = increasing((group.whole, group.places[0]) for group in found.values())
    for places in groups:
        if not any(places[0] == group.places[0] for group in found.values()):
            after = max((at for at, other in known if other < places[0]), default=-1)
            before = min((at for at, other in known if other > places[0]), default=len(whole.keys))
            group = joined.nearest(places, found.keys(), (after + 1, before))
            if group is not None and group.apart < _UNRELATED:
                found[group.whole] = group
    proposals = [_oriented((group.whole,), group.places, group.joint.recipe, flip=flip) for group in found.values()]
    lone = frozenset(place for places in groups for place in places)
    used = frozenset(place for group in found.values() for place in group.places)
    apart = (lone - used, frozenset[int]()) if flip else (frozenset[int](), lone - used)
    return Findings(proposals, (_said(steps, flip=flip),), apart)


class _Steps(NamedTuple):
    """Steps that make a tensor of the other side up; `axis` is None where one alone does."""

    places: tuple[int, ...]
    axis: int | None


@dataclass(frozen=True, slots=True)
class _Joint:
    """The way steps are put together: along the axis of their tokens, which several texts may share.

    texts: how many texts stand one behind the other on that axis
    """

    ndim: int
    axis: int
    texts: int = 1

    @property
    def recipe(self) -> str:
        if self.texts == 1:
            return f"concat(axis={self.axis})"
        names = [f"a{number}" for number in range(self.ndim)]
        token, flat = f"a{self.axis}", " ".join(names)
        apart = flat.replace(token, f"(text={self.texts} {token})")
        together = flat.replace(token, f"(text {token})")
        split = flat.replace(token, f"text {token}")
        return f"{apart} -> {split} | concat(axis={self.axis + 1}) | {split} -> {together}"

    def join(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        whole = np.concatenate([self._split(part) for part in parts], self.axis + 1)
        return whole.reshape(*parts[0].shape[: self.axis], -1, *parts[0].shape[self.axis + 1 :])

    def beginning(self, whole: np.ndarray, part: np.ndarray) -> np.ndarray:
        """Return what the first step has of a tensor."""
        tokens = range(part.shape[self.axis] // self.texts)
        return np.take(self._split(whole), tokens, self.axis + 1).reshape(part.shape)

    def _split(self, values: np.ndarray) -> np.ndarray:
        return values.reshape(*values.shape[: self.axis], self.texts, -1, *values.shape[self.axis + 1 :])


class _Group(NamedTuple):
    """Steps that are one tensor of the other side, how they are joined, and how far the values are apart."""

    whole: int
    places: tuple[int, ...]
    joint: _Joint
    apart: float


@final
class _Joined:
    """Compares steps, put together, with the tensors of the other side."""

    def __init__(self, whole: Side, part: Side) -> None:
        self._whole, self._part = whole, part
        self._outputs = [
            place for place in whole.free if whole.keys[place].role == "output" and not is_index(whole, place)
        ]
        self._read = lru_cache(_KEPT)(lambda place: values_of(whole, place))

    def nearest(self, places: Sequence[int], taken: Collection[int], span: tuple[int, int]) -> _Group | None:
        """Return the tensor of a stretch of the other side that steps are nearest to; the first of equals."""
        values = [values_of(self._part, at) for at in places]
        known = [one for one in values if one is not None]
        if len(known) < len(values) or any(one.dtype.kind in "iubc" for one in known):
            return None
        best: _Group | None = None
        for place in self._outputs:
            if place in taken or not span[0] <= place < span[1]:
                continue
            found = _joined(self._whole, place, self._part, places)
            if found is None or found.axis is None:
                continue
            for joint in _joints(known, found.axis):
                apart = self._apart(place, known, joint, _UNRELATED if best is None else best.apart)
                if best is None or apart < best.apart:
                    best = _Group(place, found.places, joint, apart)
        return best

    def _apart(self, place: int, parts: Sequence[np.ndarray], joint: _Joint, within: float) -> float:
        """Return the distance of the values in units of their size; the first step alone tells most that differ."""
        whole = self._read(place)
        if whole is None or np.ptp(whole) == 0 or not np.isfinite(whole).all():
            return np.inf
        if within <= _SAME < _distance(joint.beginning(whole, parts[0]), parts[0]):
            return np.inf
        return _distance(whole, joint.join(parts))


def _joints(parts: Sequence[np.ndarray], axis: int) -> list[_Joint]:
    """Return the ways to join steps: by as many texts as may share the axis of the tokens, one first."""
    common = gcd(*(part.shape[axis] for part in parts))
    counts = [count for count in range(1, min(common, _MOST_TEXTS) + 1) if common % count == 0]
    return [_Joint(parts[0].ndim, axis, count) for count in counts]


def _joint_of(whole: Side, place: int, part: Side, steps: _Steps, texts: int) -> _Joint:
    """Return the way to join the steps of one or several texts, by the values where the shapes leave a choice."""
    shape, axis = shape_of(whole, place) or (), steps.axis or 0
    joints = _Joint(len(shape), axis), _Joint(len(shape), axis, texts)
    lengths = [(shape_of(part, at) or shape)[axis] for at in steps.places]
    wanted, values = values_of(whole, place), [values_of(part, at) for at in steps.places]
    known = [one for one in values if one is not None]
    if any(length % texts for length in lengths) or wanted is None or len(known) < len(values):
        return joints[0]
    return min(joints, key=lambda joint: _distance(wanted, joint.join(known)))


def _distance(one: np.ndarray, other: np.ndarray) -> float:
    size = float(np.linalg.norm(one.astype(np.float64)))
    away = float(np.linalg.norm(one.astype(np.float64) - other))
    return away / size if size > 0 and np.isfinite(away) else np.inf


def _oriented(whole: tuple[int, ...], parts: tuple[int, ...], recipe: str | None, *, flip: bool) -> Proposal:
    why = "steps of a run, put together"
    if flip:
        return Proposal(parts, whole, CONFIDENCE, why=why, recipe=recipe and f"reference: {recipe}")
    return Proposal(whole, parts, CONFIDENCE, why=why, recipe=recipe)


def _joined(whole: Side, place: int, parts: Side, places: Sequence[int]) -> _Steps | None:
    """Return the steps that make a tensor up and the axis to join them along; the last alone where it grew to it."""
    shape, shapes = shape_of(whole, place), [shape_of(parts, at) for at in places]
    if shape is None or None in shapes or len(places) < 2:
        return None
    known = [one for one in shapes if one is not None]
    axes = {axis for one in known for axis in differing(shape, one)}
    if any(len(one) != len(shape) for one in known) or len(axes) > 1:
        return None
    if not axes:  # a table that every step makes anew
        return _Steps((places[0],), None)
    axis = axes.pop()
    if sum(one[axis] for one in known) == shape[axis]:
        return _Steps(tuple(places), axis)
    return _Steps((places[-1],), None) if known[-1] == shape else None


def _are_joined_tokens(whole: Side, place: int, parts: Side, places: Sequence[int]) -> bool:
    """True for ids given to the model, all at once or part by part."""
    if whole.keys[place].role != "input" or not is_index(whole, place):
        return False
    found = _joined(whole, place, parts, places)
    if found is None or found.axis is None:
        return False
    values = [values_of(parts, at) for at in found.places]
    wanted = values_of(whole, place)
    if wanted is None or any(one is None for one in values):
        return False
    return np.ptp(wanted) > 0 and np.array_equal(
        np.concatenate([one for one in values if one is not None], found.axis), wanted
    )


def _texts_in(whole: Side, place: int, parts: Side, places: Sequence[int]) -> int:
    """Return how many texts the ids given to a model are of."""
    steps, shape = _joined(whole, place, parts, places), shape_of(whole, place) or ()
    return 1 if steps is None else prod(shape[: steps.axis])


def by_key(side: Side) -> dict[Key, list[int]]:
    """Places of executed tensors by key, the step apart."""
    found: dict[Key, list[int]] = defaultdict(list)
    for place in side.free:
        if side.keys[place].role in EXECUTED:
            found[replace(side.keys[place], step=0)].append(place)
    return found


def differing(one: Shape, other: Shape) -> list[int]:
    return [axis for axis, lengths in enumerate(zip(one, other, strict=False)) if lengths[0] != lengths[1]]


def shape_of(side: Side, place: int) -> Shape | None:
    source = side.tensor(place).source
    return None if source is None else source.shape


def is_index(side: Side, place: int) -> bool:
    source = side.tensor(place).source
    return source is not None and source.dtype.kind in "iub"


def values_of(side: Side, place: int) -> np.ndarray | None:
    source = side.tensor(place).source
    if source is None or source.size > _MOST_VALUES or not source.size:
        return None
    try:
        return source.read()
    except ReadError:
        return None
