"""Tensors that do not lie in C order measure like the same values in order."""

from __future__ import annotations

import numpy as np
import pytest

from firstdiff.align import Recipe
from firstdiff.measure import Allowed, measure_pair, plan
from firstdiff.trace import ArraySource, Source

RECIPES = [
    ("b s h d -> b h s d", (3, 70, 40, 64)),
    ("b s h d -> s (b h) d", (3, 70, 40, 64)),
    ("b s h d -> b s (h r=4) d", (3, 70, 10, 64)),
    ("a b -> (a r=3) b", (700, 300)),
    ("a b -> a (b r=3)", (700, 300)),
    ("[:, 16:48]", (700, 640)),
    ("chunks(axis=1, order=1 0)", (700, 642)),
    ("ungroup(axis=0, groups=8, parts=50 20 20)", (720, 501)),
    ("a b -> b a", (701, 503)),
    ("a b -> b a", (20_011, 17)),
    ("b s h d -> b h d s", (2, 200, 4, 128)),
    ("b s h d -> d h s b", (2, 200, 4, 128)),
    ("a b (d=64 e) -> a b (e d)", (30, 90, 128)),
]


def in_order(made: Source) -> ArraySource:
    return ArraySource(made.window(0, made.size).copy().reshape(made.shape))


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(("text", "shape"), RECIPES)
def test_a_recipe_measures_like_the_same_values_in_order(
    monkeypatch: pytest.MonkeyPatch, text: str, shape: tuple[int, ...], threads: int
) -> None:
    monkeypatch.setattr(plan, "WINDOW_BYTES", 1 << 20)
    candidate = np.random.default_rng(0).standard_normal(shape, np.float32)
    candidate.reshape(-1)[[5, 77_777, 77_778]] = np.nan, np.inf, 0.0
    made = Recipe.parse(text).apply([ArraySource(candidate)])
    order = in_order(made)
    noise = np.random.default_rng(1).standard_normal(made.shape, np.float32)
    reference = ArraySource(order.view() + np.float32(1e-4) * noise)
    through = measure_pair(reference, made, Allowed(1e-4, 0.0), threads=threads)
    assert repr(through) == repr(measure_pair(reference, order, Allowed(1e-4, 0.0)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_views_with_any_strides_measure_like_copies(dtype: type) -> None:
    rng = np.random.default_rng(0)
    stored = rng.standard_normal((40, 50, 60)).astype(dtype)
    candidate = rng.standard_normal((60, 25, 40)).astype(dtype)
    for view in (stored.T[:, ::2], stored.T[::-1, 1::2], np.broadcast_to(stored[0, :25].T[..., None], (60, 25, 40))):
        through, straight = (
            measure_pair(ArraySource(side), ArraySource(candidate), Allowed(1.0, 0.0))
            for side in (view, np.ascontiguousarray(view))
        )
        assert repr(through) == repr(straight)


@pytest.mark.parametrize("dtype", ["<f4", "<f8", "<f2"])
def test_values_that_are_not_aligned_measure_like_copies(dtype: str) -> None:
    values = np.random.default_rng(0).standard_normal(3000).astype(dtype)
    raw = np.zeros(values.nbytes + 1, np.uint8)
    raw[1:] = values.view(np.uint8)
    odd = raw[1:].view(dtype)
    assert not odd.flags.aligned
    both = [
        measure_pair(ArraySource(side), ArraySource(values[::-1].copy()), Allowed(1.0, 0.0)) for side in (odd, values)
    ]
    assert repr(both[0]) == repr(both[1])
