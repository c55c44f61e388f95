"""Robust estimates of factors and offsets, and the names of known constants."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import e, isfinite, log, pi, sqrt

import numpy as np

from firstdiff.diagnose.values.sides import Sides, of_channels

_SAMPLE = 1 << 14
_ROUNDS = 3
_OUTLIER = 6.0
_TO_DEVIATION = 1.4826


@dataclass(frozen=True, slots=True)
class Line:
    """`candidate = factor * reference + offset`, and how exactly the two are known."""

    factor: float
    offset: float
    factor_error: float
    offset_error: float


@np.errstate(all="ignore")
def factor_between(reference: np.ndarray, candidate: np.ndarray) -> tuple[complex, float] | None:
    """Estimate the factor between two rows of finite numbers, and its error; None for zeros."""
    r, c = _sampled_pairs(reference, candidate)
    sizes = np.abs(r)
    large = sizes >= np.median(sizes[sizes > 0]) if (sizes > 0).any() else sizes > 0
    if not large.any():
        return None
    ratios = c[large] / r[large]
    factor = complex(np.median(ratios.real), np.median(ratios.imag) if ratios.dtype.kind == "c" else 0.0)
    kept = np.ones(r.size, bool)
    for _ in range(_ROUNDS):
        left = np.abs(c - factor * r)
        kept = left <= max(_OUTLIER * _TO_DEVIATION * float(np.median(left)), 1e-12 * float(np.abs(c).max()))
        power = float(np.sum(np.abs(r[kept]) ** 2))
        if not power:
            return None
        factor = complex(np.sum(np.conj(r[kept]) * c[kept]) / power)
    noise = float(np.sum(np.abs(c[kept] - factor * r[kept]) ** 2)) / max(int(kept.sum()) - 1, 1)
    error = (noise / power) ** 0.5
    return factor, error + 4e-16 * abs(factor)


@np.errstate(all="ignore")
def line_between(reference: np.ndarray, candidate: np.ndarray) -> Line | None:
    """Fit a line to two rows of real finite numbers; None where the reference does not vary."""
    r, c = _sampled_pairs(reference, candidate)
    kept = np.ones(r.size, bool)
    found: Line | None = None
    for _ in range(_ROUNDS):
        if int(kept.sum()) < 3:
            return found
        x, y = r[kept], c[kept]
        centre, level = float(x.mean()), float(y.mean())
        power = float(np.sum((x - centre) ** 2))
        if power <= 1e-24 * float(np.sum(x * x)):
            return None
        factor = float(np.sum((x - centre) * (y - level)) / power)
        offset = level - factor * centre
        left = np.abs(c - factor * r - offset)
        noise = float(np.sum(left[kept] ** 2)) / (x.size - 2) if x.size > 2 else 0.0
        exactness = (noise / power) ** 0.5 + 4e-16 * abs(factor)
        found = Line(factor, offset, exactness, (noise / x.size) ** 0.5 + exactness * abs(centre))
        kept = left <= max(_OUTLIER * _TO_DEVIATION * float(np.median(left)), 1e-12 * float(np.abs(c).max()))
    return found


def _sampled_pairs(reference: np.ndarray, candidate: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    finite = np.isfinite(reference) & np.isfinite(candidate)
    r, c = reference[finite], candidate[finite]
    if r.size <= _SAMPLE:
        return r, c
    spread = (np.arange(_SAMPLE) * r.size // _SAMPLE + np.arange(_SAMPLE) * 7919 % (r.size // _SAMPLE)).clip(
        max=r.size - 1
    )
    return r[spread], c[spread]


_MORE = 0.7
_SURE = 6.0
_SLIGHT = 1e-6
_MOST_NAMED = 6


@np.errstate(all="ignore")
def factors_along(
    reference: np.ndarray, candidate: np.ndarray, axes: tuple[int, ...], allowed: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Estimate the factor of each index of some axes, shaped to broadcast, and mark those that are not 1.

    allowed: noise of the elements; a factor whose effect drowns in it is 1
    """
    others = tuple(axis for axis in range(reference.ndim) if axis not in axes)
    finite = np.isfinite(reference) & np.isfinite(candidate)
    r, c = np.where(finite, reference, 0.0), np.where(finite, candidate, 0.0)
    power = np.sum(np.abs(r) ** 2, axis=others, keepdims=True)
    factors = np.sum(np.conj(r) * c, axis=others, keepdims=True) / np.where(power > 0, power, 1.0)
    factors = np.where(power > 0, factors, 1.0)
    differ = _has_effect(np.abs(factors - 1.0) * np.sqrt(power), finite & (r != 0), allowed, others)
    differ &= np.abs(factors - 1.0) > _SLIGHT
    return np.where(differ, factors, 1.0), differ


@np.errstate(all="ignore")
def offsets_along(difference: np.ndarray, axes: tuple[int, ...], allowed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean difference of each index of some axes, shaped to broadcast, and mark those that are not 0."""
    others = tuple(axis for axis in range(difference.ndim) if axis not in axes)
    finite = np.isfinite(difference)
    count = finite.sum(axis=others, keepdims=True)
    offsets = np.sum(np.where(finite, difference, 0.0), axis=others, keepdims=True) / np.maximum(count, 1)
    differ = _has_effect(np.abs(offsets) * np.sqrt(count), finite, allowed, others)
    return np.where(differ, offsets, 0.0), differ


def _has_effect(effect: np.ndarray, told: np.ndarray, allowed: np.ndarray, others: tuple[int, ...]) -> np.ndarray:
    """Mark the indices whose effect, summed over their elements, exceeds the noise."""
    noise = np.sqrt(np.mean(np.where(told, allowed, 0.0) ** 2, axis=others, keepdims=True))
    return np.asarray(effect > _SURE * noise)


def indices_in_words(differ: np.ndarray) -> str:
    """Name the indices that differ: `index 3`, `indices 3, 17 and 40`, `12 of the 64 indices`, `all 64 indices`."""
    found = np.flatnonzero(differ)
    if found.size > _MOST_NAMED:
        return f"all {differ.size} indices" if differ.all() else f"{found.size} of the {differ.size} indices"
    names = [str(index) for index in found]
    return f"index {names[0]}" if len(names) == 1 else f"indices {', '.join(names[:-1])} and {names[-1]}"


def numbers_in_words(numbers: np.ndarray) -> str:
    """List the numbers where they are few, else the least and the greatest."""
    flat = numbers.reshape(-1)
    if flat.size <= _MOST_NAMED:
        return ", ".join(f"{number:.4g}" for number in flat)
    return f"{flat.min():.4g} to {flat.max():.4g}" if flat.dtype.kind == "f" else f"{flat.size} of them"


def axes_worth_trying(shape: tuple[int, ...], least: int = 3) -> list[int]:
    """Return the axes with enough elements at each index, the last first, where channels are."""
    size = int(np.prod(shape)) if shape else 0
    return [axis for axis in reversed(range(len(shape))) if shape[axis] > 1 and size // shape[axis] >= least]


def says_more(sides: Sides, predicted: np.ndarray, fitted: int) -> bool:
    """True if a factor or offset for each index leaves clearly less than a single one for the wrong part."""
    part = sides.part
    if of_channels(part):
        return True
    flat = part.reference.reshape(-1), part.candidate.reshape(-1)
    found = factor_between(*flat)
    apart = part.difference[part.finite & part.wrong]
    plain = [part.put_back(part.reference + np.median(apart))] if apart.size and part.real else []
    if found is not None:
        plain.append(part.put_back((found[0].real if part.real else found[0]) * part.reference))
    least = min((sides.left_by(made, 1).left for made in plain), default=1.0)
    return sides.left_by(predicted, fitted).left < _MORE * least


_LEAST_SLACK = 2e-6
_MOST_SLACK = 2e-3

LOG_BASES = {
    log(10.0): "ln(10), from base 10 to e",
    1.0 / log(10.0): "log10(e), from base e to 10",
    log(2.0): "ln(2), from base 2 to e",
    1.0 / log(2.0): "log2(e), from base e to 2",
    log(10.0) / log(2.0): "log2(10), from base 10 to 2",
    log(2.0) / log(10.0): "log10(2), from base 2 to 10",
    10.0 / log(10.0): "10 / ln(10), from natural logarithms to decibels",
    20.0 / log(10.0): "20 / ln(10), from natural logarithms of amplitudes to decibels",
    log(10.0) / 10.0: "ln(10) / 10, from decibels to natural logarithms",
    log(10.0) / 20.0: "ln(10) / 20, from decibels to natural logarithms of amplitudes",
}

_CONSTANTS = {
    255.0: "255, the range of a byte",
    256.0: "256, the values of a byte",
    127.5: "127.5, half the range of a byte",
    127.0: "127, the range of a signed byte",
    128.0: "128, half the values of a byte",
    32768.0: "32768, the range of 16-bit samples",
    32767.0: "32767, the range of 16-bit samples",
    2147483648.0: "2^31, the range of 32-bit samples",
    sqrt(2.0): "the root of 2",
    2.0: "2",
    3.0: "3",
    4.0: "4",
    8.0: "8",
    10.0: "10",
    100.0: "100",
    1000.0: "1000",
    pi: "pi",
    2 * pi: "2 pi",
    180.0 / pi: "180 / pi, from radians to degrees",
    e: "e",
    0.18215: "0.18215, the scale of a latent space",
    0.13025: "0.13025, the scale of a latent space",
    0.3611: "0.3611, the scale of a latent space",
    1.702: "1.702, of the quick gelu",
}


def constant_name(factor: float, error: float, sizes: Iterable[int]) -> str | None:
    """Describe a factor that is a known constant; None for any other.

    error: how exactly it is known
    sizes: lengths of axes and heads, whose roots and inverses are looked for too
    """
    if not isfinite(factor) or factor == 0:
        return None
    size, slack = abs(factor), min(max(5 * error / abs(factor), _LEAST_SLACK), _MOST_SLACK)
    for value, text in _known_constants(sizes):
        for known, words in (
            (value, text),
            (1 / value, f"1 / {text}" if "," in text or text.isdigit() else f"1 / ({text})"),
        ):
            if abs(size / known - 1.0) <= slack:
                return f"minus {words}" if factor < 0 else words
    return None


def _known_constants(sizes: Iterable[int]) -> Iterator[tuple[float, str]]:
    found = [size for size in dict.fromkeys(sizes) if size > 1]
    yield from _CONSTANTS.items()
    for size in found:
        yield sqrt(size), f"sqrt({size}), the root of a size"
    for size in found:
        yield float(size), f"{size}, a size"
    for size in found:
        yield size**0.25, f"the fourth root of {size}"
    yield from LOG_BASES.items()


def sizes_of(shapes: Iterable[tuple[int, ...]]) -> list[int]:
    """Return the lengths of all axes, and the head sizes that divide the last ones."""
    lengths = [length for shape in shapes for length in shape if length > 1]
    heads = [size for shape in shapes if shape for size in _head_sizes(shape[-1])]
    return list(dict.fromkeys([*lengths, *heads]))


def _head_sizes(length: int) -> Iterator[int]:
    for size in (64, 128, 32, 96, 80, 256, 16, 8, 48, 72, 40, 112, 160, 192, 512, 4):
        if size < length and length % size == 0:
            yield size
