"""Two tensors seen through a level of noise: their values where a search asks for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from firstdiff.align.lazy import Lazy
from firstdiff.align.samples import (
    Level,
    Noise,
    Score,
    centred,
    coarser,
    common_value,
    levels,
    places,
    scattered,
    score,
    telling_pairs,
    widened,
)

_SAMPLE = 2048
_SCANNED = 1 << 20
_FEW = 128


@final
@dataclass(frozen=True, eq=False)
class Sight:
    """Samples of both sides, taken once, and the level at which they are compared.

    common: a value that many elements of both sides have; NaN if there is none
    rare: for each side, some places with another value, looked for where a sample meets too few
    luck: how often values that do not belong together agree
    """

    reference: Lazy
    candidate: Lazy
    reference_sample: np.ndarray
    candidate_sample: np.ndarray
    level: Level
    common: complex | float
    rare: tuple[np.ndarray, np.ndarray]
    luck: float = 0.0

    @staticmethod
    def of(reference: Lazy, candidate: Lazy, noise: Noise | None = None) -> list[Sight]:
        """One sight for every level, strict ones first; `noise` is the strictest where it is stated."""
        coarsest = coarser(reference.dtype, candidate.dtype)
        seen = _sampled(reference), _sampled(candidate)
        common = common_value(np.concatenate(seen))
        found = levels(*seen, coarsest)
        if noise is not None:
            found[0] = Level(noise)
        rare = (_rare_places(reference, seen[0], common), _rare_places(candidate, seen[1], common))
        sights = [Sight(reference, candidate, *seen, level, common, rare) for level in found]
        return [replace(sight, luck=sight._shuffled().agreement) for sight in sights]

    @property
    def sparse(self) -> bool:
        """Whether nearly all elements have the common value."""
        return any(places.size for places in self.rare)

    def through(self, reference: Lazy, candidate: Lazy) -> Sight:
        """The same sight of tensors made from these."""
        return replace(self, reference=reference, candidate=candidate)

    def mirrored(self) -> Sight:
        """The same with the sides exchanged."""
        return replace(
            self,
            reference=self.candidate,
            candidate=self.reference,
            reference_sample=self.candidate_sample,
            candidate_sample=self.reference_sample,
            rare=self.rare[::-1],
        )

    def reference_at(self, flat: np.ndarray) -> np.ndarray:
        return self._centred(widened(self.reference.take(flat)), self.reference_sample)

    def candidate_at(self, flat: np.ndarray) -> np.ndarray:
        return self._centred(widened(self.candidate.take(flat)), self.candidate_sample)

    def _centred(self, values: np.ndarray, sample: np.ndarray) -> np.ndarray:
        return centred(values, sample) if self.level.centred else values

    def same(self, reference: np.ndarray, candidate: np.ndarray) -> np.ndarray:
        return self.level.noise.same(reference, candidate)

    def telling(self, reference: np.ndarray, candidate: np.ndarray) -> np.ndarray:
        return telling_pairs(reference, candidate, self._common())

    def ends_agree(self) -> bool:
        """Whether the first elements are the same and the last are, as under any change that keeps the ends."""
        ends = [side(np.array([0, tensor.size - 1])) for side, tensor in self._sides()]
        return bool(self.same(*ends).all())

    def potential(self) -> float:
        """The evidence a perfect recipe would have: none where one side is the same number nearly everywhere."""
        found = []
        for (_, tensor), sample, rare in zip(
            self._sides(), (self.reference_sample, self.candidate_sample), self.rare, strict=True
        ):
            values = np.concatenate([sample, widened(tensor.take(rare))])
            found.append(score(values, values, self.level.noise, self.common, sample).evidence)
        return min(found)

    def _shuffled(self) -> Score:
        """The samples compared out of step."""
        reference, candidate = (
            self._centred(sample, sample)[(scattered(_FEW, salt) % np.uint64(sample.size)).astype(np.int64)]
            for salt, sample in ((8, self.reference_sample), (9, self.candidate_sample))
        )
        return score(reference, candidate, self.level.noise, self._common(), candidate)

    def _sides(self) -> tuple[tuple[Callable[[np.ndarray], np.ndarray], Lazy], ...]:
        return (self.reference_at, self.reference), (self.candidate_at, self.candidate)

    def score(self, flat: np.ndarray) -> Score:
        """How well the two agree at the same places; their shapes are the same by now."""
        others = self._centred(self.candidate_sample, self.candidate_sample)
        return score(self.reference_at(flat), self.candidate_at(flat), self.level.noise, self._common(), others)

    def _common(self) -> complex | float:
        if not self.level.centred:
            return self.common
        return complex(centred(np.asarray(self.common), self.reference_sample))


def _sampled(tensor: Lazy) -> np.ndarray:
    return widened(tensor.take(places(tensor.size, _SAMPLE)))


def _rare_places(tensor: Lazy, sample: np.ndarray, common: complex | float) -> np.ndarray:
    if np.isnan(common) or np.count_nonzero(sample != common) >= _FEW or tensor.size <= sample.size:
        return np.empty(0, np.int64)
    found = np.flatnonzero(tensor.window(0, min(tensor.size, _SCANNED)) != common)
    if found.size > _FEW:
        found = found[(scattered(_FEW, 6) % np.uint64(found.size)).astype(np.int64)]
    return np.asarray(found)
