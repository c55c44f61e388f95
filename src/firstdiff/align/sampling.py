"""Sample a pair at fixed positions, and test samples for equality up to noise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from math import log
from typing import Final, final

import numpy as np

from firstdiff import dtypes
from firstdiff.align.lazy import Lazy

_GOLDEN: Final = np.uint64(0x9E3779B97F4A7C15)
_MIX_1: Final = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2: Final = np.uint64(0x94D049BB133111EB)
_ROUNDS = 4096
_COMMON = 0.05  # a value that more than this share of the elements have tells little about where one of them belongs


@lru_cache(maxsize=256)
def scattered(count: int, salt: int = 0) -> np.ndarray:
    """Numbers that look random and never change (splitmix64)."""
    with np.errstate(over="ignore"):
        mixed = (np.arange(1, count + 1, dtype=np.uint64) + np.uint64(salt * 1_000_003)) * _GOLDEN
        mixed = (mixed ^ (mixed >> np.uint64(30))) * _MIX_1
        mixed = (mixed ^ (mixed >> np.uint64(27))) * _MIX_2
    mixed ^= mixed >> np.uint64(31)
    mixed.setflags(write=False)
    return mixed


@lru_cache(maxsize=256)
def sample_positions(size: int, count: int, salt: int = 0) -> np.ndarray:
    """At most `count` positions below `size`, spread evenly, rising."""
    if size <= count:
        return np.arange(size)
    edges = np.arange(count + 1) * size // count
    inside = scattered(count, salt) % (edges[1:] - edges[:-1]).astype(np.uint64)
    return np.asarray(edges[:-1] + inside.astype(np.int64))


def widened(values: np.ndarray) -> np.ndarray:
    """Numbers of any type as float64 or complex128."""
    return values.astype(np.complex128 if values.dtype.kind == "c" else np.float64)


@dataclass(frozen=True, slots=True)
class Noise:
    """The difference up to which two values count as the same: `atol + rtol * |reference|`."""

    atol: float
    rtol: float

    def scaled(self, factor: float) -> Noise:
        return Noise(factor * self.atol, factor * self.rtol)

    def same(self, reference: np.ndarray, candidate: np.ndarray) -> np.ndarray:
        """Element by element; NaN is the same as NaN here, since its place says as much as a number's."""
        with np.errstate(invalid="ignore", over="ignore"):
            near = np.abs(reference - candidate) <= self.atol + self.rtol * np.abs(reference)
        near &= np.isfinite(reference)
        return np.asarray(near | (reference == candidate) | (np.isnan(reference) & np.isnan(candidate)))


@dataclass(frozen=True, slots=True)
class Level:
    """A way to look at values: as they are, or each side brought to mean 0 and deviation 1 first."""

    noise: Noise
    centred: bool = False
    lenient: bool = False


def levels(reference: np.ndarray, candidate: np.ndarray, coarsest: np.dtype) -> list[Level]:
    """From strict to lenient: the noise of the type, that of bf16 (a cast long before), and likeness alone.

    reference, candidate: samples of the values
    coarsest: the coarser type of the two sides
    """
    found = [Level(noise, lenient=number > 0) for number, noise in enumerate(noises(reference, coarsest))]
    if spread_of(reference) > 0 and spread_of(candidate) > 0:
        found.append(Level(Noise(0.2, 0.1), centred=True, lenient=True))
    return found


def noises(reference: np.ndarray, coarsest: np.dtype) -> list[Noise]:
    """Return the noise that arithmetic in a type leaves, from strict to lenient.

    Arithmetic in fp32 leaves little, but may have had bf16 before it; a cast to bf16 or fp8 leaves a share of the
    value alone, arithmetic in them a share of the spread too.
    """
    eps = dtypes.eps_of(coarsest)
    if not eps:
        return [Noise(0.0, 0.0)]
    spread = spread_of(reference)
    if is_coarse(coarsest):
        return [Noise(0.1 * eps * spread, eps), Noise(2 * eps * spread, 2 * eps)]
    own = (64 if eps < 1e-5 else 4) * eps
    return [Noise(own * spread, own), Noise(_BF16 * spread, _BF16)]


_BF16 = 2 * 2.0**-7


def is_coarse(dtype: np.dtype) -> bool:
    """True for bf16 and coarser types."""
    return dtypes.eps_of(dtype) > 5e-3


def coarser(one: np.dtype, other: np.dtype) -> np.dtype:
    return max((one, other), key=dtypes.eps_of)


def spread_of(values: np.ndarray) -> float:
    """Standard deviation of the finite values."""
    return scale_of(values)[1]


Scale = tuple[complex | float, float]


def centred(values: np.ndarray, scale: Scale) -> np.ndarray:
    """Move and scale values so that those the scale was taken of have mean 0 and standard deviation 1."""
    return np.asarray((values - scale[0]) / scale[1])


def scale_of(values: np.ndarray) -> Scale:
    """Mean and standard deviation of the finite values."""
    finite = values[np.isfinite(values)]
    largest = float(np.abs(finite).max(initial=0.0))
    if not largest:
        return 0.0, 0.0
    unit = finite / largest  # squares of huge or tiny numbers would leave the range
    return unit.mean() * largest, float(unit.std()) * largest


def common_value(values: np.ndarray) -> complex | float:
    """The value that many elements have, such as the 0 of a mask; NaN if there is none."""
    seen, counts = np.unique(values, return_counts=True)
    if not counts.size or counts.max() <= max(_COMMON * values.size, 1):
        return float("nan")
    return complex(seen[counts.argmax()]) if seen.dtype.kind == "c" else float(seen[counts.argmax()])


@dataclass(frozen=True, slots=True)
class Score:
    """The agreement of two lists of values.

    agreement: share that is the same up to noise, of those that tell something
    chance: that share when the places do not belong together
    informative: how many tell something (both sides having the common value does not)
    """

    agreement: float
    chance: float
    informative: int

    @property
    def evidence(self) -> float:
        """Log likelihood ratio of the agreement against chance; 0 where chance explains it."""
        if not self.informative or self.agreement <= self.chance:
            return 0.0
        chance = min(self.chance, 1 - 1e-9)
        agreement = min(self.agreement, 1 - 1e-9)
        gain = agreement * log(agreement / chance) + (1 - agreement) * log((1 - agreement) / (1 - chance))
        return self.informative * gain


NOTHING: Final = Score(0.0, 1.0, 0)


def score(
    reference: np.ndarray, candidate: np.ndarray, noise: Noise, common: complex | float, others: np.ndarray
) -> Score:
    """Compare lists of values element by element.

    others: candidate values from anywhere, to see how often one agrees by chance
    """
    informative = informative_pairs(reference, candidate, common)
    reference, candidate = reference[informative], candidate[informative]
    if not reference.size:
        return NOTHING
    rounds = max(_ROUNDS // reference.size, 8)
    draws = (scattered(rounds * reference.size, 7) % np.uint64(others.size)).astype(np.int64)
    lucky = noise.same(np.tile(reference, rounds), others[draws])
    agreement = float(noise.same(reference, candidate).mean())
    own = agreement / others.size  # an element's true partner is among the others, and is no chance
    return Score(agreement, max(float(lucky.mean()) - own, 0.5 / lucky.size), int(reference.size))


def informative_pairs(reference: np.ndarray, candidate: np.ndarray, common: complex | float) -> np.ndarray:
    """Mask the pairs in which at least one side has another value than the common one."""
    return np.asarray((reference != common) | (candidate != common))


_SAMPLE = 2048
_SCANNED = 1 << 20
_FEW = 128


@final
@dataclass(frozen=True, eq=False)
class SampledPair:
    """Samples of both sides, taken once, and the level at which they are compared.

    common: a value that many elements of both sides have; NaN if there is none
    rare: for each side, some places with another value, looked for where a sample meets too few
    chance: how often values that do not belong together agree
    """

    reference: Lazy
    candidate: Lazy
    reference_sample: np.ndarray
    candidate_sample: np.ndarray
    level: Level
    common: complex | float
    rare: tuple[np.ndarray, np.ndarray]
    scales: tuple[Scale, Scale]
    chance: float = 0.0

    @staticmethod
    def of(reference: Lazy, candidate: Lazy, noise: Noise | None = None) -> list[SampledPair]:
        """One pair for every level, strict ones first; `noise` is the strictest where it is stated."""
        coarsest = coarser(reference.dtype, candidate.dtype)
        samples = _sampled(reference), _sampled(candidate)
        common = common_value(np.concatenate(samples))
        found = levels(*samples, coarsest)
        if noise is not None:
            found[0] = Level(noise)
        rare = (_rare_places(reference, samples[0], common), _rare_places(candidate, samples[1], common))
        scales = scale_of(samples[0]), scale_of(samples[1])
        pairs = [SampledPair(reference, candidate, *samples, level, common, rare, scales) for level in found]
        return [replace(pair, chance=pair._shuffled().agreement) for pair in pairs]

    @property
    def sparse(self) -> bool:
        """True if nearly all elements have the common value."""
        return any(places.size for places in self.rare)

    def through(self, reference: Lazy, candidate: Lazy) -> SampledPair:
        """The same pair of tensors made from these."""
        return replace(self, reference=reference, candidate=candidate)

    def mirrored(self) -> SampledPair:
        """The same with the sides exchanged."""
        return replace(
            self,
            reference=self.candidate,
            candidate=self.reference,
            reference_sample=self.candidate_sample,
            candidate_sample=self.reference_sample,
            rare=self.rare[::-1],
            scales=self.scales[::-1],
        )

    def reference_at(self, flat: np.ndarray) -> np.ndarray:
        return self._centred(widened(self.reference.take(flat)), self.scales[0])

    def candidate_at(self, flat: np.ndarray) -> np.ndarray:
        return self._centred(widened(self.candidate.take(flat)), self.scales[1])

    def _centred(self, values: np.ndarray, scale: Scale) -> np.ndarray:
        return centred(values, scale) if self.level.centred else values

    def same(self, reference: np.ndarray, candidate: np.ndarray) -> np.ndarray:
        return self.level.noise.same(reference, candidate)

    def informative(self, reference: np.ndarray, candidate: np.ndarray) -> np.ndarray:
        return informative_pairs(reference, candidate, self._common())

    def ends_agree(self) -> bool:
        """True if the first elements are the same and the last ones are, as any order of axes keeps them."""
        return bool(self.same(*self._ends()).all())

    def an_end_agrees(self) -> bool:
        """True if the first or the last elements are the same: damage may hide one of the two."""
        return bool(self.same(*self._ends()).any())

    def _ends(self) -> list[np.ndarray]:
        return [side(np.array([0, tensor.size - 1])) for side, tensor in self._sides()]

    def agreement(self, flat: np.ndarray, *, slack: float = 1.0) -> float | None:
        """The share that agrees at the same places of those that tell anything; None if none does."""
        reference, candidate = self.reference_at(flat), self.candidate_at(flat)
        informative = self.informative(reference, candidate)
        agreed = self.level.noise.scaled(slack).same(reference, candidate) & informative
        return float(agreed.sum() / informative.sum()) if informative.any() else None

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
        """Score the samples against each other in random order."""
        reference, candidate = (
            self._centred(sample[(scattered(_FEW, salt) % np.uint64(sample.size)).astype(np.int64)], scale)
            for salt, sample, scale in zip(
                (8, 9), (self.reference_sample, self.candidate_sample), self.scales, strict=True
            )
        )
        return score(reference, candidate, self.level.noise, self._common(), candidate)

    def _sides(self) -> tuple[tuple[Callable[[np.ndarray], np.ndarray], Lazy], ...]:
        return (self.reference_at, self.reference), (self.candidate_at, self.candidate)

    def score(self, flat: np.ndarray) -> Score:
        """Score the agreement at these positions of two tensors of one shape."""
        others = self._centred(self.candidate_sample, self.scales[1])
        return score(self.reference_at(flat), self.candidate_at(flat), self.level.noise, self._common(), others)

    def _common(self) -> complex | float:
        if not self.level.centred:
            return self.common
        return complex(centred(np.asarray(self.common), self.scales[0]))


def _sampled(tensor: Lazy) -> np.ndarray:
    return widened(tensor.take(sample_positions(tensor.size, _SAMPLE)))


def _rare_places(tensor: Lazy, sample: np.ndarray, common: complex | float) -> np.ndarray:
    if np.isnan(common) or np.count_nonzero(sample != common) >= _FEW or tensor.size <= sample.size:
        return np.empty(0, np.int64)
    found = np.flatnonzero(tensor.window(0, min(tensor.size, _SCANNED)) != common)
    if found.size > _FEW:
        found = found[(scattered(_FEW, 6) % np.uint64(found.size)).astype(np.int64)]
    return np.asarray(found)
