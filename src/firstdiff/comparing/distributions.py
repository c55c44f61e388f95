"""Compare distributions of samples drawn from different random generators."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import prod
from typing import Any, Literal

import numpy as np

from firstdiff import dtypes
from firstdiff.comparing.options import Options
from firstdiff.comparing.pipeline import Comparable, open_side
from firstdiff.comparing.rows import MatchedPair, matched_pairs
from firstdiff.errors import FirstdiffError
from firstdiff.measure.two_samples import LEAST_SAMPLES, SampleTest, compare_samples, kolmogorov_smirnov
from firstdiff.pairing import pair_up
from firstdiff.trace import Source

# chance that a whole comparison finds a difference where there is none
ERROR_LEVEL = 1e-3
# sorting more than this takes seconds and tells nothing more
MAX_SAMPLES = 1 << 22
_MOST_COLUMNS = 4096

Status = Literal["match", "mismatch", "missing", "extra", "failed", "inconclusive"]
_COUNTED = {
    "total_variation": "the shares",
    "chi_square": "the counts",
    "kolmogorov_smirnov": "the cumulative shares",
}
_NOT_SAMPLES = frozenset({"param", "buffer"})


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributionRow:
    """One pair of samples.

    samples: how many values of each side were looked at, from the front
    tests: total variation, chi-square and Kolmogorov-Smirnov over all values together
    column, column_p: the place behind the first axis whose own values differ most, and the chance of that over all
        places; None where the shape has no such places
    """

    key: str
    status: Status
    reason: str | None = None
    samples: tuple[int, int] | None = None
    tests: tuple[SampleTest, ...] = ()
    column: tuple[int, ...] | None = None
    column_p: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributionComparison:
    """Two runs compared as samples; `level` is the chance, for each test, of a difference where there is none."""

    verdict: Literal["match", "mismatch", "not_compared"]
    level: float
    rows: tuple[DistributionRow, ...]
    warnings: tuple[str, ...] = ()

    def to_plain(self) -> dict[str, Any]:
        """Return the JSON of it."""
        return {"schema": "firstdiff/distribution/1", "error_level": ERROR_LEVEL, **asdict(self)}


def compare_distributions(
    reference: Comparable, candidate: Comparable, options: Options | None = None
) -> DistributionComparison:
    """Compare two runs whose random numbers are not shared: samples by their distributions.

    Every tensor's values are taken for independent draws. Weights are left out: they are no samples.
    """
    options = options or Options()
    paired = pair_up(
        open_side(reference, "reference", options), open_side(candidate, "candidate", options), options.pairing
    )
    matched = matched_pairs(paired)
    rows = [row for row in matched if row.first.key.role not in _NOT_SAMPLES]
    level = ERROR_LEVEL / max(4 * sum(row.match is not None for row in rows), 1)
    found = tuple(_compared(row, level) for row in rows)
    warnings = list(paired.warnings)
    if left := len(matched) - len(rows):
        warnings.append(f"{left:,} weights are no samples and were left out; `firstdiff weights` compares them")
    return DistributionComparison(verdict=_verdict(found, options), level=level, rows=found, warnings=tuple(warnings))


def _verdict(rows: tuple[DistributionRow, ...], options: Options) -> Literal["match", "mismatch", "not_compared"]:
    allowed: set[Status] = {"match"}
    allowed |= {"missing"} if options.allow_missing else set()
    allowed |= {"extra"} if options.allow_extra else set()
    if not any(row.tests or row.status == "mismatch" for row in rows):
        return "not_compared"
    return "match" if all(row.status in allowed for row in rows) else "mismatch"


def _compared(row: MatchedPair, level: float) -> DistributionRow:
    if row.match is None:
        side = "reference" if row.references else "candidate"
        return DistributionRow(
            key=row.key, status="missing" if row.references else "extra", reason=f"only the {side} has it"
        )
    if len(row.references) > 1 or len(row.candidates) > 1:
        return DistributionRow(key=row.key, status="failed", reason="several tensors make one; record them as one")
    sources = []
    for tensor in (row.references[0], row.candidates[0]):
        if tensor.source is None:
            return DistributionRow(key=row.key, status="failed", reason=f"{tensor.key} {tensor.error}")
        sources.append(tensor.source)
    try:
        return compare_sources(row.key, sources[0], sources[1], level)
    except FirstdiffError as error:
        return DistributionRow(key=row.key, status="failed", reason=str(error))


def compare_sources(key: str, reference: Source, candidate: Source, level: float) -> DistributionRow:
    """Compare the values of two tensors as samples."""
    kinds = {_kind(source) for source in (reference, candidate)}
    if "complex" in kinds:
        reason = "complex values have no order; record real and imaginary part as two tensors"
        return DistributionRow(key=key, status="failed", reason=reason)
    if len(kinds) > 1:
        reason = f"{reference.dtype.name} and {candidate.dtype.name} are samples of different kinds; record both as one"
        return DistributionRow(key=key, status="failed", reason=reason)
    ref, cand = (_values(source) for source in (reference, candidate))
    samples = len(ref), len(cand)
    if min(samples) < LEAST_SAMPLES:
        reason = (
            f"{samples[0]:,} and {samples[1]:,} samples are too few to tell distributions apart; "
            f"record {LEAST_SAMPLES} or more"
        )
        return DistributionRow(key=key, status="inconclusive", reason=reason, samples=samples)
    nan = [np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), bool) for values in (ref, cand)]
    lost = [int(np.count_nonzero(mask)) for mask in nan]
    if any(lost):
        reason = f"{lost[1]:,} samples of the candidate and {lost[0]:,} of the reference are NaN"
        return DistributionRow(key=key, status="mismatch", reason=reason, samples=samples)
    found = compare_samples(ref, cand, level)
    column, column_p = _worst_column(reference, candidate, ref, cand)
    difference = _difference(found.smallest(), column, column_p, level)
    return DistributionRow(
        key=key,
        status="mismatch" if difference else "match",
        reason=difference,
        samples=samples,
        tests=found.tests,
        column=column,
        column_p=column_p,
    )


def _difference(
    strongest: SampleTest, column: tuple[int, ...] | None, column_p: float | None, level: float
) -> str | None:
    """Say which test finds more than chance; None where none does."""
    if strongest.p < level:
        words = _COUNTED[strongest.name]
        return f"{words} differ by more than chance: p {strongest.p:.2g} is below {level:.2g}"
    if column is not None and column_p is not None and column_p < level:
        place = f"[:, {', '.join(map(str, column))}]"
        return f"all values together agree, those at {place} do not: p {column_p:.2g} is below {level:.2g}"
    return None


def _kind(source: Source) -> str:
    kind = dtypes.kind_of(source.dtype)
    return "int" if kind == "bool" else kind


def _values(source: Source) -> np.ndarray:
    values = source.window(0, min(source.size, MAX_SAMPLES))
    return values.astype(np.float64) if _kind(source) == "float" else values.astype(np.int64)


def _worst_column(
    reference: Source, candidate: Source, ref: np.ndarray, cand: np.ndarray
) -> tuple[tuple[int, ...] | None, float | None]:
    """Test every place behind the first axis on its own: two columns changed over leave the whole as it was."""
    places = reference.shape[1:]
    width = prod(places)
    if not places or places != candidate.shape[1:] or not 1 < width <= _MOST_COLUMNS:
        return None, None
    tables = [values[: len(values) // width * width].reshape(-1, width) for values in (ref, cand)]
    if min(map(len, tables)) < LEAST_SAMPLES:
        return None, None
    chances = [kolmogorov_smirnov(tables[0][:, at], tables[1][:, at]).p for at in range(width)]
    at = int(np.argmin(chances))
    return tuple(map(int, np.unravel_index(at, places))), min(1.0, chances[at] * width)
