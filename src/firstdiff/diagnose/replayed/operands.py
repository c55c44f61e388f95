"""Hypotheses: an operation computed from swapped parts, or from another tensor."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from typing import Any, Final

import numpy as np

from firstdiff.diagnose.case import Case
from firstdiff.diagnose.counterfactual import Counterfactual, Trial, Variant
from firstdiff.diagnose.hypothesis import Explanation, Hypothesis
from firstdiff.dtypes import doubles
from firstdiff.ops import Plan, arithmetic, attention, gated, shaping

_ATTENTION = ("query", "key", "value")


class SwappedArguments(Hypothesis):
    """Query, key and value took each other's place.

    A fused projection gives query, key and value in one tensor; checkpoints put them in different orders, all of one
    after the other or head by head. Taken apart in the wrong order, each is in the place of another.

    Tested by comparing what the candidate has for one of them with what the reference has for the others, and with the
    other parts of the tensor that it was taken out of. Take the fused tensor apart in the reference's order.
    """

    code = "layout.qkv_order"
    also = ("layout.chunk_swap",)

    def test(self, case: Case) -> Iterator[Explanation]:
        for other in (*case.nearby.beside(), *case.nearby.parts()):
            if other.reference.shape != case.candidate.shape:
                continue
            fit = case.fit(other.reference)
            of_attention = case.slot in _ATTENTION or other.slot in _ATTENTION
            causes = (self.code, "layout.chunk_swap") if of_attention else ("layout.chunk_swap", self.code)
            yield Explanation(
                cause=causes[0],
                fit=fit,
                evidence=f"as if it were {other.key} {case.falls_to(fit)}",
                fix=f"give {case.key} what the reference gives it: the parts are in another order",
                implies=(causes[1], "values.stale", "op.skipped"),
                predicted=doubles(other.reference),
            )


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
        for what, plan in _exchanged_parts(trial.plan):
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


def _exchanged_parts(plan: Plan) -> Iterator[tuple[str, Plan]]:
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


class OtherPart(Counterfactual):
    """An operation is given another part of a tensor that was taken apart.

    Shift, scale and gate of adaLN, gate and up, query, key and value come out of one layer and are told apart by
    their place. Taken in another order, each does the work of another.

    Tested by computing the operation with each of the other parts. Take the tensor apart in the reference's order.
    """

    code = "layout.chunk_swap"
    also = ("layout.qkv_order",)

    def variants(self, trial: Trial) -> Iterator[Variant]:
        if trial.key != trial.case.key:
            return
        for part in trial.case.nearby.instead():
            for name, array in trial.plan.arrays.items():
                if isinstance(array, np.ndarray) and array.shape == part.own.shape and np.array_equal(array, part.own):
                    yield Variant(
                        plan=trial.plan.on(**{name: part.other}),
                        what=f"with {part.other_key} in place of {part.key}",
                        fix=f"give {trial.key} {part.key}: the parts are in another order",
                        cause="layout.qkv_order" if name in _ATTENTION else None,
                        implies=("values.stale", "values.uncorrelated"),
                    )


class OtherOperand(Counterfactual):
    """An operation is computed from an earlier tensor in the place of one of its inputs.

    The memory of an input was given to another value before it was read, or an index names the wrong value. What was
    recorded of the input is right, and what the operation gives is not.

    Tested by computing the operation with every earlier value of the candidate that would fit into the same memory.
    Keep the input's memory until the operation has run.
    """

    code = "values.stale"

    def variants(self, trial: Trial) -> Iterator[Variant]:
        if trial.key != trial.case.key:
            return
        for item in trial.case.nearby.overwritten():
            for changed in _replacements(trial.plan.arrays, item.own, item.other):
                yield Variant(
                    plan=trial.plan.on(**changed),
                    what=f"computed from {item.other_key} in place of {item.key}",
                    fix=f"see why {trial.key} reads {item.other_key}: the memory of {item.key} was reused too early",
                    implies=("values.uncorrelated",),
                )


def _replacements(arrays: Any, own: np.ndarray, other: np.ndarray) -> Iterator[dict[str, Any]]:
    """Yield the changed arrays, for each argument that holds an array's values."""
    for name, held in arrays.items():
        if isinstance(held, np.ndarray) and _same_values(held, own):
            yield {name: other}
        elif isinstance(held, tuple):
            for at, part in enumerate(held):
                if isinstance(part, np.ndarray) and _same_values(part, own):
                    yield {name: (*held[:at], other, *held[at + 1 :])}


def _same_values(held: np.ndarray, own: np.ndarray) -> bool:
    return held.shape == own.shape and np.array_equal(held, own)


SWAPPED_ARGUMENTS: Final = SwappedArguments()
CHUNK_SWAP: Final = ChunkSwap()
OTHER_PART: Final = OtherPart()
OTHER_OPERAND: Final = OtherOperand()
