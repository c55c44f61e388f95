"""Judge an operation replayed on the candidate's own inputs: the residual must be one rounding of its result."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from firstdiff import dtypes
from firstdiff.judge.noise_figures import NoiseSums, as_rows, noise_figures, rms, worst_element
from firstdiff.judge.noise_rule import judge_alone, judge_outputs
from firstdiff.judge.special_values import filler_places
from firstdiff.schema import FailedPart

# of an element against itself, in eps; healthy activations and sums stay within half of one, tanh GELU reaches 28
_LOCAL_HALF = 1.1  # an input that is cast in between is rounded once more
_LOCAL_WIDE = 4.0  # of a sum or product in float32, which is healthy within half of one
_LEAST_LOCAL = 0.01
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
    hidden = places.hidden if places is not None and places.agree else np.zeros(own.shape, bool)
    ours, theirs = as_rows(computed), as_rows(own)
    # below its normal numbers a type has steps of one size, and no relative error can be held
    step = float(ml_dtypes.finfo(dtype).smallest_subnormal)
    with np.errstate(all="ignore"):
        theirs = np.where((as_rows(hidden) > 0) | (np.abs(theirs - ours) <= step), ours, theirs)
    sums = NoiseSums.of(ours, theirs, ~hidden)
    figures = noise_figures(sums, eps)
    if figures is None or (once and _is_rounded(ours, theirs, dtype)):
        return ()
    sizes = rms(sums.rows), rms(sums.channels)
    figures = figures.with_element(worst_element(ours, theirs, *sizes) / eps)
    verdict = judge_alone(figures, dtype) if once else judge_outputs(figures, dtype)
    most = _LOCAL_HALF if dtype.itemsize == 2 else _LOCAL_WIDE
    if not once or verdict.failed or not (each_element if dtype.itemsize == 2 else arithmetic):
        return verdict.failed
    # far in a tail float32 itself cancels, so that nothing much smaller than the tensor is told apart
    whole = float(np.sqrt(np.mean(np.square(ours, where=np.isfinite(ours), out=np.zeros_like(ours)))))
    scales = (np.maximum(size, _LEAST_LOCAL * whole) for size in sizes)
    local = worst_element(ours, theirs, *scales, local=True) / eps
    if local <= most:
        return ()
    text = f"one element is {local:.3g} roundings off; healthy ones stay within {most:g}"
    return (FailedPart("local", local * eps, most * eps, text),)


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
