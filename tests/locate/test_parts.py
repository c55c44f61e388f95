"""A fused projection that is wrong in one part says in which."""

from __future__ import annotations

import numpy as np
import pytest

from firstdiff.comparing import compare
from firstdiff.trace import ArraySource, Record, Tensor, Trace

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


def test_parts_are_named_in_the_order_in_which_the_reference_ran_them() -> None:
    order = ("layers.0.norm", "layers.0.attn.k_proj", "layers.0.attn.v_proj", "layers.0.attn.q_proj")
    arrays = {"layers.0.norm": Q - K, **PARTS}
    ran = [Tensor(Record(name=name, seq=seq), ArraySource(arrays[name])) for seq, name in enumerate(order)]
    fused = {"layers.0.norm": Q - K, "layers.0.attn.qkv": np.concatenate((Q, V, K), axis=-1)}
    first = compare(Trace("reference", tuple(ran)), fused).first_divergence
    assert first is not None
    assert tuple(first.between) == ("layers.0.norm", "layers.0.attn.k_proj")
