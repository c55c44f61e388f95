"""Find the strides at which one tensor's C order reads another's memory, from the values alone.

Any mix of permutations, flattening and unflattening sends element p of one tensor to element sum(stride * digit) of
the other, where the digits are those of p in some mixed radix. The first element stays first and the last stays last,
so the search starts at both ends: which stride takes us from element 0 to the partner of element 1, how far does that
stride carry, and so on outwards. Right strides agree everywhere, wrong ones almost nowhere, so few are followed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from time import perf_counter
from typing import NamedTuple, final

import numpy as np

from firstdiff.align.sampling import SampledPair, sample_positions, scattered

_TESTS = 12  # places compared at each end for every stride
_MORE_TESTS = 40  # where many of them have the common value, which tells nothing
_CONFIRMING = 64
_ENOUGH = 0.45  # share that must agree of what chance would not: damage in the data may hide some
_MOSTLY = 0.65


class Digit(NamedTuple):
    """`size` steps of `stride` elements; stride 0 stays where it is, as a repeated head does."""

    size: int
    stride: int


Walk = tuple[Digit, ...]  # outermost first


@dataclass(frozen=True, slots=True)
class _State:
    """Digits found so far, innermost first; the strides still open, as ranges of the divisors; repeats still due."""

    digits: Walk
    span: int
    gaps: tuple[tuple[int, int], ...]
    repeats: int

    def with_digit(self, digit: Digit) -> _State:
        if digit.stride == 0:
            return _State((*self.digits, digit), self.span * digit.size, self.gaps, self.repeats // digit.size)
        gaps: list[tuple[int, int]] = []
        for low, high in self.gaps:
            if _is_within(digit.stride, low, high):
                gaps += [(low, digit.stride), (digit.stride * digit.size, high)]
            else:
                gaps.append((low, high))
        gaps = [(low, high) for low, high in gaps if low < high]
        return _State((*self.digits, digit), self.span * digit.size, tuple(gaps), self.repeats)

    def strides(self) -> list[int]:
        """Every stride that a next digit may have."""
        found = [low * d for low, high in self.gaps for d in divisors(high // low)[:-1]]
        return [0, *found] if self.repeats > 1 else found

    def sizes(self, stride: int) -> tuple[int, ...]:
        """Every size that a digit of this stride may have."""
        if stride == 0:
            return divisors(self.repeats)[1:]
        return next(divisors(high // stride)[1:] for low, high in self.gaps if _is_within(stride, low, high))


def _is_within(stride: int, low: int, high: int) -> bool:
    return low <= stride < high and stride % low == 0 and high % stride == 0


@final
@dataclass(slots=True)
class Budget:
    """The rounds of comparisons a search may still spend, so that uninformative values do not keep it going.

    deadline: the `time.perf_counter()` at which the search stops
    stopped: whether the deadline has cut anything short
    """

    left: int
    deadline: float | None = None
    stopped: bool = False

    def spend(self) -> bool:
        self.left -= 1
        return self.left >= 0 and not self.is_over()

    def is_over(self) -> bool:
        """True once the deadline has passed."""
        if self.deadline is not None and not self.stopped:
            self.stopped = perf_counter() >= self.deadline
        return self.stopped

    def limit(self, most: int) -> None:
        self.left = min(self.left, most)

    def part(self, most: int) -> Budget:
        """Set some aside for one search; what it does not spend comes back with `merge`."""
        taken = min(most, max(self.left, 0))
        self.left -= taken
        return Budget(taken, self.deadline, self.stopped)

    def merge(self, part: Budget) -> None:
        self.left += max(part.left, 0)
        self.stopped |= part.stopped


@final
class WalkSearch:
    """Walks of `pair.reference` through `pair.candidate`, whose size divides that of the reference.

    natural: strides that the shapes suggest; of strides that the values cannot tell apart they come first
    """

    def __init__(self, pair: SampledPair, natural: frozenset[int], budget: Budget) -> None:
        self._pair = pair
        self._natural = natural
        self._budget = budget
        self._tests = _TESTS if np.isnan(pair.common) else _MORE_TESTS
        self._enough, self._mostly = (pair.chance + (1 - pair.chance) * share for share in (_ENOUGH, _MOSTLY))
        self._size = pair.reference.size
        self._target = pair.candidate.size

    def walks(self, limit: int = 8) -> list[Walk]:
        """The walks that agree at every place looked at, best first."""
        found: dict[Walk, None] = {}
        start = _State((), 1, ((1, self._target),) if self._target > 1 else (), self._size // self._target)
        for state in self._follow(start):
            found[merged(state.digits[::-1])] = None
            if len(found) == limit:
                break
        return list(found)

    def _follow(self, state: _State) -> Iterator[_State]:
        if state.span == self._size:
            if self._confirmed(state):
                yield state
            return
        longest, shorter = self._branches(state)
        for branches in (longest, shorter):
            finished = False
            for digit in branches:
                for end in self._follow(state.with_digit(digit)):
                    finished = True
                    yield end
            if finished:
                return

    def _confirmed(self, state: _State) -> bool:
        """True if a finished walk agrees at positions spread over the whole tensor."""
        flat = sample_positions(self._size, _CONFIRMING)
        reference = self._pair.reference_at(flat)
        candidate = self._pair.candidate_at(walked(state.digits[::-1], flat))
        informative = self._pair.informative(reference, candidate)
        agreed = self._pair.same(reference, candidate) & informative
        return bool(agreed.sum() >= self._mostly * informative.sum())

    def _branches(self, state: _State) -> tuple[list[Digit], list[Digit]]:
        """The digits that may come next, the best supported first: as far as each stride carries, and less far."""
        ranked: list[tuple[int, int, int, list[int]]] = []
        for stride in self._first_steps(state):
            sizes, agreed = self._carries(state, stride)
            if sizes:
                plainness = 0 if stride == state.span else 1 if stride in self._natural else 2
                ranked.append((-agreed, plainness, stride, sizes))
        ranked.sort()
        longest = [Digit(sizes[-1], stride) for _, _, stride, sizes in ranked]
        shorter = [Digit(size, stride) for _, _, stride, sizes in ranked for size in sizes[-2::-1]]
        return longest, shorter

    def _first_steps(self, state: _State) -> list[int]:
        """Strides that lead from an element to the partner of the next one along the digit."""
        strides = np.array(state.strides(), np.int64)
        low = _scattered_below(state.span, self._tests, 0)
        agreed, informative = self._compare(state, low, np.ones_like(low), strides[:, np.newaxis])
        return [int(stride) for stride in strides[_holds(agreed.sum(axis=2), informative.sum(axis=2), self._enough)]]

    def _carries(self, state: _State, stride: int) -> tuple[list[int], int]:
        """The digit sizes up to which a stride agrees with the values, rising, and at how many places it does."""
        sizes = np.array([size for size in state.sizes(stride) if self._size // state.span % size == 0], np.int64)
        low = _scattered_below(state.span, self._tests, 1)
        inside = 1 + (scattered(self._tests, 2) % (sizes[:, np.newaxis] - 1).astype(np.uint64)).astype(np.int64)
        ends = np.broadcast_to(sizes[:, np.newaxis] - 1, inside.shape)
        digits = np.concatenate([inside, ends], axis=1)
        agreed, informative = self._compare(
            state, np.resize(low, 2 * self._tests), digits, np.full((len(sizes), 1), stride)
        )
        good = np.ones(len(sizes), bool)
        for part, share in ((slice(self._tests), self._mostly), (slice(self._tests, None), self._enough)):
            good &= _holds(agreed[:, :, part].sum(axis=2), informative[:, :, part].sum(axis=2), share)
        return [int(size) for size in sizes[good]], int(agreed[good].sum(axis=(1, 2)).max(initial=0))

    def _compare(
        self, state: _State, low: np.ndarray, digits: np.ndarray, strides: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Mask where the values agree, and where they are informative: by stride, end of the tensor, and position."""
        near = np.broadcast_to(low + state.span * digits, (len(strides), len(low)))
        if not self._budget.spend():
            nothing = np.zeros((len(strides), 2, len(low)), bool)
            return nothing, ~nothing
        far = walked(state.digits[::-1], low) + strides * digits
        reference = self._pair.reference_at(np.stack([near, self._size - 1 - near], axis=1))
        candidate = self._pair.candidate_at(np.stack([far, self._target - 1 - far], axis=1))
        informative = self._pair.informative(reference, candidate)
        return self._pair.same(reference, candidate) & informative, informative


def _holds(agreed: np.ndarray, informative: np.ndarray, share: float) -> np.ndarray:
    """True where this share agrees at either end of the tensor (last axis), or neither end is informative."""
    at_one_end = ((agreed >= share * informative) & (informative > 0)).any(axis=-1)
    return np.asarray(at_one_end | (informative == 0).all(axis=-1))


def merged(walk: Walk) -> Walk:
    """The same walk in as few digits as it takes, outermost first."""
    found: list[Digit] = []
    for digit in walk:
        if digit.size == 1:
            continue
        if found and found[-1].stride == digit.stride * digit.size:
            found[-1] = Digit(found[-1].size * digit.size, digit.stride)
        else:
            found.append(digit)
    return tuple(found)


def _scattered_below(span: int, count: int, salt: int) -> np.ndarray:
    """Places below `span`: all of them if they are few."""
    if span <= count:
        return np.arange(span)
    return (scattered(count, salt) % np.uint64(span)).astype(np.int64)


def walked(walk: Walk, flat: np.ndarray) -> np.ndarray:
    """Map positions of the walking tensor to positions of the other."""
    position = np.zeros_like(flat)
    for size, stride in reversed(walk):
        flat, digit = np.divmod(flat, size)
        position = position + digit * stride
    return position


@lru_cache(maxsize=4096)
def primes(number: int) -> tuple[int, ...]:
    """The prime factors, each once, rising."""
    found, factor = [], 2
    while factor * factor <= number:
        if number % factor == 0:
            found.append(factor)
            while number % factor == 0:
                number //= factor
        factor += 1
    return (*found, number) if number > 1 else tuple(found)


@lru_cache(maxsize=4096)
def divisors(number: int) -> tuple[int, ...]:
    """Every divisor, rising."""
    found, rest = [1], number
    for prime in primes(number):
        power, powers = 1, [1]
        while rest % prime == 0:
            rest //= prime
            power *= prime
            powers.append(power)
        found = [a * b for a in found for b in powers]
    return tuple(sorted(found))
