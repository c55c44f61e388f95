"""Report a comparison of distributions as text."""

from __future__ import annotations

from collections.abc import Iterator

from firstdiff.comparing import DistributionComparison, DistributionRow
from firstdiff.measure.two_samples import SampleTest
from firstdiff.reports.terminal import shown

_MARKS = {"match": "ok", "mismatch": "MISMATCH"}


def distribution_lines(comparison: DistributionComparison) -> Iterator[str]:
    """Describe every row with its three tests, then the verdict and the warnings."""
    for row in comparison.rows:
        yield from (shown(line) for line in _row(row, comparison.level))
    yield _verdict(comparison)
    for warning in comparison.warnings:
        yield f"warning: {shown(warning)}"


def _row(row: DistributionRow, level: float) -> Iterator[str]:
    samples = f", {row.samples[0]:,} and {row.samples[1]:,} samples" if row.samples else ""
    yield f"{_MARKS.get(row.status, row.status)}  {row.key}{samples}"
    if row.reason:
        yield f"    {row.reason}"
    for test in row.tests:
        yield f"    {_test(test, level)}"
    if row.column is not None and row.column_p is not None:
        place = f"[:, {', '.join(map(str, row.column))}]"
        yield f"    each place on its own: p {row.column_p:.2g}, the least like {place}"


def _test(test: SampleTest, level: float) -> str:
    if test.name == "total_variation":
        return f"total variation {test.statistic:.3g}, up to {test.limit:.3g} by chance (error level {level:.2g})"
    if test.name == "chi_square":
        return f"chi-square {test.statistic:.4g} with {test.freedom} degrees of freedom, p {test.p:.2g}"
    return f"Kolmogorov-Smirnov {test.statistic:.3g}, p {test.p:.2g}"


def _verdict(comparison: DistributionComparison) -> str:
    compared = sum(bool(row.tests) or row.status == "mismatch" for row in comparison.rows)
    if comparison.verdict == "not_compared":
        return "NOT COMPARED: no pair of tensors holds samples that can be compared, and nothing compared is no match"
    differ = sum(row.status == "mismatch" for row in comparison.rows)
    others = len(comparison.rows) - compared
    rest = f"; {others:,} could not be compared or have no partner" if others else ""
    pairs = "pair" if compared == 1 else "pairs"
    if comparison.verdict == "match":
        return f"MATCH: {compared:,} {pairs} of samples may be of one distribution{rest}"
    are = "is" if differ == 1 else "are"
    return f"MISMATCH: {differ:,} of {compared:,} {pairs} of samples {are} of different distributions{rest}"
