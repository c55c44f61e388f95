"""A fused projection that is wrong in one part says in which."""

from __future__ import annotations

import numpy as np
import pytest

from firstdiff.comparing import compare

Q, K, V = (np.random.default_rng(seed).standard_normal((2, 6, 8)).astype(np.float32) for seed in range(3))
PARTS = {"layers.0.attn.q_proj": Q, "layers.0.attn.k_proj": K, "layers.0.attn.v_proj": V}


@pytest.mark.parametrize(
    ("fused", "between"),
    [
        ((Q, K, V + 1), ("layers.0.attn.k_proj", "layers.0.attn.v_proj")),
        ((Q, K * 2, V), ("layers.0.attn.q_proj", "layers.0.attn.k_proj")),
        ((Q, V, K), ("layers.0.attn.q_proj", "layers.0.attn.k_proj")),
        ((Q + 1, K, V + 1), ()),
    ],
)
def test_the_first_wrong_part_is_named(fused: tuple[np.ndarray, ...], between: tuple[str, ...]) -> None:
    comparison = compare(PARTS, {"layers.0.attn.qkv": np.concatenate(fused, axis=-1)})
    assert comparison.verdict == "mismatch"
    first = comparison.first_divergence
    assert first is not None
    assert first.key == "layers.0.attn.q_proj"
    assert tuple(first.between) == between
