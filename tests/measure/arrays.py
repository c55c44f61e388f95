"""Arrays that are hard to measure, drawn from a seed and a few choices."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from firstdiff import dtypes

FLOATS = [name for name in dtypes.BY_NAME if dtypes.kind_of(dtypes.from_name(name)) == "float"]
WHOLE = [name for name in dtypes.BY_NAME if dtypes.kind_of(dtypes.from_name(name)) in ("int", "bool")]
COMPLEX = ["complex64", "complex128"]


@dataclass(frozen=True)
class Recipe:
    """scale, offset: powers of ten; noise: of the candidate, relative; special: share of awkward values."""

    seed: int
    size: int
    scale: int
    offset: int | None
    noise: float | None
    special: float


def recipes(max_size: int = 300, scales: tuple[int, int] = (-6, 4)) -> st.SearchStrategy[Recipe]:
    return st.builds(
        Recipe,
        seed=st.integers(0, 2**32 - 1),
        size=st.integers(0, max_size),
        scale=st.integers(*scales),
        offset=st.one_of(st.none(), st.integers(0, 4)),
        noise=st.one_of(st.none(), st.sampled_from([0.0, 1e-7, 1e-3, 1.0])),
        special=st.sampled_from([0.0, 0.0, 0.05, 0.5]),
    )


def arrays(recipe: Recipe, reference: str, candidate: str) -> tuple[np.ndarray, np.ndarray]:
    """A pair of 1-d arrays."""
    rng = np.random.default_rng(recipe.seed)
    sides = _whole(recipe, rng) if reference in WHOLE and candidate in WHOLE else _real(recipe, rng)
    return _as(sides[0], reference, recipe, rng), _as(sides[1], candidate, recipe, rng)


def same(left: np.ndarray, right: np.ndarray) -> bool:
    return left.tobytes() == right.tobytes()


def _real(recipe: Recipe, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    unit = 10.0**recipe.scale
    reference = rng.standard_normal(recipe.size)
    if recipe.offset is not None:
        reference = reference + 10.0**recipe.offset
    fresh = rng.standard_normal(recipe.size)
    candidate = fresh if recipe.noise is None else reference + recipe.noise * fresh * np.abs(reference)
    return reference * unit, candidate * unit


def _whole(recipe: Recipe, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    reference = rng.integers(-128, 256, recipe.size)
    step = rng.integers(-3, 4, recipe.size) * (rng.random(recipe.size) < 0.5)
    return reference, reference + step if recipe.noise else reference


def _as(values: np.ndarray, name: str, recipe: Recipe, rng: np.random.Generator) -> np.ndarray:
    dtype = dtypes.from_name(name)
    with np.errstate(all="ignore"):
        if dtype.kind == "c":
            array = (values + 1j * rng.permutation(values)).astype(dtype)
        elif name in WHOLE and values.dtype.kind == "f":
            array = np.clip(np.nan_to_num(values), 0, 127).astype(dtype)
        else:
            array = values.astype(dtype)
    chosen = rng.random(recipe.size) < recipe.special
    array[chosen] = rng.choice(awkward(name), int(chosen.sum()))
    return array


def awkward(name: str) -> np.ndarray:
    """Zeros of both signs, NaN, infinities and extremes, as far as the type has them."""
    dtype = dtypes.from_name(name)
    if name in WHOLE:
        limits = [0, 1] if name == "bool" else [np.iinfo(dtype).min, np.iinfo(dtype).max, 0]
        return np.array(limits, dtype)
    with np.errstate(all="ignore"):
        values = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1e-40, 1e-7, 3.0]).astype(dtype)
    return values.astype(dtype)
