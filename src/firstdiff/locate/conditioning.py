"""Operations whose result rounding decides: the reference's own is as far off as any candidate's."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import TYPE_CHECKING

import numpy as np

from firstdiff import dtypes
from firstdiff.judge.noise_rule import percent
from firstdiff.schema import FailedPart

if TYPE_CHECKING:  # the operators are many, and most comparisons need none of them
    from firstdiff.ops import Plan, Replayed

_APART = 2.0  # times its own error that another run of an ill-conditioned operation may be off the reference
_EXPLAINS = 0.25  # of an error, for one rounding of the inputs to be its reason
PRODUCTS = ("linear", "matmul", "conv", "conv_transpose")
_SUMS = ("mean", "sum")
# eps of the sum of all magnitudes that go into an element: kernels of onnxruntime, in Python and in browsers, stay
# within 8 on trained convolutions, however much of the sum cancels
_OF_MAGNITUDES = 16.0
# the same of convolutions by Winograd's algorithm, whose transforms have large numbers that cancel: those of nnpack,
# with tiles of eight, reach 66 in one element and 2.4 in all on trained weights
_OF_TILES = 160.0
_OF_ALL_TILES = 8.0
_TILED = range(3, 8)  # sizes of kernels that it is used for
# eps for each root of the number of terms that a softmax divides by the sum of: browsers reach 1.2 with 6,625 of them
_OF_ROOTS = 4.0
_AMOUNTS = ("level", "row", "row_noise", "channel", "element")
_NUDGE = 2.0  # eps: kernels divide by a scale or multiply with its inverse before they round to a whole number
# kernels that compute with 8-bit numbers inside: eps that what they round was computed otherwise, how often to try,
# and times the largest move that another runtime may be off
_INNER_NUDGE = 16.0
_TRIALS = 8
_MOVES = 2.0


def ill_conditioned(again: Replayed, slot: str, reference: np.ndarray, candidate: np.ndarray) -> str | None:
    """Say so if rounding keeps the reference about as far from its exact value as the candidate is from it.

    again: the reference's operation computed in float64, which does not give its recorded output
    """
    exact, recorded, own = again.outputs[slot], dtypes.doubles(reference), dtypes.doubles(candidate)
    if not exact.shape == own.shape == recorded.shape:
        return None
    off, apart, size = (float(np.linalg.norm(values)) for values in (exact - recorded, own - recorded, recorded))
    if not (isfinite(off) and isfinite(apart)) or _APART * off < apart or not size:
        return None
    if _moved_by_rounding(again.plan, slot, exact, reference.dtype) < _EXPLAINS * off:
        return None
    return (
        f"the reference is ill-conditioned here: it is {percent(off / size)} off what its own inputs give in "
        f"float64, and the candidate {percent(apart / size)} off the reference"
    )


def is_within_its_sums(
    plan: Plan, slot: str, computed: np.ndarray, own: np.ndarray, parts: Sequence[FailedPart]
) -> bool:
    """True for an operation in float32 or more that is off by no more than rounding while it adds up its terms gives.

    computed: what the plan gives, in float64
    own: what was recorded
    parts: the reasons to call it wrong
    """
    if own.dtype.itemsize < 4 or dtypes.kind_of(own.dtype) != "float":
        return False
    adds = plan.operator in PRODUCTS or (plan.operator == "reduce" and plan.settings["kind"] in _SUMS)
    if adds and all(part.part in _AMOUNTS for part in parts):
        arrays = {name: np.abs(dtypes.doubles(values)) for name, values in plan.arrays.items() if values is not None}
        magnitudes = plan.on(**arrays).run()[slot]
        allowed = _OF_MAGNITUDES * magnitudes
        if _may_be_tiled(plan):
            error, size = np.linalg.norm(dtypes.doubles(own) - computed), np.linalg.norm(magnitudes)
            if error <= _OF_ALL_TILES * dtypes.eps_of(own.dtype) * size:
                allowed = _OF_TILES * magnitudes
    elif plan.operator == "softmax" and computed.ndim:  # whose sums round one way, so that all shares are too large
        allowed = (_OF_MAGNITUDES + _OF_ROOTS * np.sqrt(computed.shape[plan.settings["dim"]])) * computed
    else:
        return False
    return bool((np.abs(dtypes.doubles(own) - computed) <= dtypes.eps_of(own.dtype) * allowed).all())


def is_within_a_step(plan: Plan, slot: str, computed: np.ndarray, own: np.ndarray) -> bool:
    """True for integers that are what the operation gives if rounding moves its largest input up or down.

    computed: what the plan gives
    own: what was recorded
    """
    if dtypes.eps_of(own.dtype) or own.shape != computed.shape or np.array_equal(own, computed):
        return False
    given = {name: value if isinstance(value, tuple) else (value,) for name, value in plan.arrays.items()}
    floats = [
        (array.size, name, at)
        for name, values in given.items()
        for at, array in enumerate(values)
        if isinstance(array, np.ndarray) and dtypes.kind_of(array.dtype) == "float"
    ]
    if not floats:
        return False
    _, name, at = max(floats)
    array, bounds = given[name][at], [dtypes.doubles(computed)]
    for factor in (1 - _NUDGE * dtypes.eps_of(array.dtype), 1 + _NUDGE * dtypes.eps_of(array.dtype)):
        nudged = (dtypes.doubles(array) * factor).astype(array.dtype)
        values = tuple(nudged if place == at else value for place, value in enumerate(given[name]))
        try:
            result = plan.on(**{name: values if isinstance(plan.arrays[name], tuple) else nudged}).run().get(slot)
        except ValueError:
            return False
        if result is None or result.shape != own.shape:
            return False
        bounds.append(dtypes.doubles(result))
    whole = dtypes.doubles(own)
    return bool(((np.minimum.reduce(bounds) <= whole) & (whole <= np.maximum.reduce(bounds))).all())


def is_within_its_steps(plan: Plan, slot: str, computed: np.ndarray, own: np.ndarray) -> bool:
    """True for a kernel with 8-bit numbers inside that is off by no more than rounding of its inputs moves it.

    It rounds what it is given, or computes on the way, to few steps: rounding decides between two of them.
    """
    given = plan.arrays.get("inputs")
    arrays = given if isinstance(given, tuple) else ()
    if not any(array.dtype in (np.int8, np.uint8) for array in arrays):
        return False
    if dtypes.kind_of(own.dtype) != "float" or own.shape != computed.shape:
        return False
    rng, base, moves = np.random.default_rng(0), dtypes.doubles(computed), []
    for _ in range(_TRIALS):
        try:
            result = plan.on(inputs=tuple(_nudged(array, rng) for array in arrays)).run()[slot]
        except (ValueError, KeyError):
            return False
        if result.shape != base.shape:
            return False
        moves.append(np.abs(dtypes.doubles(result) - base))
    apart = np.abs(dtypes.doubles(own) - base)
    length = max(float(np.linalg.norm(move)) for move in moves)
    largest = max(float(move.max(initial=0.0)) for move in moves)
    return float(np.linalg.norm(apart)) <= _MOVES * length and float(apart.max(initial=0.0)) <= _MOVES * largest


def _nudged(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return an array of floats moved by a few roundings; scales of whole numbers and the like stay as they are."""
    if dtypes.kind_of(array.dtype) != "float" or array.ndim < 2:
        return array
    signs = rng.choice((-1.0, 1.0), array.shape)
    return (dtypes.doubles(array) * (1.0 + _INNER_NUDGE * dtypes.eps_of(array.dtype) * signs)).astype(array.dtype)


def _may_be_tiled(plan: Plan) -> bool:
    """Return whether a fast algorithm for small kernels may have computed it: two axes or more, one step at a time."""
    if plan.operator != "conv":
        return False
    sizes = np.shape(plan.arrays["weight"])[2:]
    steps = (*np.ravel(plan.settings["stride"]), *np.ravel(plan.settings["dilation"]))
    return len(sizes) > 1 and all(size in _TILED for size in sizes) and set(steps) == {1}


def _moved_by_rounding(plan: Plan, slot: str, exact: np.ndarray, dtype: np.dtype) -> float:
    """Return how far a result moves if each of its inputs is rounded once more; the same for the same inputs."""
    rng, eps = np.random.default_rng(0), dtypes.eps_of(dtype)
    arrays = {
        name: dtypes.doubles(values) * (1.0 + 0.5 * eps * rng.choice((-1.0, 1.0), np.shape(values)))
        for name, values in plan.arrays.items()
        if isinstance(values, np.ndarray) and dtypes.kind_of(values.dtype) == "float"
    }
    try:
        moved = plan.on(**arrays).run()[slot]
    except (ValueError, KeyError):
        return 0.0
    return float(np.linalg.norm(moved - exact))
