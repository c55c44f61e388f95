"""Estimate a factor or offset for each index of an axis, and find those that have an effect."""

from __future__ import annotations

import numpy as np

from firstdiff.diagnose.values.estimates import factor_between
from firstdiff.diagnose.values.sides import Sides, of_channels

_MORE = 0.7
_SURE = 6.0
_SLIGHT = 1e-6
_NAMED = 6


@np.errstate(all="ignore")
def factors_along(
    reference: np.ndarray, candidate: np.ndarray, axes: tuple[int, ...], allowed: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The factor of each index of some axes, shaped to be multiplied by, and which are not 1.

    allowed: noise of the elements; a factor whose effect drowns in it is 1
    """
    others = tuple(axis for axis in range(reference.ndim) if axis not in axes)
    finite = np.isfinite(reference) & np.isfinite(candidate)
    r, c = np.where(finite, reference, 0.0), np.where(finite, candidate, 0.0)
    power = np.sum(np.abs(r) ** 2, axis=others, keepdims=True)
    factors = np.sum(np.conj(r) * c, axis=others, keepdims=True) / np.where(power > 0, power, 1.0)
    factors = np.where(power > 0, factors, 1.0)
    differ = _differ(np.abs(factors - 1.0) * np.sqrt(power), finite & (r != 0), allowed, others)
    differ &= np.abs(factors - 1.0) > _SLIGHT
    return np.where(differ, factors, 1.0), differ


@np.errstate(all="ignore")
def offsets_along(difference: np.ndarray, axes: tuple[int, ...], allowed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mean difference of each index of some axes, shaped to be added, and which are not 0."""
    others = tuple(axis for axis in range(difference.ndim) if axis not in axes)
    finite = np.isfinite(difference)
    count = finite.sum(axis=others, keepdims=True)
    offsets = np.sum(np.where(finite, difference, 0.0), axis=others, keepdims=True) / np.maximum(count, 1)
    differ = _differ(np.abs(offsets) * np.sqrt(count), finite, allowed, others)
    return np.where(differ, offsets, 0.0), differ


def _differ(effect: np.ndarray, told: np.ndarray, allowed: np.ndarray, others: tuple[int, ...]) -> np.ndarray:
    """Mark the indices whose effect, summed over their elements, exceeds the noise."""
    noise = np.sqrt(np.mean(np.where(told, allowed, 0.0) ** 2, axis=others, keepdims=True))
    return np.asarray(effect > _SURE * noise)


def indices_in_words(differ: np.ndarray) -> str:
    """Name the indices that differ: `index 3`, `indices 3, 17 and 40`, `12 of the 64 indices`, `all 64 indices`."""
    found = np.flatnonzero(differ)
    if found.size > _NAMED:
        return f"all {differ.size} indices" if differ.all() else f"{found.size} of the {differ.size} indices"
    names = [str(index) for index in found]
    return f"index {names[0]}" if len(names) == 1 else f"indices {', '.join(names[:-1])} and {names[-1]}"


def numbers_in_words(numbers: np.ndarray) -> str:
    """List the numbers where they are few, else the least and the greatest."""
    flat = numbers.reshape(-1)
    if flat.size <= _NAMED:
        return ", ".join(f"{number:.4g}" for number in flat)
    return f"{flat.min():.4g} to {flat.max():.4g}" if flat.dtype.kind == "f" else f"{flat.size} of them"


def axes_worth_trying(shape: tuple[int, ...], least: int = 3) -> list[int]:
    """Axes with enough elements at each index, the last first: there channels are."""
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
