"""A quick no: values that were only moved about keep their mean, spread, smallest and largest."""

from __future__ import annotations

from firstdiff.schema import Statistics

_SLACK = 0.02  # of the spread: as much as rounding to bf16 moves any of the figures


def could_be_rearranged(reference: Statistics, candidate: Statistics) -> bool:
    """Whether two tensors of one shape may hold the same values in another order; False saves the search.

    >>> could_be_rearranged(measured.reference, measured.candidate)
    False
    """
    if (reference.nan, reference.inf) != (candidate.nan, candidate.inf):
        return False
    return all(
        _near(getattr(reference, name), getattr(candidate, name), reference.std)
        for name in ("mean", "std", "min", "max")
    )


def _near(reference: float | None, candidate: float | None, spread: float | None) -> bool:
    if reference is None or candidate is None:
        return reference is candidate
    return abs(reference - candidate) <= _SLACK * ((spread or 0.0) + abs(reference))
