"""Layouts: recipes that bring two tensors into one order, and the solver that finds them. `docs/layouts.md` explains.

`solve` relates two tensors, `solve_shards` what ranks hold, `solve_fused` what one side keeps in one tensor; each
gives a `Solution`, whose `alignment` turns sources into sources that can be measured as they come.
"""

from firstdiff.align.mapping import Mapped, Slice, map_slices
from firstdiff.align.prechecks import could_be_rearranged
from firstdiff.align.recipe import Alignment, Recipe
from firstdiff.align.sampling import Noise
from firstdiff.align.solution import Ruling, Solution, layout_rule
from firstdiff.align.solver import solve, solve_stated
from firstdiff.align.split_tensors import solve_fused, solve_shards
from firstdiff.align.strategies import Prepared, Strategy

__all__ = [
    "Alignment",
    "Mapped",
    "Noise",
    "Prepared",
    "Recipe",
    "Ruling",
    "Slice",
    "Solution",
    "Strategy",
    "could_be_rearranged",
    "layout_rule",
    "map_slices",
    "solve",
    "solve_fused",
    "solve_shards",
    "solve_stated",
]
