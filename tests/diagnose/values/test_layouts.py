"""The same values in another order, with noise that no strict search would forgive."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.diagnose.values.planted import confidence_in, diagnosed, first_cause, noisy, normal

X = normal(2, 16, 64)
FUSED = normal(2, 8, 96)
HEADS = normal(2, 8, 16, 12)
KV = normal(1, 2, 16, 12)
SPLIT = normal(1, 16, 4, 16)
SHUFFLED = np.random.default_rng(4).permutation(64)

PLANTED: dict[str, tuple[str, np.ndarray, Callable[[np.ndarray], np.ndarray]]] = {
    "a square matrix transposed": ("layout.transpose", normal(32, 32), lambda x: x.T),
    "two axes exchanged": ("layout.transpose", normal(3, 12, 12), lambda x: x.swapaxes(1, 2)),
    "heads merged without being put back": (
        "layout.reshape",
        SPLIT.reshape(1, 16, 64),
        lambda x: x.reshape(1, 16, 4, 16).swapaxes(1, 2).reshape(1, 16, 64),
    ),
    "a view where a permutation was due": ("layout.reshape", normal(6, 20), lambda x: x.T.reshape(6, 20)),
    "halves swapped": ("layout.chunk_swap", X, lambda x: np.concatenate([x[..., 32:], x[..., :32]], -1)),
    "k before q": (
        "layout.qkv_order",
        FUSED,
        lambda x: np.concatenate([x[..., 32:64], x[..., :32], x[..., 64:]], -1),
    ),
    "q, k and v of each head": (
        "layout.qkv_order",
        FUSED,
        lambda x: x.reshape(2, 8, 3, 4, 8).swapaxes(2, 3).reshape(2, 8, 96),
    ),
    "two heads exchanged": ("layout.head_order", HEADS, lambda x: x[:, [0, 1, 5, 3, 4, 2, 6, 7]]),
    "kv heads tiled": ("layout.head_order", np.repeat(KV, 4, 1), lambda x: np.tile(KV, (1, 4, 1, 1))),
    "pairs in place of halves": (
        "layout.rope_interleave",
        X,
        lambda x: x.reshape(2, 16, 2, 32).swapaxes(2, 3).reshape(2, 16, 64),
    ),
    "pairs of each head": (
        "layout.rope_interleave",
        X,
        lambda x: x.reshape(2, 16, 4, 8, 2).swapaxes(3, 4).reshape(2, 16, 64),
    ),
    "backwards": ("layout.reversed", X, lambda x: x[..., ::-1]),
    "shuffled": ("layout.permuted", X, lambda x: x[..., SHUFFLED]),
}


@pytest.mark.parametrize("level", [3e-7, 5e-3])
@pytest.mark.parametrize("what", PLANTED)
def test_a_layout_is_found(what: str, level: float) -> None:
    cause, values, change = PLANTED[what]
    found = first_cause(values, noisy(change(values), level))
    assert found == cause or (what, found) == ("kv heads tiled", "attention.kv_heads")


def test_a_layout_of_one_part_is_found_there() -> None:
    candidate = noisy(FUSED, 1e-3)
    candidate[..., :32] = candidate[..., :32].reshape(2, 8, 2, 16).swapaxes(2, 3).reshape(2, 8, 32)
    found = diagnosed(FUSED, candidate)
    assert confidence_in("layout.rope_interleave", found) > 0


def test_other_values_have_no_other_layout() -> None:
    found = diagnosed(X, normal(2, 16, 64, seed=5))
    assert not [one.cause for one in found if one.cause.startswith("layout.")]


@pytest.mark.parametrize("values", [np.zeros((4, 4), np.float32), np.ones((2, 2), np.float32)])
def test_values_that_are_all_alike_have_no_layout(values: np.ndarray) -> None:
    candidate = values.copy()
    candidate[0, 1] = 3
    assert not [one for one in diagnosed(values, candidate) if one.cause.startswith("layout.") and one.confidence > 0.5]
