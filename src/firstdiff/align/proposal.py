"""Candidate recipes: the steps of a strategy, the order of axes that a search found, and their score."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from math import log, prod
from typing import NamedTuple

import numpy as np

from firstdiff.align.arrangement import arrangement_of, cuts, is_forced, natural_walks, repeating_walks
from firstdiff.align.lazy import Lazy
from firstdiff.align.notation import Shape
from firstdiff.align.recipe import Alignment, AnyStep, Pulled, Recipe, lazy
from firstdiff.align.sampling import NOTHING, SampledPair, Score, sample_positions
from firstdiff.align.steps import Step
from firstdiff.align.strategies import Prepared
from firstdiff.align.stride_search import Budget, Digit, Walk, WalkSearch, walked

_SAMPLE = 1024
_ROUNDS = 96
_FEW_ROUNDS = 24
_ORDERS = 96
_QUICK = 24
_SMALL_SAMPLE = 192
_ABOVE_CHANCE = 0.05
FIT = 0.9
SLACK = 4.0  # how many times the noise values may be off by and still be in their places
IN_PLACE = 0.9
EVIDENCE = 12.0


@dataclass(frozen=True, slots=True)
class Proposal:
    alignment: Alignment
    cause: str | None
    forced: bool
    cost: int
    log_attempts: float = 0.0
    score: Score = NOTHING

    def evidence(self, tried: int) -> float:
        """Evidence of the score, less what so many attempts would reach by chance."""
        return self.score.evidence - self.log_attempts - log(max(tried, 1))

    def fits(self, tried: int) -> bool:
        return self.score.agreement >= FIT and self.evidence(tried) >= EVIDENCE


def propose(pair: SampledPair, prepared: Prepared, budget: Budget) -> Iterator[Proposal]:
    """Search the order of axes after what was prepared, and score each that agrees."""
    near = pair.through(_made(pair.reference, prepared.reference), _made(pair.candidate, prepared.candidate))
    for walk in _walks(near, prepared, budget):
        proposal = _completed(near.reference.shape, near.candidate.shape, prepared, walk)
        yield replace(proposal, score=score_of(pair, proposal.alignment))


def plain_proposals(pair: SampledPair) -> list[Proposal]:
    """Score the recipes that the shapes suggest for tensors of one size, the plainest first."""
    orders = _plain_orders(pair.reference.shape, pair.candidate.shape)
    flat = np.union1d(sample_positions(pair.reference.size, _SAMPLE), pair.rare[0])
    agreed, informative = _agreements(pair, [order.walk for order in orders], flat)
    return [
        replace(order.proposal, score=Score(float(share), pair.chance, int(count)) if count else NOTHING)
        for order, share, count in zip(orders, agreed / np.maximum(informative, 1), informative, strict=True)
    ]


def likely_orders(pair: SampledPair, *, slack: float = 1.0) -> list[tuple[float, Proposal]]:
    """Orders of whole axes under which a small sample agrees more often than by chance, the best first.

    slack: factor on the noise
    """
    orders = _plain_orders(pair.reference.shape, pair.candidate.shape)
    if not orders:
        return []
    view = pair if pair.reference.size >= pair.candidate.size else pair.mirrored()
    flat = sample_positions(view.reference.size, _SMALL_SAMPLE)
    agreed, informative = _agreements(view, tuple(order.walk for order in orders), flat, slack)
    shares = [float(share) for share in agreed / np.maximum(informative, 1)]
    ranked = sorted(zip(shares, orders, strict=True), key=lambda entry: (-round(entry[0], 1), entry[1].proposal.cost))
    return [(share, order.proposal) for share, order in ranked if share >= pair.chance + _ABOVE_CHANCE]


class _Order(NamedTuple):
    proposal: Proposal
    walk: Walk


@lru_cache(maxsize=512)
def _plain_orders(target: Shape, source: Shape) -> tuple[_Order, ...]:
    """The orders that the shapes suggest, the plainest first; of the larger tensor through the smaller."""
    if prod(target) == prod(source):
        walks = [*_axis_orders(target, source), (Digit(prod(target), 1),)]
    else:
        large, small = sorted((target, source), key=prod, reverse=True)
        walks = list(islice(repeating_walks(large, small), _ORDERS))
    walks = list(dict.fromkeys(walks))
    found = [_Order(_completed(target, source, Prepared(), walk), walk) for walk in walks]
    return tuple(sorted(found, key=lambda order: order.proposal.cost))


@lru_cache(maxsize=512)
def _axis_orders(target: Shape, source: Shape) -> tuple[Walk, ...]:
    return tuple(islice(natural_walks(target, source), _ORDERS))


def _agreements(
    pair: SampledPair, walks: Sequence[Walk], flat: np.ndarray, slack: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """Count where each walk agrees, and where the values are informative."""
    reference = pair.reference_at(flat)
    candidates = pair.candidate_at(np.stack([walked(walk, flat) for walk in walks]))
    informative = pair.informative(reference, candidates)
    agreed = pair.level.noise.scaled(slack).same(reference, candidates) & informative
    return agreed.sum(axis=1), informative.sum(axis=1)


def score_of(pair: SampledPair, alignment: Alignment, flat: np.ndarray | None = None) -> Score:
    """Score the agreement of the values under an alignment."""
    aligned = pair.through(
        _made(pair.reference, alignment.reference.steps), _made(pair.candidate, alignment.candidate.steps)
    )
    if flat is None:
        flat = sample_positions(aligned.reference.size, _SAMPLE)
        if not alignment.reference:
            flat = np.union1d(flat, pair.rare[0])
    return aligned.score(flat)


def _made(tensor: Lazy, steps: tuple[AnyStep, ...]) -> Lazy:
    """Apply steps by their definitions: for a few values, building views does not pay off."""
    plain = [step for step in steps if isinstance(step, Step)]
    if len(plain) < len(steps):
        return lazy(Recipe(steps).apply([tensor]))
    for step in plain:
        tensor = Pulled(step, tensor)
    return tensor


def _walks(near: SampledPair, prepared: Prepared, budget: Budget) -> list[Walk]:
    bare = not (prepared.reference or prepared.candidate)
    if near.reference.shape == near.candidate.shape and not bare:
        flat = sample_positions(near.reference.size, _QUICK)
        straight = near.agreement(flat)
        if straight is None or straight >= FIT or (not near.level.centred and stays_in_place(near, flat)):
            return [(Digit(near.reference.size, 1),)]
        if prepared.settled:
            return []
    found: list[Walk] = []
    if near.an_end_agrees():
        part = budget.part(_ROUNDS if bare else _FEW_ROUNDS)
        view = near if near.reference.size >= near.candidate.size else near.mirrored()
        found = WalkSearch(view, frozenset(cuts(view.candidate.shape)), part).walks()
        budget.merge(part)
    if bare and near.reference.size == near.candidate.size and not (found and np.isnan(near.common)):
        found += [walk for walk in _from_shapes(near) if walk not in found]
    return found


def stays_in_place(near: SampledPair, flat: np.ndarray) -> bool:
    """True if values are merely off by a little in their positions, so that none of them has moved."""
    share = near.agreement(flat, slack=SLACK)
    return share is not None and share >= IN_PLACE


def _from_shapes(near: SampledPair) -> list[Walk]:
    """Orders of whole axes that hold at a few places: values that say little still tell these apart."""
    walks = _axis_orders(near.reference.shape, near.candidate.shape)
    if not walks:
        return []
    flat = np.union1d(sample_positions(near.reference.size, _QUICK), near.rare[0])
    agreed, informative = _agreements(near, walks, flat)
    return [walk for walk, held in zip(walks, agreed >= FIT * informative, strict=True) if held]


def _completed(target: Shape, source: Shape, prepared: Prepared, walk: Walk) -> Proposal:
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
        log_attempts=prepared.log_attempts,
    )
