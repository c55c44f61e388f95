"""Search for the recipe that relates a pair: strategies from common to unusual, at every level of noise.

The first recipe that fits ends the search. To fit, it must agree nearly everywhere, and far better than chance
allows after so many attempts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import exp, prod
from typing import final

import numpy as np

from firstdiff.align.arrangement import arrangement_of
from firstdiff.align.lazy import Lazy
from firstdiff.align.notation import Shape
from firstdiff.align.prechecks import SharedValues, could_have_moved
from firstdiff.align.proposal import (
    EVIDENCE,
    FIT,
    IN_PLACE,
    SLACK,
    Proposal,
    likely_orders,
    plain_proposals,
    propose,
    score_of,
    stays_in_place,
)
from firstdiff.align.recipe import Alignment, Recipe
from firstdiff.align.sampling import Noise, SampledPair, sample_positions
from firstdiff.align.solution import Solution
from firstdiff.align.steps import Crop
from firstdiff.align.strategies import Strategy
from firstdiff.align.stride_search import Budget, Digit, merged

_QUICK = 192
_SAMPLE = 1024
_NEAR = 0.02
_LISTED = 8
_USUAL = 20  # strategies below this cost are tried on likeness alone
_UNSURE = 0.3
_MOSTLY = 0.5
_LIKELY = 3
_REPEATS = 0.75  # a part alone agrees with the whole repeated at half of the places or less
_BLURRED = 0.5  # above this chance of agreement, wrong walks are followed for long
_BLURRED_ROUNDS = 96
UNINFORMATIVE_NOTE = "the values are nearly all the same, so they cannot tell one layout from another"
_MOST_PARTS = 64
_NAMED = 8
_PART_SAMPLE = 128


def plain_alignment(reference: Shape, candidate: Shape) -> Alignment | None:
    """Identity for shapes that agree, or agree but for axes of 1; None for any others."""
    if reference == candidate:
        return Alignment()
    if [n for n in reference if n != 1] != [n for n in candidate if n != 1]:
        return None
    steps = arrangement_of((Digit(prod(reference), 1),), reference, candidate).steps
    return Alignment(candidate=Recipe(steps))


def broadcast_alignment(reference: Lazy, candidate: Lazy) -> Alignment | None:
    """Repeat the side with axes of 1 if the other holds the same values all along them; None if it does not."""
    small, large = sorted((reference, candidate), key=lambda tensor: tensor.size)
    if len(small.shape) != len(large.shape) or not small.size:
        return None
    repeated = [axis for axis, (one, other) in enumerate(zip(small.shape, large.shape, strict=True)) if one != other]
    if not repeated or any(small.shape[axis] != 1 for axis in repeated) or not _is_constant(large, repeated):
        return None
    strides = [0 if axis in repeated else prod(small.shape[axis + 1 :]) for axis in range(len(small.shape))]
    walk = merged(tuple(Digit(size, stride) for size, stride in zip(large.shape, strides, strict=True)))
    recipe = Recipe(arrangement_of(walk, large.shape, small.shape).steps)
    return Alignment(reference=recipe) if small is reference else Alignment(candidate=recipe)


def _is_constant(tensor: Lazy, axes: Sequence[int]) -> bool:
    """Return whether a tensor's values do not change along some axes; most that do are told by two places."""
    first = tuple(slice(0, 1) if axis in axes else slice(None) for axis in range(len(tensor.shape)))
    last = tuple(slice(-1, None) if axis in axes else slice(None) for axis in range(len(tensor.shape)))
    values = tensor.read(first)
    return np.array_equal(values, tensor.read(last)) and bool((tensor.view() == values).all())


@final
class LayoutSearch:
    """Tries strategies on one pair, from the plain to the unusual; used once."""

    def __init__(
        self, reference: Lazy, candidate: Lazy, noise: Noise | None, table: Sequence[Strategy], budget: Budget
    ) -> None:
        self._reference = reference
        self._candidate = candidate
        self._pairs = SampledPair.of(reference, candidate, noise)
        self._strict = [pair for pair in self._pairs if not pair.level.centred]
        self._table = table
        self._tried: dict[str, None] = {}
        self._count = 0
        self._budget = budget
        self._closest: Proposal | None = None
        self._shared: SharedValues | None = None

    def equal_shapes(self, kept: Solution) -> Solution:
        """Identity is the contract; another recipe is named only if it accounts for what identity does not."""
        if self._strict[0].potential() < EVIDENCE:
            return kept
        for pair in self._strict[:1] if kept.fits else self._strict:
            if pair.chance > _BLURRED:
                self._budget.limit(_BLURRED_ROUNDS)
            if pair.level.lenient and stays_in_place(pair, sample_positions(self._reference.size, _QUICK)):
                break
            for strategy in self._possible(pair):
                found = [entry for entry in self._fitting(pair, strategy) if self._explains(pair, entry)]
                if found:
                    return self._best(pair, found)
        return replace(kept, tried=tuple(self._tried))

    def other_shapes(self) -> Solution:
        if self._strict[0].potential() < EVIDENCE:
            return self._without_evidence()
        for pair in self._strict:
            if pair.level.lenient and self._repeats_alike():
                break
            if pair.level.lenient and self._orders_that_stay(pair):
                found = [entry for entry in self._scored(pair) if entry.fits(self._count)]
                if found:
                    return self._best(pair, found)
                break
            for strategy in self._possible(pair):
                found = list(self._fitting(pair, strategy))
                if found:
                    return self._best(pair, found)
        return self._alike() or Solution(alignment=None, fits=False, tried=tuple(self._tried))

    def _possible(self, pair: SampledPair) -> list[Strategy]:
        """Return the strategies worth trying: those that only move values need the same values on both sides."""
        noise, sides = pair.level.noise, (self._reference, self._candidate)
        if self._mostly_in_place(pair):
            possible = could_have_moved(*sides, pair.common, noise)
        else:
            self._shared = self._shared or SharedValues(*sides, pair.common)
            possible = self._shared.possible(noise)
        return [strategy for strategy in self._table if possible or not strategy.moves_only]

    def _mostly_in_place(self, pair: SampledPair) -> bool:
        """True if the shapes are the same and so are most values: only the others can have moved."""
        if plain_alignment(self._reference.shape, self._candidate.shape) is None:
            return False
        return (pair.agreement(sample_positions(self._reference.size, _QUICK)) or 0.0) >= _MOSTLY

    def _orders_that_stay(self, pair: SampledPair) -> bool:
        """True if an order of whole axes brings the values so near to each other that no other needs a search."""
        return any(share >= IN_PLACE for share, _ in likely_orders(pair, slack=SLACK))

    def _repeats_alike(self) -> bool:
        """True if one side resembles the other repeated: a part of it would fit no better."""
        if self._reference.size == self._candidate.size:
            return False
        return any(entry.fits(self._count) for pair in self._pairs[len(self._strict) :] for entry in self._scored(pair))

    def _scored(self, pair: SampledPair) -> list[Proposal]:
        """The likeliest orders of whole axes, scored."""
        likely = [entry for _, entry in likely_orders(pair)[:_LIKELY]]
        return [replace(entry, score=score_of(pair, entry.alignment)) for entry in likely]

    def _fitting(self, pair: SampledPair, strategy: Strategy) -> Iterator[Proposal]:
        """Yield what fits: the first and whatever is as plain; an unusual strategy stops at the first."""
        if not strategy.supports(pair.reference.shape, pair.candidate.shape) or (pair.sparse and strategy.unusual):
            return
        if self._budget.is_over():
            return
        self._tried[strategy.name] = None
        plainest: int | None = None
        for prepared in strategy.prepare(pair):
            if self._budget.is_over():
                return
            if plainest is not None and prepared.cost > plainest:
                continue
            self._count += 1
            for proposal in propose(pair, prepared, self._budget):
                self._keep_closest(proposal)
                if proposal.fits(self._count):
                    plainest = prepared.cost
                    yield proposal
            if plainest is not None and strategy.unusual:
                return

    def _keep_closest(self, proposal: Proposal) -> None:
        if not proposal.forced:
            return
        if self._closest is None or proposal.score.evidence > self._closest.score.evidence:
            self._closest = proposal

    def _explains(self, pair: SampledPair, proposal: Proposal) -> bool:
        """True if a recipe for equal shapes agrees at the positions where identity does not."""
        flat = sample_positions(self._reference.size, _SAMPLE)
        off = flat[~pair.same(pair.reference_at(flat), pair.candidate_at(flat))]
        return replace(proposal, score=score_of(pair, proposal.alignment, off)).fits(self._count)

    def _best(self, pair: SampledPair, found: Sequence[Proposal]) -> Solution:
        """The plainest of those that agree about equally well; the others are its alternatives."""
        most = max(proposal.score.agreement for proposal in found)
        near = sorted((entry for entry in found if entry.score.agreement >= most - _NEAR), key=lambda entry: entry.cost)
        solution = self._solution(near[0], near[1:], fits=True)
        return replace(solution, notes=other_parts(pair, near[0].alignment))

    def _alike(self) -> Solution | None:
        """Return the recipe under which the values, although they differ, are clearly alike."""
        same_size = self._reference.size == self._candidate.size
        for pair in self._pairs[len(self._strict) :]:
            orders = [proposal for proposal in self._scored(pair) if proposal.forced]
            found = [proposal for proposal in orders if proposal.fits(self._count)]
            for proposal in orders:
                if same_size or proposal.score.agreement >= _REPEATS:
                    self._keep_closest(proposal)
            for strategy in self._table:
                if found or strategy.cost >= _USUAL or self._still_shows():
                    break
                found = [proposal for proposal in self._fitting(pair, strategy) if proposal.forced]
            if found:
                return replace(self._best(pair, found), fits=False)
        return self._solution(self._closest, (), fits=False) if self._closest and self._still_shows() else None

    def _still_shows(self) -> bool:
        """True if there is strong evidence for the closest recipe although the values differ."""
        return self._closest is not None and self._closest.evidence(self._count) >= 2 * EVIDENCE

    def _without_evidence(self) -> Solution:
        """Return the plainest recipe between the shapes: uninformative values, such as zeros, fit them all."""
        self._tried["axis order from the shapes alone"] = None
        scored = self._from_shapes(self._strict[0])
        if not scored:
            return Solution(alignment=None, fits=False, tried=tuple(self._tried), notes=(UNINFORMATIVE_NOTE,))
        ranked = sorted(scored, key=lambda entry: (-round(entry.score.agreement, 2), entry.cost))
        near = [entry for entry in ranked if entry.score.agreement >= ranked[0].score.agreement - _NEAR]
        agrees = not near[0].score.informative or near[0].score.agreement >= FIT
        solution = self._solution(near[0], near[1:], fits=agrees)
        return replace(solution, confidence=round(_UNSURE / len(near), 4), notes=(UNINFORMATIVE_NOTE,))

    def _from_shapes(self, pair: SampledPair) -> list[Proposal]:
        if self._reference.size != self._candidate.size:
            return []
        return plain_proposals(pair)

    def _solution(self, chosen: Proposal, others: Sequence[Proposal], *, fits: bool) -> Solution:
        reference, candidate = chosen.alignment.coverage([self._reference.shape], [self._candidate.shape])
        sure = 1 - exp(-max(chosen.evidence(self._count), 0.0) / EVIDENCE)
        return Solution(
            alignment=chosen.alignment,
            fits=fits,
            cause=chosen.cause,
            agreement=chosen.score.agreement,
            confidence=round(chosen.score.agreement * sure / (1 + len(others)), 4),
            reference_coverage=reference,
            candidate_coverage=candidate,
            forced=chosen.forced,
            alternatives=tuple(other.alignment for other in others[:_LISTED]),
            tried=tuple(self._tried),
        )


def other_parts(pair: SampledPair, alignment: Alignment) -> tuple[str, ...]:
    """Say how well the parts that a recipe leaves out would have agreed; empty if it leaves out none."""
    for side, tensor in (("reference", pair.reference), ("candidate", pair.candidate)):
        recipe: Recipe = getattr(alignment, side)
        crop = recipe.steps[0] if recipe.steps else None
        if not isinstance(crop, Crop):
            continue
        axis = len(crop.parts) - 1
        kept = crop.shape(tensor.shape)[axis]
        count, part = tensor.shape[axis] // kept, crop.parts[axis]
        if tensor.shape[axis] % kept or not isinstance(part, slice) or part.start % kept or count > _MOST_PARTS:
            continue
        shares = []
        for number in range(count):
            moved = Recipe((Crop.along(axis, number * kept, (number + 1) * kept), *recipe.steps[1:]))
            shares.append(_agreement(pair, replace(alignment, **{side: moved})))
        return (_sentence(side, axis, part.start // kept, shares),)
    return ()


def _agreement(pair: SampledPair, alignment: Alignment) -> float:
    size = min(pair.reference.size, pair.candidate.size)
    return score_of(pair, alignment, sample_positions(size, _PART_SAMPLE)).agreement


def _sentence(side: str, axis: int, number: int, shares: list[float]) -> str:
    others = [f"{other}: {share:.0%}" for other, share in enumerate(shares) if other != number]
    listed = ", ".join(others[:_NAMED]) + (", …" if len(others) > _NAMED else "")
    return f"part {number} of {len(shares)} along axis {axis} of the {side} is compared; the others agree by {listed}"
