"""The default verdict on a pair: find the parts of a difference that are no rounding noise.

Two questions have their own limits. *Outputs alone*: both sides ran on their own inputs, and the noise of everything
upstream is in the difference. *Isolation*: one operation was computed again in float64 from the candidate's own inputs,
and the difference is one rounding of its result. `make calibrate` chooses the limits and scores them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf, sqrt
from typing import NamedTuple

import numpy as np

from firstdiff import dtypes
from firstdiff.judge.noise_figures import LEAST_LINES, NoiseFigures
from firstdiff.schema import FailedPart, Part

PARTS: tuple[Part, ...] = ("scale", "shift", "element", "row_noise", "row", "channel", "level", "odd_channel")
_COHERENT = ("scale", "shift")
_ROUNDED = 0.3  # eps of noise that the rounding of a result alone leaves, beside which nothing is coherent
_UNROUNDED = 0.2  # eps of a scale error that the rounding of its result may take away
_TOO_NOISY = 0.03  # a scale error up to this that could not be seen means that noise hides most errors
# relative errors of a whole row or channel that no noise explains: it is lost, however noisy the run
_LOST = 0.8
_TAIL = 6.0  # times the level that single rows and channels of a healthy run reach, however noisy it is
# elements of which the relative error is about the same in any two healthy runs; two logits may have several times that
_ENOUGH = 64
_MOST_SLACK = 4.0
_TYPES = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "float64": "fp64"}


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of the parts. scale, shift: shares of the noise; odd_channel: deviations; all others in eps.

    quiet: noise upstream, in eps, at which the limits in eps hold; they follow it up, and down to `least`
    coherent: scale or shift, in eps, that a constant leaves which one side rounds and the other does not
    """

    scale: float
    shift: float
    element: float
    row_noise: float
    row: float
    channel: float
    level: float
    odd_channel: float = inf
    quiet: float = inf
    coherent: float = 0.6
    least: float = 0.5


HALF = Limits(scale=0.47, shift=0.35, element=75, row_noise=10.5, row=76, channel=56, level=8, odd_channel=9, quiet=3)
WIDE = Limits(
    scale=0.47,
    shift=0.35,
    element=400,
    row_noise=100,
    row=640,
    channel=400,
    level=64,
    odd_channel=14,
    quiet=20,
    coherent=2.5,
    least=1.0,
)
# eps is an eighth or a quarter already: a few of them would let anything pass
BYTE = Limits(scale=0.5, shift=0.35, element=1.5, row_noise=inf, row=2, channel=2, level=1, quiet=1)

# one operation on the candidate's own inputs: the rounding of its result, and in float32 the order of its sums
HALF_ALONE = Limits(scale=0.2, shift=0.06, element=1.0, row_noise=inf, row=0.9, channel=0.8, level=0.5)
WIDE_ALONE = Limits(scale=2, shift=2, element=128, row_noise=inf, row=64, channel=40, level=40)
BYTE_ALONE = HALF_ALONE


@dataclass(frozen=True, slots=True)
class NoiseVerdict:
    """The verdict on a pair from its figures.

    failed: every part beyond its limit; none is a match
    noise: the relative difference everywhere, in eps: what rows downstream inherit
    scale_seen: the smallest scale error, as a share, that would have been noticed
    note: what a match could not have seen, in words; None where it sees everything that matters
    """

    failed: tuple[FailedPart, ...] = ()
    noise: float = 0.0
    scale_seen: float = 0.0
    note: str | None = None
    figures: NoiseFigures | None = field(default=None, repr=False)

    @property
    def matches(self) -> bool:
        return not self.failed


def limits_for(dtype: np.dtype, *, alone: bool = False) -> Limits:
    """Limits by type.

    alone: of an operation computed again from the candidate's own inputs
    """
    if dtype.itemsize == 1:
        return BYTE_ALONE if alone else BYTE
    if dtype.itemsize == 2:
        return HALF_ALONE if alone else HALF
    return WIDE_ALONE if alone else WIDE


def judge_outputs(
    figures: NoiseFigures | None, dtype: np.dtype, upstream: float | None = None, limits: Limits | None = None
) -> NoiseVerdict:
    """Judge a pair by its values alone.

    figures: None where both sides are equal
    dtype: the coarsest type either side was computed in; `figures` are in its eps
    upstream: the largest `noise` of a row before this one; None where what came before was not recorded
    """
    if figures is None:
        return NoiseVerdict()
    chosen, eps = limits or limits_for(dtype), dtypes.eps_of(dtype)
    failed = _failed(_held(figures, chosen, dtype, upstream), figures, dtype)
    seen = smallest_scale_seen(figures, chosen, upstream) * eps
    return NoiseVerdict(failed, figures.level, seen, None if failed else _note(seen, figures, eps), figures)


def judge_alone(figures: NoiseFigures | None, dtype: np.dtype, limits: Limits | None = None) -> NoiseVerdict:
    """Judge an operation that was computed again in float64 from the candidate's own inputs.

    figures: of the candidate's output against that; the computed one is the reference
    dtype: the type the candidate's output really has
    """
    if figures is None:
        return NoiseVerdict()
    chosen = limits or limits_for(dtype, alone=True)
    by_chance = 1 / sqrt(figures.rows * figures.channels)  # roundings of a few values do not cancel
    held: dict[Part, _Held] = {
        "level": _Held(figures.level, chosen.level),
        "row": _Held(figures.row, chosen.row),
        "channel": _Held(figures.channel, chosen.channel),
        "element": _Held(figures.element or 0.0, chosen.element),
        "scale": _Held(abs(figures.scale), chosen.scale + by_chance),
        "shift": _Held(abs(figures.shift), chosen.shift + by_chance),
    }
    return NoiseVerdict(
        _failed(held, figures, dtype), figures.level, chosen.scale * dtypes.eps_of(dtype), None, figures
    )


def strain(figures: NoiseFigures, dtype: np.dtype, upstream: float | None = None) -> dict[Part, float]:
    """For each part the limit at which the pair would just pass; what `Limits` has to be above of."""
    chosen = limits_for(dtype)
    growth, local = _growth(upstream, chosen), local_growth(figures.level, upstream, chosen)
    scaled, shifted = (abs(figure) > chosen.coherent for figure in (figures.scale, figures.shift))
    return {
        "scale": abs(figures.sure_scale) / (_ROUNDED + figures.typical) if scaled else 0.0,
        "shift": abs(figures.sure_shift) / (_ROUNDED + figures.level) if shifted else 0.0,
        "element": (figures.element or 0.0) / local,
        "row_noise": (figures.row_noise or 0.0) / local,
        "row": figures.row / growth,
        "channel": figures.channel / growth,
        "level": figures.level / growth / _slack(figures),
        "odd_channel": _odd(figures),
    }


def worst_part(figures: NoiseFigures, dtype: np.dtype, upstream: float | None = None) -> float:
    """Return the part that is furthest from its limit, or beyond it, as a multiple of that limit."""
    return max(part.ratio for part in _held(figures, limits_for(dtype), dtype, upstream).values())


def level_limit(dtype: np.dtype, upstream: float | None = None) -> float:
    """Return the relative L2 difference that the default verdict allows a tensor."""
    limits = limits_for(dtype)
    return limits.level * _growth(upstream, limits) * dtypes.eps_of(dtype)


def growth_of(upstream: float | None, dtype: np.dtype) -> float:
    """Return the factor on the limits of a type for the noise upstream."""
    return _growth(upstream, limits_for(dtype))


def _growth(upstream: float | None, limits: Limits) -> float:
    """Return the factor on the limits in eps for the noise upstream."""
    return 1.0 if upstream is None else max(limits.least, upstream / limits.quiet)


def local_growth(level: float, upstream: float | None, limits: Limits) -> float:
    """Return the factor on the limits of elements and rows, which follow the noise upstream and that around them."""
    return limits.least + ((limits.quiet if upstream is None else upstream) + level) / limits.quiet


def smallest_scale_seen(figures: NoiseFigures, limits: Limits, upstream: float | None = None) -> float:
    """The scale error, in eps, at which the part `scale` would fail beside the noise there is, or else the level."""
    most = limits.level * _growth(upstream, limits) * _slack(figures)
    if _too_few(figures):
        return most + figures.level
    return min(max(_visible(figures.typical, limits.scale, figures.own_scale), limits.coherent), most) + _UNROUNDED


def _too_few(figures: NoiseFigures) -> bool:
    """True for too few rows, channels or planes to agree on a scale."""
    return min(figures.rows, figures.channels) < LEAST_LINES or figures.maps == 1


def _visible(rest: float, share: float, unsure: float = 0.0) -> float:
    """Solve gain - unsure = share * (0.3 + sqrt(gain^2 + rest^2)) for the gain."""
    free = 1 - share**2
    base = unsure + share * _ROUNDED
    return (base + sqrt(base**2 - free * (base**2 - (share * rest) ** 2))) / free


class _Held(NamedTuple):
    """A part's figure beside its limit, in the part's own unit."""

    figure: float
    limit: float

    @property
    def ratio(self) -> float:
        """Of the two; beyond 1 the part fails."""
        return self.figure / self.limit


def _held(figures: NoiseFigures, limits: Limits, dtype: np.dtype, upstream: float | None) -> dict[Part, _Held]:
    growth, local = _growth(upstream, limits), local_growth(figures.level, upstream, limits)
    lost = max(_LOST / dtypes.eps_of(dtype), _TAIL * figures.level)
    scale, shift = abs(figures.scale), abs(figures.shift)
    # noise beyond what is healthy allows no larger scale or shift than that
    most = limits.level * growth
    # what three quarters of rows and channels share counts, and is told by the middle ones
    unsure = scale - abs(figures.sure_scale), shift - abs(figures.sure_shift)
    return {
        "scale": _Held(scale, min(_coherent(scale, figures.typical, limits.scale, limits, unsure[0]), most)),
        "shift": _Held(shift, min(_coherent(shift, figures.level, limits.shift, limits, unsure[1]), most)),
        "level": _Held(figures.level, most * _slack(figures)),
        "row": _Held(figures.row, min(limits.row * growth, lost)),
        "channel": _Held(figures.channel, min(limits.channel * growth, lost)),
        "row_noise": _Held(figures.row_noise or 0.0, limits.row_noise * local),
        "element": _Held(figures.element or 0.0, limits.element * local),
        "odd_channel": _Held(_odd(figures), limits.odd_channel),
    }


def _slack(figures: NoiseFigures) -> float:
    """Return the factor on the limit of a level for few elements."""
    return min(_MOST_SLACK, sqrt(max(1.0, _ENOUGH / figures.elements))) if figures.elements else 1.0


def _odd(figures: NoiseFigures) -> float:
    """How odd a channel is, if by more than its weights' rounding, which may be alike in all rows."""
    return figures.odd_channel if abs(figures.odd_gain) > 1.0 else 0.0


def _coherent(figure: float, noise: float, share: float, limits: Limits, unsure: float) -> float:
    """Return the limit of a scale or shift beside the noise that the rest of the difference is."""
    return max(_visible(sqrt(max(noise**2 - figure**2, 0.0)), share, unsure), limits.coherent)


def _failed(held: dict[Part, _Held], figures: NoiseFigures, dtype: np.dtype) -> tuple[FailedPart, ...]:
    """Put the parts beyond their limits into words: what all values share first, then the furthest beyond its limit."""
    eps, found = dtypes.eps_of(dtype), []
    beyond = [(part, *one) for part, one in held.items() if one.figure > one.limit]
    for part, figure, limit in sorted(beyond, key=lambda one: (one[0] not in _COHERENT, -one[1] / one[2])):
        what, index = _words(part, figures, percent(figure * eps), eps)
        unit = 1.0 if part == "odd_channel" else eps
        within = f"{limit:g} deviations" if part == "odd_channel" else percent(limit * eps)
        found.append(FailedPart(part, figure * unit, limit * unit, what, index, within))
    return tuple(found)


def _words(part: Part, figures: NoiseFigures, size: str, eps: float) -> tuple[str, int | None]:
    """Say what a part is, and the row or channel that it is about."""
    match part:
        case "scale":
            return f"all values are {size} too {_size(figures.scale)}", None
        case "shift":
            return f"all values are shifted {'up' if figures.shift > 0 else 'down'} by {size} of their size", None
        case "row":
            return f"row {figures.row_index} differs by {size}", figures.row_index
        case "row_noise":
            where = figures.row_noise_index
            return f"the values of row {where} differ by {size} of what is usual around them", where
        case "channel":
            return f"channel {figures.channel_index} is off by {size}", figures.channel_index
        case "element":
            return f"one element differs by {size} of what is usual around it", None
        case "odd_channel":
            gain = f"{percent(abs(figures.odd_gain) * eps)} too {_size(figures.odd_gain)}"
            text = f"channel {figures.odd_index} is {gain}, {figures.odd_channel:.0f} deviations from all others"
            return text, figures.odd_index
    return f"values differ everywhere by {size}", None


def sentence_of(parts: Sequence[FailedPart], dtype: np.dtype | str) -> str:
    """Join findings, and say once what healthy runs stay within."""
    limits = " and ".join(dict.fromkeys(part.within for part in parts if part.within))
    found = " and ".join(part.text for part in parts)
    return f"{found}; healthy {short_name(dtype)} runs stay within {limits}" if limits else found


def _note(seen: float, figures: NoiseFigures, eps: float) -> str:
    if _too_few(figures):
        return f"in so few rows or channels a scale error below {percent(seen)} would not show"
    if seen > _TOO_NOISY:
        noise = percent(figures.typical * eps)
        return f"noise of {noise} is too high to judge: a scale error below {percent(seen)} would not show here"
    return f"a scale error below {percent(seen)} would not show here"


def percent(share: float) -> str:
    """A share as people write it: 2.0 %, 0.3 %, 2e-05 %."""
    percent = 100 * share
    return f"{percent:.1f} %" if percent >= 0.095 else f"{percent:.2g} %"


def _size(figure: float) -> str:
    return "large" if figure > 0 else "small"


def short_name(dtype: np.dtype | str) -> str:
    """A type as people call it: bf16, fp32."""
    name = dtype if isinstance(dtype, str) else dtypes.name_of(dtype)
    return _TYPES.get(name, name)
