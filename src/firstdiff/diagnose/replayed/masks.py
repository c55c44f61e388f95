"""Hypothesis: another attention mask."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from firstdiff.diagnose.counterfactual import Counterfactual, Trial, Variant
from firstdiff.dtypes import doubles
from firstdiff.ops import Plan, activations, arithmetic, attention, shaping

# masks add less than this to hidden scores
_HIDDEN_BELOW = -1e3


def is_mask(array: Any) -> bool:
    """True if an operand is a mask: boolean, or small values and very low ones only."""
    if not isinstance(array, np.ndarray) or array.ndim < 2:
        return False
    if array.dtype == np.bool_:
        return True
    values = doubles(array)
    low = values <= _HIDDEN_BELOW
    return bool(low.any()) and bool(np.all(low | (np.abs(values) < -_HIDDEN_BELOW)))


def mask_variants(mask: np.ndarray, *, masks_true: bool = False) -> Iterator[tuple[str, np.ndarray]]:
    """Yield a description and an array for the mask shifted, transposed, inverted, causal or not.

    masks_true: True in the mask hides a key
    """
    seen = _visible(mask, masks_true)
    queries, keys = mask.shape[-2:]
    shift = keys - queries
    causal = np.tril(np.ones((queries, keys), dtype=bool), shift)
    yield "with nothing masked", _as_mask(np.ones_like(seen), mask, masks_true)
    yield "with a causal mask alone", _as_mask(np.broadcast_to(causal, seen.shape), mask, masks_true)
    yield "with a causal mask as well", _as_mask(seen & causal, mask, masks_true)
    for by in (1, -1, 2, -2):
        moved = np.tril(np.ones((queries, keys), dtype=bool), shift + by)
        words = f"with a causal mask that lets a query see {abs(by)} {'more' if by > 0 else 'fewer'}"
        yield words, _as_mask(np.broadcast_to(moved, seen.shape), mask, masks_true)
        yield f"{words}, and the rest of the mask as it is", _as_mask(_padding(seen) & moved, mask, masks_true)
        yield f"with the mask moved by {by}", _as_mask(np.roll(seen, by, axis=-1), mask, masks_true)
    yield "without what hides padding", _as_mask(np.broadcast_to(_triangle(seen), seen.shape), mask, masks_true)
    yield (
        "with padding hidden and nothing else",
        _as_mask(np.broadcast_to(_padding(seen), seen.shape), mask, masks_true),
    )
    yield "with the mask inverted", _as_mask(~seen, mask, masks_true)
    if queries == keys:
        yield "with the mask transposed", _as_mask(seen.swapaxes(-1, -2), mask, masks_true)
    for window in (2, 4, 8, 16):
        if window < keys:
            near = ~np.tril(np.ones((queries, keys), dtype=bool), shift - window)
            yield f"with a window of {window}", _as_mask(seen & near, mask, masks_true)


def _visible(mask: np.ndarray, masks_true: bool) -> np.ndarray:
    return np.asarray(mask != masks_true) if mask.dtype == np.bool_ else np.asarray(doubles(mask) > _HIDDEN_BELOW)


def _padding(seen: np.ndarray) -> np.ndarray:
    """Mark the keys that any query sees."""
    return np.asarray(seen.any(axis=-2, keepdims=True))


def _triangle(seen: np.ndarray) -> np.ndarray:
    """Mark the pairs of query and key that are visible in any sample."""
    return np.asarray(seen.any(axis=tuple(range(seen.ndim - 2)), keepdims=True))


def _as_mask(seen: np.ndarray, like: np.ndarray, masks_true: bool) -> np.ndarray:
    if like.dtype == np.bool_:
        return np.asarray(seen != masks_true)
    low = float(np.min(doubles(like)))
    kept = np.where(doubles(like) > _HIDDEN_BELOW, doubles(like), 0.0)
    return np.where(seen, kept, low)


_WINDOWS = (1, 2, 3, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
_ATTENTION = (attention.attention, attention.attention_weights, attention.multi_head_attention)
_IMPLIES = ("op.skipped", "residual.missing", "shift.sequence", "values.zero")


class AttentionMask(Counterfactual):
    """Queries see other keys than they should.

    The mask is missing, is causal where it should not be, is off by one, has another window, lets padding through or
    masks what is no padding, or is applied the wrong way round.

    Tested by computing attention, or the masking of its scores, with no mask, a causal one, shifted ones, windows,
    and the mask inverted. Give attention the reference's mask.
    """

    code = "attention.mask"
    functions = (*_ATTENTION, arithmetic.add, shaping.masked_fill, shaping.where, shaping.triangle)

    def variants(self, trial: Trial) -> Iterator[Variant]:
        of_attention = trial.function in _ATTENTION
        for what, plan in _attention_variants(trial.plan) if of_attention else _score_variants(trial.plan):
            yield Variant(plan=plan, what=what, fix=f"give {trial.key} the mask of the reference", implies=_IMPLIES)


def _attention_variants(plan: Plan) -> Iterator[tuple[str, Plan]]:
    causal, mask = bool(plan.settings["causal"]), plan.arrays.get("mask")
    queries, keys = (np.shape(plan.arrays[name])[-2] for name in ("query", "key"))
    if causal or mask is not None:
        yield "without any mask", plan.on(mask=None).changed(causal=False)
    if mask is not None:
        yield "with a causal mask as well", plan.changed(causal=True)
        for what, other in mask_variants(np.asarray(mask)):
            yield what, plan.on(mask=other)
    elif not causal:
        yield "with a causal mask", plan.changed(causal=True)
    if causal:
        full = np.tril(np.ones((queries, keys), dtype=bool))
        for what, other in mask_variants(full):
            yield what, plan.on(mask=other).changed(causal=False)
    if "window" in plan.settings:
        for window in _WINDOWS:
            if window < keys:
                yield f"with a window of {window}", plan.changed(window=window)
                yield f"with a causal window of {window}", plan.on(mask=None).changed(causal=True, window=window)


def _score_variants(plan: Plan) -> Iterator[tuple[str, Plan]]:
    """Yield operations on scores, a sum with a mask or a fill by one, with another mask."""
    if plan.function is shaping.triangle:
        for by in (1, -1):
            yield f"with the diagonal moved by {by}", plan.changed(diagonal=int(plan.settings["diagonal"]) + by)
        return
    name = next((name for name in ("other", "mask", "condition", "input") if is_mask(plan.arrays.get(name))), None)
    if name is None:
        return
    scores = next((array for other, array in plan.arrays.items() if other != name and np.ndim(array) > 1), None)
    if scores is not None:
        yield "without the mask", plan.with_function(activations.identity).on(input=scores)
    for what, other in mask_variants(np.asarray(plan.arrays[name]), masks_true=plan.function is shaping.masked_fill):
        yield what, plan.on(**{name: other})


ATTENTION_MASK: Final = AttentionMask()
