"""Try recipes that were proven on other rows before searching, and fall back to them where nothing fits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from math import exp, log, prod
from typing import NamedTuple, final

import numpy as np

from firstdiff.align.arrangement import arrangement_of, is_forced
from firstdiff.align.lazy import Lazy
from firstdiff.align.notation import Shape, bind
from firstdiff.align.proposal import EVIDENCE
from firstdiff.align.recipe import Alignment, AnyStep, Recipe, lazy, shapes_after
from firstdiff.align.sampling import (
    Level,
    Noise,
    centred,
    coarser,
    common_value,
    levels,
    sample_positions,
    scale_of,
    score,
    widened,
)
from firstdiff.align.solution import Solution
from firstdiff.align.steps import Crop, Join, Rearrange
from firstdiff.align.steps_axis import Chunks, Rope, Ungroup, order_cause
from firstdiff.align.steps_join import Pick
from firstdiff.align.stride_search import Digit
from firstdiff.errors import UsageError
from firstdiff.trace import Source

_SAMPLE = 192
_FIT = 0.98
_CLEARLY = 0.2  # by how much more a hint must resemble the reference than identity does
PROVEN_NOTE = "the values fit no layout; this is the recipe of other rows of these shapes"


@final
class Hints:
    """Recipes of other rows, applied to one pair; those that do not fit its shapes are left out.

    hints: the likeliest first
    noise: what counts as the same value, where the types of the tensors do not tell
    """

    def __init__(
        self,
        hints: Sequence[Alignment],
        references: Sequence[Source],
        candidates: Sequence[Source],
        noise: Noise | None = None,
    ) -> None:
        self._references = references
        self._candidates = candidates
        self._noise = noise
        found = (self._try(alignment) for alignment in {str(hint): hint for hint in hints}.values())
        self._trials = [trial for trial in found if trial is not None]

    def fitting(self, contract: Solution | None = None) -> Solution | None:
        """The first hint under which the sampled values agree; strict levels of noise come first.

        contract: what identity gives for equal shapes; a hint must then explain where that does not hold
        """
        strict = max((len(trial.strict) for trial in self._trials), default=0)
        for number in range(1 if contract is not None and contract.fits else strict):
            for trial in self._trials:
                if number < len(trial.strict) and (contract is None or trial.alignment != contract.alignment):
                    found = self._judge(trial, trial.strict[number], contract)
                    if found is not None:
                        return found
        return None

    def instead_of(self, found: Solution) -> Solution:
        """The hint under which the values are most alike, unless what was found says more."""
        if found.fits or not self._trials:
            return found
        best = max(self._trials, key=lambda trial: trial.likeness)
        if found.alignment is not None:
            if any(trial.alignment == found.alignment for trial in self._trials):
                return found if found.is_identity else replace(found, proven=True)
            other = self._try(found.alignment)
            margin = _CLEARLY if not found.forced or found.is_identity else 0.0
            if other is not None and best.likeness < other.likeness + margin:
                return found
        note = (*found.notes, PROVEN_NOTE)
        return replace(self._solution(best, best.agreement, 0.0, fits=False), tried=found.tried, notes=note)

    def _try(self, alignment: Alignment) -> _Trial | None:
        try:
            reference, candidate = alignment.apply(self._references, self._candidates)
        except UsageError:
            return None
        return _Trial.of(alignment, lazy(reference), lazy(candidate), self._noise) if reference.size else None

    def _judge(self, trial: _Trial, level: Level, contract: Solution | None) -> Solution | None:
        reference, candidate = trial.reference, trial.candidate
        common = common_value(np.concatenate([reference, candidate]))
        scored = score(reference, candidate, level.noise, common, candidate)
        evidence = scored.evidence - log(len(self._trials))
        if scored.agreement < _FIT or evidence < EVIDENCE:
            return None
        if contract is not None and not self._explains(trial, level, contract):
            return None
        return self._solution(trial, scored.agreement, evidence, fits=True)

    def _explains(self, trial: _Trial, level: Level, contract: Solution) -> bool:
        """True if the values agree under a hint at the very places where identity does not hold."""
        if contract.alignment is None or trial.alignment.reference:
            return True
        other = self._try(contract.alignment)
        if other is None:
            return True
        off = ~level.noise.same(other.reference, other.candidate)
        same = level.noise.same(trial.reference, trial.candidate)
        return bool(same[off].mean() >= _FIT) if off.any() else False

    def _solution(self, trial: _Trial, agreement: float, evidence: float, *, fits: bool) -> Solution:
        shapes = [source.shape for source in self._references], [source.shape for source in self._candidates]
        cause, forced = classify(trial.alignment, *shapes)
        coverage = trial.alignment.coverage(*shapes)
        return Solution(
            alignment=trial.alignment,
            fits=fits,
            cause=cause,
            agreement=agreement,
            confidence=round(agreement * (1 - exp(-evidence / EVIDENCE)), 4),
            reference_coverage=coverage[0],
            candidate_coverage=coverage[1],
            forced=forced,
            proven=True,
        )


@dataclass(frozen=True, slots=True)
class _Trial:
    """Sampled values of both sides under one recipe, and the levels of noise to compare them at."""

    alignment: Alignment
    reference: np.ndarray
    candidate: np.ndarray
    levels: list[Level]

    @staticmethod
    def of(alignment: Alignment, reference: Lazy, candidate: Lazy, noise: Noise | None) -> _Trial:
        flat = sample_positions(reference.size, _SAMPLE)
        values = widened(reference.take(flat)), widened(candidate.take(flat))
        found = levels(*values, coarser(reference.dtype, candidate.dtype))
        if noise is not None:
            found[0] = Level(noise)
        return _Trial(alignment, *values, found)

    @property
    def strict(self) -> list[Level]:
        return [level for level in self.levels if not level.centred]

    @property
    def agreement(self) -> float:
        return float(self.strict[-1].noise.same(self.reference, self.candidate).mean())

    @property
    def likeness(self) -> float:
        """The share of the sample that agrees at the most lenient level."""
        level = self.levels[-1]
        if not level.centred:
            return self.agreement
        sides = (centred(values, scale_of(values)) for values in (self.reference, self.candidate))
        return float(level.noise.same(*sides).mean())


def classify(alignment: Alignment, references: Sequence[Shape], candidates: Sequence[Shape]) -> tuple[str | None, bool]:
    """Return the `layout.…` cause of a recipe, and whether the shapes call for it."""
    kinds = [
        *_classify_side(alignment.reference, references, candidates[0]),
        *_classify_side(alignment.candidate, candidates, references[0]),
    ]
    named = sorted((kind for kind in kinds if kind.cause), key=lambda kind: kind.rank)
    return named[0].cause if named else None, all(kind.forced for kind in kinds)


class _Kind(NamedTuple):
    """Cause of one step; a crop or a swap (rank 0) says more than an order of axes (1) or a join (2)."""

    cause: str | None
    forced: bool
    rank: int = 0


def _classify_side(recipe: Recipe, shapes: Sequence[Shape], other: Shape) -> Iterator[_Kind]:
    """Classify the steps of one side; reshapes before a crop belong to the crop."""
    orders: list[Rearrange] = []
    whole = shapes
    for step, following in zip_longest(recipe.steps, recipe.steps[1:]):
        after = shapes_after(step, shapes)
        whole = whole if orders else shapes
        if isinstance(step, Rearrange):
            orders.append(step)
            if not isinstance(following, Rearrange | Crop):
                yield _classify_order(orders, whole[0], after[0])
                orders = []
        elif isinstance(step, Crop):
            yield _classify_crop(step, whole[0], shapes[0], other)
            orders = []
        else:
            yield _classify_step(step)
        shapes = after


def _classify_order(steps: Sequence[Rearrange], source: Shape, target: Shape) -> _Kind:
    if len(steps) > 1:
        return _Kind("layout.reshape", False, rank=1)
    bound = bind(steps[0].pattern, source)
    left = [name for group in bound.left for name in group]
    strides = {name: prod(bound.sizes[inner] for inner in left[at + 1 :]) for at, name in enumerate(left)}
    right = [name for group in bound.right for name in group]
    walk = tuple(Digit(bound.sizes[name], strides.get(name, 0)) for name in right if bound.sizes[name] > 1)
    arranged = arrangement_of(walk, target, source)
    return _Kind(arranged.cause, is_forced(arranged, target, source), rank=1)


def _classify_crop(crop: Crop, whole: Shape, read: Shape, part: Shape) -> _Kind:
    """A crop along an axis that the whole does not have is called for only if the part has that axis."""
    ranges = zip(crop.ranges(read), read, strict=True)
    cut = next(((start, stop, length) for (start, stop, _), length in ranges if stop - start < length), None)
    if cut is None:
        return _Kind(None, True)
    start, kept, length = cut[0], cut[1] - cut[0], cut[2]
    made = Counter(read) - Counter(whole)
    made.pop(length, None)
    is_shard = kept > 0 and length % kept == 0 and start % kept == 0
    return _Kind(
        "layout.shard" if is_shard else "layout.pad",
        read == whole or {kept, *made} - {1} <= set(part),
    )


def _classify_step(step: AnyStep) -> _Kind:
    if isinstance(step, Chunks | Pick):
        return _Kind(order_cause(step.order), False)
    if isinstance(step, Ungroup):
        return _Kind("layout.qkv_order", False)
    if isinstance(step, Rope):
        return _Kind("layout.rope_interleave", False)
    return _Kind("layout.shard", True, rank=2 if isinstance(step, Join) else 0)
