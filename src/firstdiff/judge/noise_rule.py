"""The default verdict on a pair: find the parts of a difference that are no rounding noise.

Two questions have their own limits. *Outputs alone*: both sides ran on their own inputs, and the noise of everything
upstream is in the difference. *Isolation*: one operation was computed again in float64 from the candidate's own inputs,
and the difference is one rounding of its result. `make calibrate` chooses the limits and scores them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf, sqrt

import numpy as np

from firstdiff import dtypes
from firstdiff.judge.noise_figures import NoiseFigures
from firstdiff.schema import FailedPart, Part

PARTS: tuple[Part, ...] = ("scale", "shift", "element", "row", "channel", "level", "odd_channel")
_ROUNDED = 0.3  # eps of noise that the rounding of a result alone leaves, beside which nothing is coherent
_TOO_NOISY = 0.03  # a scale error up to this that could not be seen means that noise hides most errors
# relative errors of a whole row or channel that no noise explains: it is lost, however noisy the run
_LOST = 0.8
_TYPES = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "float64": "fp64"}


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of the parts. scale, shift: shares of the noise; odd_channel: deviations; all others in eps.

    quiet: noise upstream, in eps, at which the limits in eps hold; they follow it up, and down to `least`
    odd_noise: noise up to which a single channel is looked at
    coherent: scale or shift, in eps, that a constant leaves which one side rounds and the other does not
    """

    scale: float
    shift: float
    element: float
    row: float
    channel: float
    level: float
    odd_channel: float
    quiet: float = inf
    odd_noise: float = inf
    coherent: float = 0.6
    least: float = 0.5


HALF = Limits(scale=0.65, shift=0.68, element=96, row=64, channel=56, level=8, odd_channel=14, quiet=3, odd_noise=4)
WIDE = Limits(
    scale=0.62,
    shift=0.6,
    element=560,
    row=256,
    channel=400,
    level=48,
    odd_channel=inf,
    quiet=20,
    odd_noise=0,
    coherent=2.5,
    least=1.0,
)
# eps is an eighth or a quarter already: a few of them would let anything pass
BYTE = Limits(scale=0.62, shift=0.6, element=2, row=2, channel=2, level=1, odd_channel=inf, quiet=1, odd_noise=0)

# one operation on the candidate's own inputs: the rounding of its result, and in float32 the order of its sums
HALF_ALONE = Limits(scale=0.2, shift=0.06, element=1.0, row=0.9, channel=0.8, level=0.5, odd_channel=inf)
WIDE_ALONE = Limits(scale=2, shift=2, element=128, row=64, channel=40, level=40, odd_channel=inf)
BYTE_ALONE = Limits(scale=0.2, shift=0.06, element=1.0, row=0.9, channel=0.8, level=0.5, odd_channel=inf)


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
    chosen = limits or limits_for(dtype)
    growth = _growth(upstream, chosen)
    eps = dtypes.eps_of(dtype)
    failed = [*_coherent(figures, chosen, dtype, growth), *_amounts(figures, chosen, dtype, growth)]
    odd = figures.odd_channel
    if odd > chosen.odd_channel and figures.level <= chosen.odd_noise:
        gain = abs(figures.odd_gain) * eps
        text = (
            f"channel {figures.odd_index} is {percent(gain)} too {_size(figures.odd_gain)}, {odd:.0f} deviations from "
            f"all others; healthy channels stay within {chosen.odd_channel:g}"
        )
        failed.append(FailedPart("odd_channel", odd, chosen.odd_channel, text, figures.odd_index))
    seen = smallest_scale_seen(figures, chosen) * eps
    return NoiseVerdict(tuple(failed), figures.level, seen, None if failed else _note(seen, figures, eps), figures)


def judge_alone(figures: NoiseFigures | None, dtype: np.dtype, limits: Limits | None = None) -> NoiseVerdict:
    """Judge an operation that was computed again in float64 from the candidate's own inputs.

    figures: of the candidate's output against that; the computed one is the reference
    dtype: the type the candidate's output really has
    """
    if figures is None:
        return NoiseVerdict()
    chosen = limits or limits_for(dtype, alone=True)
    failed = _amounts(figures, chosen, dtype, 1.0)
    by_chance = 1 / sqrt(figures.rows * figures.channels)  # roundings of a few values do not cancel
    parts: tuple[tuple[Part, float, float], ...] = (
        ("scale", figures.scale, chosen.scale + by_chance),
        ("shift", figures.shift, chosen.shift + by_chance),
    )
    for part, figure, limit in parts:
        if abs(figure) > limit:
            failed.append(_coherent_part(part, figure, limit, dtype))
    return NoiseVerdict(tuple(failed), figures.level, chosen.scale * dtypes.eps_of(dtype), None, figures)


def strain(figures: NoiseFigures, dtype: np.dtype, upstream: float | None = None) -> dict[Part, float]:
    """For each part the limit at which the pair would just pass; what `Limits` has to be above of."""
    chosen = limits_for(dtype)
    growth = _growth(upstream, chosen)
    found: dict[Part, float] = {
        "scale": abs(figures.scale) / (_ROUNDED + figures.typical),
        "shift": abs(figures.shift) / (_ROUNDED + figures.level),
        "element": (figures.element or 0.0) / growth,
        "row": figures.row / growth,
        "channel": figures.channel / growth,
        "level": figures.level / growth,
    }
    return found | ({"odd_channel": figures.odd_channel} if figures.level <= chosen.odd_noise else {})


def worst_part(figures: NoiseFigures, dtype: np.dtype, upstream: float | None = None) -> float:
    """Return the part that is furthest from its limit, or beyond it, as a multiple of that limit."""
    limits = limits_for(dtype)
    growth, most = _growth(upstream, limits), _LOST / dtypes.eps_of(dtype)
    parts = [
        abs(figures.scale) / max(limits.scale * (_ROUNDED + figures.typical), limits.coherent),
        abs(figures.shift) / max(limits.shift * (_ROUNDED + figures.level), limits.coherent),
        (figures.element or 0.0) / (limits.element * growth),
        figures.row / min(limits.row * growth, most),
        figures.channel / min(limits.channel * growth, most),
        figures.level / (limits.level * growth),
    ]
    if figures.level <= limits.odd_noise:
        parts.append(figures.odd_channel / limits.odd_channel)
    return max(parts)


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


def smallest_scale_seen(figures: NoiseFigures, limits: Limits) -> float:
    """The scale error, in eps, at which the part `scale` would fail beside the noise there is."""
    if figures.rows < 8 or figures.channels < 8:
        return limits.level
    rest = sqrt(max(figures.typical**2 - figures.scale**2, 0.0))
    return min(max(_visible(rest, limits.scale), limits.coherent), limits.level)


def _visible(rest: float, share: float) -> float:
    """Solve gain = share * (0.3 + sqrt(gain^2 + rest^2)) for the gain."""
    free = 1 - share**2
    base = share * _ROUNDED
    return (base + sqrt(base**2 - free * (base**2 - (share * rest) ** 2))) / free


def _coherent(figures: NoiseFigures, limits: Limits, dtype: np.dtype, growth: float) -> list[FailedPart]:
    """Scale and shift against the noise that the rest of the difference is."""
    found = []
    parts: tuple[tuple[Part, float, float, float], ...] = (
        ("scale", figures.scale, figures.typical, limits.scale),
        ("shift", figures.shift, figures.level, limits.shift),
    )
    for part, figure, noise, share in parts:
        if abs(figure) > max(share * (_ROUNDED + noise), limits.coherent):
            rest = sqrt(max(noise**2 - figure**2, 0.0))
            # noise beyond what is healthy allows no more than that
            limit = min(max(_visible(rest, share), limits.coherent), limits.level * growth)
            found.append(_coherent_part(part, figure, limit, dtype))
    return found


def _coherent_part(part: Part, figure: float, limit: float, dtype: np.dtype) -> FailedPart:
    eps = dtypes.eps_of(dtype)
    size, within = abs(figure) * eps, limit * eps
    if part == "scale":
        what = f"all values are {percent(size)} too {_size(figure)}"
    else:
        what = f"all values are shifted {'up' if figure > 0 else 'down'} by {percent(size)} of their size"
    return FailedPart(part, size, within, f"{what}; healthy {short_name(dtype)} runs stay within {percent(within)}")


def _amounts(figures: NoiseFigures, limits: Limits, dtype: np.dtype, growth: float) -> list[FailedPart]:
    """Parts that are amounts: what is beyond the noise upstream, wherever it sits."""
    eps = dtypes.eps_of(dtype)
    candidates: tuple[tuple[Part, float | None, float, str, int | None], ...] = (
        ("level", figures.level, limits.level, "values differ everywhere by {0}", None),
        ("row", figures.row, limits.row, f"row {figures.row_index} differs by {{0}}", figures.row_index),
        (
            *("channel", figures.channel, limits.channel),
            *(f"channel {figures.channel_index} is off by {{0}}", figures.channel_index),
        ),
        ("element", figures.element, limits.element, "one element differs by {0} of what is usual around it", None),
    )
    found = []
    for part, figure, base, text, index in candidates:
        limit = base * growth
        if part in ("row", "channel"):
            limit = min(limit, _LOST / eps)
        if figure is not None and figure > limit:
            what = text.format(percent(figure * eps))
            said = f"{what}; healthy {short_name(dtype)} runs stay within {percent(limit * eps)}"
            found.append(FailedPart(part, figure * eps, limit * eps, said, index))
    return found


def _note(seen: float, figures: NoiseFigures, eps: float) -> str:
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
