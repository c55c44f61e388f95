"""Judge the form of a pair's difference from the sums of one pass; values are read again only if suspicious."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import inf

import ml_dtypes
import numpy as np

from firstdiff import dtypes
from firstdiff.judge.feature_axis import least_of_both_views, maps_of, without_trailing_ones
from firstdiff.judge.noise_figures import (
    NoiseFigures,
    WorstElements,
    noise_figures,
    suspicious_rows,
    worst_elements,
)
from firstdiff.judge.noise_rule import (
    growth_of,
    judge_outputs,
    level_limit,
    limits_for,
    local_growth,
    short_name,
    worst_part,
)
from firstdiff.judge.noise_sums import NoiseSums
from firstdiff.judge.special_values import filler_places, may_have_fillers
from firstdiff.judge.verdict import ratio
from firstdiff.measure import PairScan
from firstdiff.schema import FailedPart, JudgingBasis, Systematic, Tolerance
from firstdiff.trace import ArraySource, Source

WEIGHTS = "weights of one type"
WHOLE = "whole numbers"
_COUNTS = ("rows", "channels", "row_index", "channel_index", "odd_index", "row_noise_index", "elements", "maps")
_MOST_ROWS = 256  # that are read again for the worst element: those that can hold it come first
_WINDOW = 1 << 22  # elements that are looked through for fillers at a time
_LEAST_BITS = 10  # of fractions that whole numbers do without: by chance one tensor in a thousand has none
_READ_WHOLE = 1 << 16  # elements of a tensor that is read at once rather than row by row


@dataclass(frozen=True, slots=True)
class Filled:
    """A pair whose masks fill places on both sides.

    sources: the same with zeros in those places; None where the two masks are not the same
    hidden, reference_only, candidate_only: how many places both sides fill, and only one of them
    """

    sources: tuple[Source, Source] | None
    counted: np.ndarray
    hidden: int
    reference_only: int
    candidate_only: int


def exact_kind(scan: PairScan, sources: tuple[Source, Source], role: str) -> str | None:
    """Say what the values are, if no rounding excuses a difference: weights of one type, and whole numbers."""
    reference, candidate = sources
    kinds = {dtypes.kind_of(source.dtype) for source in sources}
    if kinds in ({"float", "int"}, {"float", "bool"}):  # ids and masks that one side keeps as floats
        return None if _is_rounded(reference, candidate) or _is_rounded(candidate, reference) else WHOLE
    if kinds != {"float"}:
        return None
    if role == "param" and reference.dtype == candidate.dtype:
        return WEIGHTS
    if not (scan.sums.reference_whole and scan.sums.candidate_whole) or scan.sums.total.rr == 0:
        return None
    largest = max(abs(scan.reference.min or 0.0), abs(scan.reference.max or 0.0))
    if largest * dtypes.eps_of(reference.dtype) > 1 and not _are_whole_by_choice(reference):
        return None
    coarser = dtypes.eps_of(candidate.dtype) > dtypes.eps_of(reference.dtype)
    return None if coarser and scan.sums.total.dd > 0 and _is_rounded(*sources) else WHOLE


def _are_whole_by_choice(source: Source) -> bool:
    """True if whole numbers could have had fractions, though the largest are too large for any in their type."""
    bits, eps = 0.0, dtypes.eps_of(source.dtype)
    for start in range(0, source.size, _WINDOW):
        sizes = np.abs(source.window(start, min(start + _WINDOW, source.size)).astype(np.float64))
        if not (sizes <= 2 / eps).all():
            return False  # where whole numbers are rounded, too
        bits -= float(np.log2(np.minimum(sizes[sizes > 0] * eps, 1.0)).sum())
        if bits >= _LEAST_BITS:
            return True
    return False


def _is_rounded(exact: Source, rounded: Source) -> bool:
    """True if the second is the first as its own type holds it."""
    windows = _windows(exact, rounded, _WINDOW)
    with np.errstate(invalid="ignore"):  # NaN and Inf as whole numbers
        return all(np.array_equal(values.astype(held.dtype), held) for values, held in windows)


def is_cast(sources: tuple[Source, Source]) -> bool:
    """Return whether two sides hold the same values, as far as their two types can."""
    kinds = {dtypes.kind_of(source.dtype) for source in sources}
    types = sorted((source.dtype for source in sources), key=dtypes.eps_of)
    if kinds != {"float"} or types[0] == types[1] or sources[0].shape != sources[1].shape:
        return False
    fine, coarse = types
    # neither float16 nor bfloat16 holds what the other does: both are roundings of the same number
    finer_eps = dtypes.eps_of(fine) if fine.itemsize == coarse.itemsize else 0.0
    half = (dtypes.eps_of(coarse) + finer_eps) / 2
    step = max(float(ml_dtypes.finfo(dtype).smallest_subnormal) for dtype in types)
    with np.errstate(invalid="ignore"):
        for reference, candidate in _windows(*sources, _WINDOW):
            one, other = reference.astype(np.float64), candidate.astype(np.float64)
            if not (np.abs(one - other) <= half * np.maximum(np.abs(one), np.abs(other)) + step).all():
                return False
    return True


def are_of_two_types(sources: tuple[Source, Source]) -> bool:
    """Return whether weights of one side can be those of the other, rounded: floats of two types."""
    types = [source.dtype for source in sources]
    return types[0] != types[1] and all(dtypes.kind_of(dtype) == "float" and dtype.itemsize >= 2 for dtype in types)


def other_weights(sources: tuple[Source, Source], *, share: float = 0.0) -> FailedPart | None:
    """Say how many weights of another type are not the reference's, rounded; None where all are.

    share: of them that may be others, such as entries of a table near 0 that each side has computed for itself
    """
    if not are_of_two_types(sources):
        return None
    types = [source.dtype for source in sources]
    held = max(types, key=dtypes.eps_of)
    eps, others = dtypes.eps_of(held), 0
    # the finer type may hold small values in coarser steps, as float16 does beside bfloat16
    step = max(float(ml_dtypes.finfo(held).tiny), *(float(ml_dtypes.finfo(one).smallest_subnormal) for one in types))
    with np.errstate(all="ignore"):
        for reference, candidate in _windows(*sources, _WINDOW):
            if not np.array_equal(reference.astype(held), candidate.astype(held)):
                one, other = reference.astype(np.float64), candidate.astype(np.float64)
                others += int(np.count_nonzero(np.abs(one - other) > eps * np.abs(one) + step))
    found = others / max(sources[0].size, 1)
    if found <= share:
        return None
    text = f"{others:,} of {sources[0].size:,} weights are not the reference's, rounded to {short_name(held)}"
    return FailedPart("exact", found, share, text)


def without_fillers(scan: PairScan, sources: tuple[Source, Source]) -> Filled | None:
    """Look for what masks put in hidden places; None where neither side has any."""
    if any(dtypes.kind_of(source.dtype) != "float" for source in sources):
        return None
    if not any(may_have_fillers(side.min or 0.0, side.inf) for side in (scan.reference, scan.candidate)):
        return None
    found = [
        (reference, candidate, filler_places(reference, candidate))
        for reference, candidate in _windows(*sources, _WINDOW)
    ]
    if all(places is None for _, _, places in found):
        return None
    hidden = [np.zeros(reference.shape, bool) if places is None else places.hidden for reference, _, places in found]
    lone = [(places.reference_only, places.candidate_only) for _, _, places in found if places is not None]
    counted = ~np.concatenate(hidden).reshape(sources[0].shape)
    one_sided = [sum(side) for side in zip(*lone, strict=True)]
    shown = None
    if not any(one_sided):
        sides = zip(*((reference, candidate) for reference, candidate, _ in found), strict=True)
        shown = tuple(ArraySource(_shown(np.concatenate(side), counted)) for side in sides)
    return Filled(
        None if shown is None else (shown[0], shown[1]), counted, int((~counted).sum()), one_sided[0], one_sided[1]
    )


def _shown(values: np.ndarray, counted: np.ndarray) -> np.ndarray:
    return np.where(counted, values.reshape(counted.shape), np.zeros((), values.dtype))


def systematic_of(
    scan: PairScan, sources: tuple[Source, Source], dtype: np.dtype, filled: Filled | None = None
) -> Systematic:
    """Work out the form of a difference.

    scan: of these sources
    dtype: the coarsest type either side was computed in
    filled: what masks fill; `scan` and `sources` are then without it, if both masks are the same
    """
    hidden = filled.hidden if filled else 0
    base = Systematic(dtype=dtypes.name_of(dtype), hidden=hidden)
    if filled is not None and filled.sources is None:
        return replace(base, failed=(_other_mask(filled),))
    if scan.sums.total.dd == 0 and scan.sums.rows is not None:
        return base  # both sides are equal
    eps = dtypes.eps_of(dtype)
    sums, together = noise_sums(scan, sources, filled), scan.sums.rows_together if filled is None else 1
    counted = filled.counted if filled is not None else None
    if eps == 0 or sums is None:
        return base
    maps = maps_of(sources[0].shape)
    shorter, counted = without_trailing_ones(sources, counted)
    if shorter is not sources:
        sources, together = shorter, 1
        sums = noise_sums_of(sources, counted)
    figures = noise_figures(sums, eps)
    if figures is None:
        total = sums.rows.total
        if total.rr[0] > 0 or total.dd[0] == 0:
            return base
        text = "the reference is all zeros, and the candidate is not"
        return replace(base, failed=(FailedPart("exact", float(np.sqrt(total.dd[0])), 0.0, text),))
    worst = _worst(sums, sources, dtype, figures.level, together)
    figures = figures.of_maps(maps).with_worst(worst, eps)
    return replace(base, figures=least_of_both_views(figures, sources, counted, dtype).to_plain())


def judged_systematic(found: Systematic, upstream: float | None) -> Systematic:
    """Judge the form of a difference beside the noise of what came before.

    upstream: the largest level of a matching row before it, in eps; None where it was not recorded
    """
    certain = tuple(part for part in found.failed if part.part in ("exact", "mask"))
    if not found.figures:
        return replace(found, upstream=upstream, failed=certain)
    verdict = judge_outputs(figures_of(found), dtypes.from_name(found.dtype), upstream)
    return replace(
        found,
        upstream=upstream,
        failed=(*certain, *verdict.failed),
        scale_seen=verdict.scale_seen,
        note=None if certain else verdict.note,
    )


def judged_again(found: Systematic, upstream: float | None) -> Systematic:
    """Judge a form that was judged before beside other noise; most limits stay where they were."""
    dtype = dtypes.from_name(found.dtype)
    looked_at = found.figures.get("element") or found.figures.get("row_noise")  # whose limits follow the noise closely
    if not looked_at and growth_of(upstream, dtype) == growth_of(found.upstream, dtype):
        return replace(found, upstream=upstream)
    return judged_systematic(found, upstream)


def ratio_to_limits(
    basis: JudgingBasis, tolerance: Tolerance, systematic: Systematic | None, *, equal_nan: bool
) -> float:
    """Return how many times what is allowed a pair differs by: above 1 its values alone do not match.

    The default rule takes the worst part of the difference by its limit, others the worst element by its tolerance.
    """
    if tolerance.rule != "default" or systematic is None or basis.conflicting or (basis.both_nan and not equal_nan):
        return ratio(basis, tolerance.atol, tolerance.rtol, equal_nan=equal_nan)
    failed = max((part.figure / part.limit if part.limit else inf for part in systematic.failed), default=0.0)
    figures = figures_of(systematic)
    if figures is None:
        return failed
    return max(failed, worst_part(figures, dtypes.from_name(systematic.dtype), systematic.upstream))


def level_allowed(found: Systematic) -> float:
    """Return the relative L2 difference that a row may have where it stands."""
    return level_limit(dtypes.from_name(found.dtype), found.upstream)


def figures_of(found: Systematic) -> NoiseFigures | None:
    """The figures that were kept of a pair; None where both sides are equal."""
    if not found.figures:
        return None
    counts = {name: int(found.figures.get(name, 0)) for name in _COUNTS}
    return NoiseFigures(**{**found.figures, **counts})  # type: ignore[arg-type]


def _other_mask(filled: Filled) -> FailedPart:
    only = [
        f"{count:,} only in the {side}"
        for count, side in ((filled.reference_only, "reference"), (filled.candidate_only, "candidate"))
        if count
    ]
    share = (filled.reference_only + filled.candidate_only) / max(filled.counted.size, 1)
    return FailedPart("mask", share, 0.0, f"a mask hides other places: {' and '.join(only)}")


def noise_sums(scan: PairScan, sources: tuple[Source, Source], filled: Filled | None) -> NoiseSums | None:
    """The sums of a pair; None for whole numbers."""
    if filled is not None:
        return noise_sums_of(sources, filled.counted)
    found = NoiseSums.from_scan(scan.sums)
    if found is None and sources[0].size and any(dtypes.kind_of(source.dtype) == "complex" for source in sources):
        return noise_sums_of(sources)
    return found


def noise_sums_of(sources: tuple[Source, Source], counted: np.ndarray | None = None) -> NoiseSums:
    """The sums of a pair that is read for them."""
    values = [source.view() for source in sources]
    if any(dtypes.kind_of(source.dtype) == "complex" for source in sources):
        values = [_parts(array) for array in values]
    return NoiseSums.of(values[0], values[1], counted)


def _parts(values: np.ndarray) -> np.ndarray:
    """Complex numbers as twice as many real ones."""
    numbers = np.ascontiguousarray(np.atleast_1d(values).astype(np.complex128))
    return numbers.view(np.float64)


def _worst(
    sums: NoiseSums, sources: tuple[Source, Source], dtype: np.dtype, level: float, together: int
) -> WorstElements:
    """The worst element and the noisiest row, of rows that may be beyond a limit; zeros where there are none."""
    limits, eps = limits_for(dtype), dtypes.eps_of(dtype)
    least = local_growth(level, 0.0, limits) * eps
    rows = suspicious_rows(sums, limits.element * least, limits.row_noise * least, together)
    if not rows.size:
        return WorstElements()
    if any(dtypes.kind_of(source.dtype) == "complex" for source in sources):
        return WorstElements(float(np.sqrt(sums.rows.dd.max(initial=0) / max(sums.rows.rr.max(), 1e-300))))
    width = sources[0].shape[-1] if sources[0].shape else 1
    sizes = sums.rows.sizes
    # where channels were not summed up, as in a column, the size of all stands for that of each
    channels = sums.channels.sizes if len(sums.channels) == width else np.full(width, sums.rows.size)
    if sources[0].size <= _READ_WHOLE:
        reference, candidate = (source.window(0, source.size).reshape(-1, width) for source in sources)
        return worst_elements(reference, candidate, np.repeat(sizes, together)[: len(reference)], channels)
    worst = WorstElements()
    for row in rows[:_MOST_ROWS]:
        first = int(row) * together
        start, stop = first * width, min((first + together) * width, sources[0].size)
        reference, candidate = (source.window(start, stop).reshape(-1, width) for source in sources)
        here = worst_elements(reference, candidate, np.full(len(reference), sizes[row]), channels, first_row=first)
        worst = worst.or_worse(here)
    return worst


def _windows(reference: Source, candidate: Source, size: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for start in range(0, reference.size, size):
        stop = min(start + size, reference.size)
        yield reference.window(start, stop), candidate.window(start, stop)
