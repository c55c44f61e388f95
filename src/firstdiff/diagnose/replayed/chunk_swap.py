"""Hypothesis: parts of a tensor, or arguments, are swapped."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from typing import Final

import numpy as np

from firstdiff.diagnose.counterfactual import Counterfactual, Trial, Variant
from firstdiff.ops import Plan, arithmetic, attention, gated, shaping


class ChunkSwap(Counterfactual):
    """Parts of a tensor, or arguments, took each other's place.

    Gate and up in a gated MLP, shift and scale in adaLN, key and value, the two halves of anything that was split or
    put together. Shapes fit, values do not.

    Tested by computing the operation with the parts exchanged. Put them in the reference's order.
    """

    code = "layout.chunk_swap"
    also = ("layout.qkv_order",)
    functions = (
        *(gated.glu, gated.gated_mlp, arithmetic.modulate, attention.attention, arithmetic.sub, arithmetic.div),
        *(shaping.cat, shaping.stack, shaping.split, shaping.chunk),
    )

    def variants(self, trial: Trial) -> Iterator[Variant]:
        fused = _is_fused_attention(trial)
        for what, plan in _others(trial.plan):
            yield Variant(
                plan=plan,
                what=what,
                fix=f"put the parts of {trial.key} in the reference's order",
                cause="layout.qkv_order" if fused else None,
                implies=(self.code,) if fused else (),
            )


def _is_fused_attention(trial: Trial) -> bool:
    """True if query, key and value are parts of one tensor, which can be taken apart in another order."""
    if trial.function is not attention.attention:
        return False
    parts = [np.asarray(trial.plan.arrays[name]) for name in ("query", "key", "value")]
    return any(
        source.reference is not None and source.reference.size == sum(part.size for part in parts)
        for source in trial.case.sources
    )


def _others(plan: Plan) -> Iterator[tuple[str, Plan]]:
    arrays, function = plan.arrays, plan.function
    if function is gated.glu:
        yield "with the halves exchanged", plan.changed(gate_first=not plan.settings["gate_first"])
        yield "with the halves interleaved", plan.changed(interleaved=not plan.settings["interleaved"])
    for one, other in (("gate_weight", "up_weight"), ("shift", "scale"), ("key", "value"), ("query", "key")):
        if one in arrays and other in arrays:
            words = f"with {one.removesuffix('_weight')} and {other.removesuffix('_weight')} exchanged"
            yield words, plan.on(**{one: arrays[other], other: arrays[one]})
    if function in (arithmetic.sub, arithmetic.div):
        yield "with the two sides exchanged", plan.on(input=arrays["other"], other=arrays["input"])
    if function in (shaping.cat, shaping.stack) and len(arrays["tensors"]) <= 4:
        parts = arrays["tensors"]
        for order in list(permutations(range(len(parts))))[1:]:
            yield f"with the parts in the order {list(order)}", plan.on(tensors=tuple(parts[at] for at in order))
    if function in (shaping.split, shaping.chunk):
        yield from _reordered(plan)


def _reordered(plan: Plan) -> Iterator[tuple[str, Plan]]:
    try:
        parts = list(plan.run().values())
    except ValueError:
        return
    if len(parts) > 6 or len({part.shape for part in parts}) > 1:
        return
    axis = int(plan.settings["dim"])
    whole = np.concatenate([parts[-1], *parts[:-1]], axis=axis)
    yield "with the parts moved on by one", plan.on(input=whole)
    yield "with the parts in reverse", plan.on(input=np.concatenate(parts[::-1], axis=axis))
    for one in range(len(parts)):
        for other in range(one + 1, len(parts)):
            order = list(range(len(parts)))
            order[one], order[other] = other, one
            swapped = np.concatenate([parts[at] for at in order], axis=axis)
            yield f"with parts {one} and {other} exchanged", plan.on(input=swapped)
    width = np.moveaxis(np.asarray(plan.arrays["input"]), axis, -1)
    each = width.reshape(*width.shape[:-1], -1, len(parts)).swapaxes(-1, -2).reshape(width.shape)
    yield "with the parts interleaved", plan.on(input=np.moveaxis(each, -1, axis))


HYPOTHESIS: Final = ChunkSwap()
