"""Compare two runs: the one part that knows every stage."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from firstdiff.comparing.measuring import Measuring, Progress
from firstdiff.comparing.options import EngineChoice, Options
from firstdiff.comparing.outcome import comparison_of
from firstdiff.comparing.rows import lone_row
from firstdiff.errors import UsageError
from firstdiff.judge import Rules, load_rules
from firstdiff.locate import mark_recovered
from firstdiff.pairing import PairingResult, pair_up
from firstdiff.readers import open_trace
from firstdiff.schema import Comparison, Pair
from firstdiff.trace import Trace
from firstdiff.trace.order import OrderRule

__all__ = ["Comparable", "Options", "compare", "compare_traces"]

Comparable = str | os.PathLike[str] | Trace | Mapping[str, Any]


def compare(
    reference: Comparable,
    candidate: Comparable,
    *,
    atol: float | None = None,
    rtol: float | None = None,
    tolerances: str | os.PathLike[str] | None = None,
    equal_nan: bool = False,
    allow_missing: bool = False,
    allow_extra: bool = False,
    order: OrderRule | None = None,
    engine: EngineChoice = "auto",
    threads: int | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """Compare two runs, tensor by tensor.

    >>> import firstdiff as fd
    >>> fd.compare({"x": [1.0, 2.0]}, {"x": [1.0, 2.5]}).verdict
    'mismatch'

    reference, candidate: a path to whatever `firstdiff inspect` opens, a `Trace`, or a dict of arrays
    atol, rtol: allow `|c - r| <= atol + rtol * |r|` instead of the default
    tolerances: a TOML file with `[[tolerances]]`, or "torch" for torch's table
    equal_nan: let NaN match NaN
    allow_missing, allow_extra: let tensors that only the reference, or only the candidate, has pass
    order: the rule that orders plain files, instead of the one their names suggest
    engine: "numpy" starts at once, "numba" is faster on many gigabytes
    threads: how many to use; all cores if left out
    progress: called with (bytes done, bytes in all)
    """
    named = tolerances is not None and tolerances != "torch"
    rules = Rules(
        named=load_rules(Path(os.fspath(tolerances))) if named and tolerances is not None else (),
        atol=atol,
        rtol=rtol,
        table="torch" if tolerances == "torch" else "default",
        equal_nan=equal_nan,
    )
    options = Options(
        rules=rules,
        allow_missing=allow_missing,
        allow_extra=allow_extra,
        order=order,
        engine=engine,
        threads=threads,
    )
    return compare_traces(reference, candidate, options, progress)


def compare_traces(
    reference: Comparable, candidate: Comparable, options: Options, progress: Progress | None = None
) -> Comparison:
    """`compare`, with its options as one object."""
    begun = time.perf_counter()
    sides = _open(reference, "reference", options), _open(candidate, "candidate", options)
    opened = time.perf_counter()
    paired = pair_up(*sides, options.pairing)
    matched = time.perf_counter()
    pairs = mark_recovered(_rows(paired, options, progress))
    done = time.perf_counter()
    timings = {"open": opened - begun, "pair": matched - opened, "measure": done - matched, "total": done - begun}
    return comparison_of(paired, pairs, options, timings)


def _open(side: Comparable, name: str, options: Options) -> Trace:
    if isinstance(side, Trace):
        return side
    if isinstance(side, Mapping):
        return Trace.from_arrays(side, name)
    if not isinstance(side, str | os.PathLike):
        raise UsageError(f"the {name} is a {type(side).__name__}; give a path, a Trace or a dict of arrays")
    return open_trace(side, order=options.order)


def _rows(paired: PairingResult, options: Options, progress: Progress | None) -> tuple[Pair, ...]:
    """Rows in the order of the reference, then what only the candidate has."""
    measuring = Measuring(paired, options, progress)
    rows: list[tuple[int, Pair]] = [(match.reference[0], measuring.row(match)) for match in paired.pairs]
    rows += [(left.index, lone_row(paired.reference.tensors[left.index], left, "missing")) for left in paired.missing]
    rows.sort(key=lambda row: row[0])
    extra = (lone_row(paired.candidate.tensors[left.index], left, "extra") for left in paired.extra)
    ordered = [pair for _, pair in rows] + list(extra)
    return tuple(replace(pair, index=index) for index, pair in enumerate(ordered))
