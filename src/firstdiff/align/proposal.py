"""Recipes under test: what a strategy prepared, the arrangement a search found, and how well the values agree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from math import log, prod

import numpy as np

from firstdiff.align.alignment import Alignment
from firstdiff.align.arrangement import arrangement_of, cuts, is_forced, natural_walks
from firstdiff.align.derived import Pulled
from firstdiff.align.lazy import Lazy
from firstdiff.align.recipe import AnyStep, Recipe, lazy
from firstdiff.align.samples import NOTHING, Score, places
from firstdiff.align.sight import Sight
from firstdiff.align.steps import Step
from firstdiff.align.strategy import Prepared
from firstdiff.align.walk import Budget, Digit, Walk, WalkSearch, walked

_SAMPLE = 1024
_ROUNDS = 96
_FEW_ROUNDS = 24
_ORDERS = 96
_QUICK = 24
FIT = 0.9
EVIDENCE = 12.0


@dataclass(frozen=True, slots=True)
class Proposal:
    alignment: Alignment
    cause: str | None
    forced: bool
    cost: int
    luck: float = 0.0
    score: Score = NOTHING

    def evidence(self, tried: int) -> float:
        """What speaks for it, less what so many attempts would find by luck."""
        return self.score.evidence - self.luck - log(max(tried, 1))

    def fits(self, tried: int) -> bool:
        return self.score.agreement >= FIT and self.evidence(tried) >= EVIDENCE


def propose(sight: Sight, prepared: Prepared, budget: Budget) -> Iterator[Proposal]:
    """Every arrangement of what was prepared that the values speak for, scored."""
    near = sight.through(_made(sight.reference, prepared.reference), _made(sight.candidate, prepared.candidate))
    for walk in _walks(near, prepared, budget):
        proposal = _completed(near, prepared, walk)
        yield replace(proposal, score=score_of(sight, proposal.alignment))


def plain_proposals(sight: Sight) -> list[Proposal]:
    """What the shapes alone suggest for tensors of one size, the plainest first."""
    target, source = sight.reference.shape, sight.candidate.shape
    walks = dict.fromkeys([*islice(natural_walks(target, source), _ORDERS), (Digit(sight.reference.size, 1),)])
    found = [_completed(sight, Prepared(), walk) for walk in walks]
    return sorted(found, key=lambda proposal: proposal.cost)


def score_of(sight: Sight, alignment: Alignment, flat: np.ndarray | None = None) -> Score:
    """How well the values agree under an alignment; at fixed places, if none are given."""
    aligned = sight.through(
        _made(sight.reference, alignment.reference.steps), _made(sight.candidate, alignment.candidate.steps)
    )
    if flat is None:
        flat = places(aligned.reference.size, _SAMPLE)
        if not alignment.reference:
            flat = np.union1d(flat, sight.rare[0])
    return aligned.score(flat)


def _made(tensor: Lazy, steps: tuple[AnyStep, ...]) -> Lazy:
    """What comes out of the steps, by their plain definitions: a few values do not pay for views."""
    plain = [step for step in steps if isinstance(step, Step)]
    if len(plain) < len(steps):
        return lazy(Recipe(steps).apply([tensor]))
    for step in plain:
        tensor = Pulled(step, tensor)
    return tensor


def _walks(near: Sight, prepared: Prepared, budget: Budget) -> list[Walk]:
    bare = not (prepared.reference or prepared.candidate)
    if near.reference.shape == near.candidate.shape and not bare:
        straight = near.score(places(near.reference.size, _QUICK))
        if straight.agreement >= FIT or not straight.informative:
            return [(Digit(near.reference.size, 1),)]
        if prepared.settled:
            return []
    part = budget.part(_ROUNDS if bare else _FEW_ROUNDS)
    view = near if near.reference.size >= near.candidate.size else near.mirrored()
    found = WalkSearch(view, frozenset(cuts(view.candidate.shape)), part).walks()
    budget.merge(part)
    if bare and near.reference.size == near.candidate.size and not (found and np.isnan(near.common)):
        found += [walk for walk in _from_shapes(near) if walk not in found]
    return found


def _from_shapes(near: Sight) -> list[Walk]:
    """Orders of whole axes that hold at a few places: values that say little still tell these apart."""
    walks = list(islice(natural_walks(near.reference.shape, near.candidate.shape), _ORDERS))
    if not walks:
        return []
    flat = np.union1d(places(near.reference.size, _QUICK), near.rare[0])
    reference = near.reference_at(flat)
    candidates = near.candidate_at(np.stack([walked(walk, flat) for walk in walks]))
    telling = near.telling(reference, candidates)
    agreed = near.same(reference, candidates) & telling
    holds = agreed.sum(axis=1) >= FIT * telling.sum(axis=1)
    return [walk for walk, held in zip(walks, holds, strict=True) if held]


def _completed(near: Sight, prepared: Prepared, walk: Walk) -> Proposal:
    target, source = near.reference.shape, near.candidate.shape
    if prod(target) >= prod(source):
        arranged = arrangement_of(walk, target, source)
        reference = () if prepared.finish else prepared.reference
        alignment = Alignment(Recipe(reference), Recipe((*prepared.candidate, *arranged.steps, *prepared.finish)))
    else:
        arranged = arrangement_of(walk, source, target)
        alignment = Alignment(Recipe((*prepared.reference, *arranged.steps)), Recipe(prepared.candidate))
    return Proposal(
        alignment=alignment,
        cause=prepared.cause or arranged.cause,
        forced=prepared.forced and is_forced(arranged, target, source),
        cost=prepared.cost + arranged.cost,
        luck=prepared.luck,
    )
