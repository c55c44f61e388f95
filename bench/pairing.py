"""Pairing 10,000 tensors with 10,000 others: by key, in another dialect, by value, and in vain."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from bench.row import Row
from firstdiff.pairing import PairingResult, doubt, pair_up
from firstdiff.trace import Trace

TENSORS = 10_000
SECONDS = 10.0
PARTS = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "mlp": "ffn_out",
}


def run(_folder: Path) -> list[Row]:
    """The rows of this part; everything is in memory."""
    layers = range(TENSORS // len(PARTS))
    names = [f"model.layers.{layer}.{part}" for layer in layers for part in PARTS]
    dialect = [f"blk.{layer}.{part}" for layer in layers for part in PARTS.values()]
    foreign = [f"dump {place:x}" for place in range(TENSORS)]
    generator = np.random.default_rng(0)
    values, others = generator.standard_normal((2, TENSORS, 12, 20)).astype(np.float32)
    shuffled = generator.permutation(TENSORS)
    transposed = values[shuffled].transpose(0, 2, 1)
    reference = _trace(names, values)
    same = list(range(TENSORS))
    return [
        _row("by key", lambda: pair_up(reference, _trace(names, values)), same),
        _row("by key, all in doubt", lambda: doubt(pair_up(reference, _trace(names, others))), same),
        _row("in another dialect", lambda: pair_up(reference, _trace(dialect, values)), same),
        _row("by value, transposed", lambda: pair_up(reference, _trace(foreign, transposed)), shuffled.tolist()),
        _row("with nothing in common", lambda: pair_up(reference, _trace(foreign, others)), []),
    ]


def _trace(names: list[str], values: np.ndarray) -> Trace:
    return Trace.from_arrays(dict(zip(names, values, strict=True)))


def _row(name: str, pair: Callable[[], PairingResult], partners: list[int]) -> Row:
    """`partners` are the reference tensors that those of the candidate belong to."""
    start = time.perf_counter()
    result = pair()
    seconds = time.perf_counter() - start
    found = sorted((match.candidate[0], match.reference[0]) for match in result.pairs)
    right = found == list(enumerate(partners))
    title = f"pair {TENSORS:,} x {TENSORS:,} tensors {name}{'' if right else ' (WRONG PAIRS)'}"
    return Row(title, seconds, "s", f"<= {SECONDS:g}", right and seconds <= SECONDS)
