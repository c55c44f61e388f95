"""Judge an operation replayed on the candidate's own inputs: the residual must be one rounding of its result."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from firstdiff import dtypes
from firstdiff.judge.noise_figures import noise_figures, worst_elements, worst_local_element
from firstdiff.judge.noise_rule import judge_alone, judge_outputs
from firstdiff.judge.noise_sums import NoiseSums, as_rows
from firstdiff.judge.special_values import filler_places
from firstdiff.schema import FailedPart, Part

# of an element against itself, in eps; healthy activations and sums stay within half of one, tanh GELU reaches 28
_LOCAL_HALF = 1.1  # an input that is cast in between is rounded once more
_LOCAL_WIDE = 4.0  # of a sum or product in float32, which is healthy within half of one
_LEAST_LOCAL = 0.01
# times what rounding at each of many steps leaves over: kernels hold some of it in more digits and others compute their
# activations with fewer, in float32 above all
_OF_STEPS_HALF: dict[Part, float] = {"level": 2.5, "channel": 6.0, "element": 5.0}
_OF_STEPS_WIDE: dict[Part, float] = {part: 4 * limit for part, limit in _OF_STEPS_HALF.items()}
_ROUNDED = 0.3  # eps of error that rounding a result alone leaves
_ANOTHER_WAY = 1e-3  # of all elements, which lie halfway between two numbers and may be rounded to either


def parts_alone(
    computed: np.ndarray,
    own: np.ndarray,
    dtype: np.dtype,
    *,
    each_element: bool = False,
    arithmetic: bool = False,
    once: bool = True,
) -> tuple[FailedPart, ...]:
    """Parts of the difference that rounding does not explain.

    computed: in float64, from the candidate's own inputs
    own: the candidate's output
    dtype: the type that output really has
    each_element: the operation is one on each element alone, which takes no noise from its row
    arithmetic: that operation is a sum, difference, product or quotient, which all processors round alike
    once: only the result was rounded; what rounds more is judged as any outputs are
    """
    eps = dtypes.eps_of(dtype)
    if eps == 0 or dtypes.kind_of(dtype) == "complex" or np.iscomplexobj(computed):
        return ()
    places = filler_places(computed, own)
    hidden = places.hidden if places is not None and places.agree else None
    exact, found = as_rows(computed), as_rows(own)
    # below its normal numbers a type has steps of one size, and no relative error can be held
    step = float(ml_dtypes.finfo(dtype).smallest_subnormal)
    with np.errstate(all="ignore"):
        same = np.abs(found - exact) <= step
    found = np.where(same if hidden is None else same | hidden.reshape(same.shape), exact, found)
    if once and _is_rounded(exact, found, dtype):
        return ()
    sums = NoiseSums.of(exact, found, None if hidden is None else ~hidden)
    figures = noise_figures(sums, eps)
    if figures is None:
        return ()
    sizes = sums.rows.sizes, sums.channels.sizes
    figures = figures.with_worst(worst_elements(exact, found, *sizes), eps)
    verdict = judge_alone(figures, dtype) if once else judge_outputs(figures, dtype)
    most = _LOCAL_HALF if dtype.itemsize == 2 else _LOCAL_WIDE
    if not once or verdict.failed or not (each_element if dtype.itemsize == 2 else arithmetic):
        return verdict.failed
    # far in a tail float32 itself cancels, so that nothing much smaller than the tensor is told apart
    whole = float(np.sqrt(np.mean(np.square(exact, where=np.isfinite(exact), out=np.zeros_like(exact)))))
    scales = (np.maximum(size, _LEAST_LOCAL * whole) for size in sizes)
    local = worst_local_element(exact, found, *scales) / eps
    if local <= most:
        return ()
    text = f"one element is {local:.3g} roundings off; healthy ones stay within {most:g}"
    return (FailedPart("local", local * eps, most * eps, text),)


@np.errstate(all="ignore")
def parts_of_steps(computed: np.ndarray, held: np.ndarray, own: np.ndarray, dtype: np.dtype) -> tuple[FailedPart, ...]:
    """Parts of the difference of an operation of many steps that rounding at each of them does not explain.

    computed: in float64, from the candidate's own inputs
    held: the same with everything rounded at each step, whose error is the measure
    own: the candidate's output
    """
    exact = as_rows(computed)
    error, rounding = as_rows(own) - exact, as_rows(held) - exact
    least = _ROUNDED * dtypes.eps_of(dtype) * _root_mean_square(exact)
    usual = max(_root_mean_square(rounding), least)
    by_channel = np.sqrt(np.mean(error**2, axis=0) / (np.mean(rounding**2, axis=0) + usual**2))
    channel = int(np.argmax(by_channel)) if by_channel.size else 0
    ratios: dict[Part, float] = {
        "level": _root_mean_square(error) / usual,
        "channel": float(by_channel[channel]) if by_channel.size else 0.0,
        "element": float(np.max(np.abs(error), initial=0.0) / max(np.max(np.abs(rounding), initial=0.0), 3 * usual)),
    }
    words: dict[Part, str] = {
        "level": "values are off",
        "channel": f"channel {channel} is off",
        "element": "one element is off",
    }
    limits = _OF_STEPS_HALF if dtype.itemsize == 2 else _OF_STEPS_WIDE
    return tuple(
        FailedPart(
            part,
            ratio,
            limits[part],
            f"{words[part]} by {ratio:.3g} times what rounding at each step leaves; healthy runs stay within "
            f"{limits[part]:g}",
            channel if part == "channel" else None,
        )
        for part, ratio in ratios.items()
        if ratio > limits[part]
    )


def _root_mean_square(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(values)))) if values.size else 0.0


@np.errstate(all="ignore")
def _is_rounded(computed: np.ndarray, own: np.ndarray, dtype: np.dtype) -> bool:
    """True if a result is the exact one as its type holds it, which need not round evenly: bf16 values times 0.998 are
    most of them what they were.
    """
    held = computed.astype(dtype).astype(np.float64)
    other = held != own
    if np.count_nonzero(other) > _ANOTHER_WAY * own.size:
        return False
    apart, size = np.abs(held - own)[other], np.abs(held)[other]
    return bool((apart <= dtypes.eps_of(dtype) * size).all())
