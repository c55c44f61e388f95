from __future__ import annotations

import numpy as np
import pytest

from firstdiff.align import Solution, layout_rule, solve_fused
from firstdiff.trace import ArraySource, Source

INNER = 40


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def sources(arrays: list[np.ndarray]) -> list[Source]:
    return [ArraySource(np.ascontiguousarray(array)) for array in arrays]


def solved(references: list[np.ndarray], candidates: list[np.ndarray]) -> Solution:
    solution = solve_fused(sources(references), sources(candidates))
    if solution.fits:
        assert solution.alignment is not None
        sides = solution.alignment.apply(sources(references), sources(candidates))
        np.testing.assert_array_equal(sides[0].view(), sides[1].view())
    return solution


Q, K, V = (normal(128, INNER, seed=seed) for seed in range(3))
KEY, VALUE = K[:32], V[:32]
GROUPS = [[part.reshape(2, -1, INNER)[group] for part in (Q, KEY, VALUE)] for group in range(2)]

LAYOUTS: dict[str, tuple[list[np.ndarray], np.ndarray, str]] = {
    "plain": ([Q, K, V], np.concatenate([Q, K, V]), "concat(axis=0)"),
    "plain, transposed": ([Q, K, V], np.concatenate([Q, K, V]).T, "concat(axis=0) | a b -> b a"),
    "by head": (
        [Q, K, V],
        np.stack([part.reshape(8, 16, INNER) for part in (Q, K, V)], 1).reshape(-1, INNER),
        "concat(axis=0) | (a=3 b=8 c) d -> (b a c) d",
    ),
    "few kv heads": ([Q, KEY, VALUE], np.concatenate([Q, KEY, VALUE]), "concat(axis=0)"),
    "grouped": (
        [Q, KEY, VALUE],
        np.concatenate([part for group in GROUPS for part in group]),
        "concat(axis=0) | group(axis=0, groups=2, parts=64 16 16)",
    ),
    "gate and up": ([Q, K], np.concatenate([Q, K]), "concat(axis=0)"),
    "gate and up, interleaved": (
        [Q, K],
        np.stack([Q, K], 1).reshape(-1, INNER),
        "concat(axis=0) | (a=2 b) c -> (b a) c",
    ),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_parts_make_up_what_is_fused(name: str) -> None:
    parts, fused, text = LAYOUTS[name]
    solution = solved([fused], parts)
    assert str(solution.alignment) == text
    assert (solution.fits, solution.cause) == (True, "layout.fused")
    assert layout_rule(solution).may_match


@pytest.mark.parametrize("name", LAYOUTS)
def test_either_side_may_be_the_fused_one(name: str) -> None:
    parts, fused, _ = LAYOUTS[name]
    solution = solved(parts, [fused])
    assert str(solution.alignment).startswith("reference: concat(axis=0)")
    assert solution.fits
    assert layout_rule(solution).may_match


@pytest.mark.parametrize(
    ("parts", "order", "cause"),
    [
        ([Q, K, V], (1, 0, 2), "layout.qkv_order"),
        ([Q, KEY, VALUE], (2, 0, 1), "layout.qkv_order"),
        ([Q, K], (1, 0), "layout.chunk_swap"),
    ],
    ids=["k q v", "v q k", "up gate"],
)
def test_parts_in_another_order_are_a_mismatch(parts: list[np.ndarray], order: tuple[int, ...], cause: str) -> None:
    solution = solved([np.concatenate([parts[at] for at in order])], parts)
    assert str(solution.alignment) == f"pick(order={' '.join(map(str, order))}) | concat(axis=0)"
    assert (solution.fits, solution.cause) == (True, cause)
    assert not layout_rule(solution).may_match


def test_heads_of_activations_are_found_in_the_fused_output() -> None:
    parts = [normal(2, 8, 10, 16, seed=seed) for seed in range(3)]
    fused = np.concatenate([part.swapaxes(1, 2).reshape(2, 10, 128) for part in parts], -1)
    solution = solved([fused], parts)
    assert str(solution.alignment) == "concat(axis=1) | a b c d -> a c (b d)"
    assert solution.fits


def test_unrelated_parts_do_not_fit() -> None:
    solution = solved([normal(384, INNER, seed=9)], [Q, K, V])
    assert str(solution.alignment) == "concat(axis=0)"
    assert not solution.fits


def test_parts_on_both_sides_are_not_fused() -> None:
    solution = solved([Q, K], [Q, K, V])
    assert solution.alignment is None
    assert solution.notes == ("2 tensors against 3: one side must be a single, fused one",)
