"""One of several equal parts fits: what the others look like, in a sentence."""

from __future__ import annotations

from dataclasses import replace

from firstdiff.align.proposal import score_of
from firstdiff.align.recipe import Alignment, Recipe
from firstdiff.align.sampling import Sight, places
from firstdiff.align.steps import Crop

_MOST_PARTS = 64
_NAMED = 8
_QUICK = 128


def other_parts(sight: Sight, alignment: Alignment) -> tuple[str, ...]:
    """How well the parts that a recipe leaves out would have agreed; nothing where it leaves out none."""
    for side, tensor in (("reference", sight.reference), ("candidate", sight.candidate)):
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
            shares.append(_agreement(sight, replace(alignment, **{side: moved})))
        return (_sentence(side, axis, part.start // kept, shares),)
    return ()


def _agreement(sight: Sight, alignment: Alignment) -> float:
    size = min(sight.reference.size, sight.candidate.size)
    return score_of(sight, alignment, places(size, _QUICK)).agreement


def _sentence(side: str, axis: int, number: int, shares: list[float]) -> str:
    others = [f"{other}: {share:.0%}" for other, share in enumerate(shares) if other != number]
    listed = ", ".join(others[:_NAMED]) + (", …" if len(others) > _NAMED else "")
    return f"part {number} of {len(shares)} along axis {axis} of the {side} is compared; the others agree by {listed}"
