"""Compare two runs: the one part that knows every stage."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from firstdiff.comparing.layout_options import LayoutMode, LayoutOptions
from firstdiff.comparing.measuring import Measuring, Progress
from firstdiff.comparing.options import EngineChoice, Options
from firstdiff.comparing.outcome import comparison_of
from firstdiff.comparing.rows import lone_row
from firstdiff.errors import UsageError, did_you_mean
from firstdiff.judge import Rules, load_rules
from firstdiff.locate import Located, Row, locate
from firstdiff.locate import isolate as isolated_rows
from firstdiff.pairing import Match, PairingOptions, PairingResult, doubt, load_map, pair_up
from firstdiff.readers import open_trace
from firstdiff.schema import Comparison, Pair
from firstdiff.trace import Trace
from firstdiff.trace.order import OrderRule

__all__ = ["Comparable", "Options", "compare", "compare_traces", "explain_pair", "row_named", "rules_of"]

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
    map: str | os.PathLike[str] | None = None,
    layer_offset: int = 0,
    layout: LayoutMode = "auto",
    accept_layout: str | Sequence[str] = (),
    align: str | Sequence[str] = (),
    isolate: bool = False,
    diagnose: bool = True,
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
    map: a TOML file that states pairs
    layer_offset: added to the candidate's layers: with 3, its layer 0 is the reference's layer 3
    layout: "strict" lets nothing but the same layout match
    accept_layout: layouts that may match although the shapes do not call for them: "transpose", "rope_interleave", …
    align: recipes for single pairs: "name=b s h d -> s (b h) d"
    isolate: also judge every operation on the candidate's own inputs (`pairs[i].isolated`)
    diagnose: look for the cause where an error was introduced (`pairs[i].diagnosis`)
    order: the rule that orders plain files, instead of the one their names suggest
    engine: "numpy" starts at once, "numba" is faster on many gigabytes
    threads: how many to use; all cores if left out
    progress: called with (bytes done, bytes in all)
    """
    options = Options(
        rules=rules_of(atol, rtol, tolerances, equal_nan=equal_nan),
        pairing=PairingOptions(layer_offset=layer_offset, map=None if map is None else load_map(os.fspath(map))),
        layout=LayoutOptions.of(layout, accept_layout, align),
        allow_missing=allow_missing,
        allow_extra=allow_extra,
        isolate=isolate,
        diagnose=diagnose,
        order=order,
        engine=engine,
        threads=threads,
    )
    return compare_traces(reference, candidate, options, progress)


def rules_of(
    atol: float | None, rtol: float | None, tolerances: str | os.PathLike[str] | None, *, equal_nan: bool
) -> Rules:
    """What the options of `compare` say is allowed."""
    torch = tolerances == "torch"
    named = () if tolerances is None or torch else load_rules(os.fspath(tolerances))
    return Rules(named=named, atol=atol, rtol=rtol, table="torch" if torch else "default", equal_nan=equal_nan)


def compare_traces(
    reference: Comparable,
    candidate: Comparable,
    options: Options,
    progress: Progress | None = None,
    only: str | None = None,
) -> Comparison:
    """`compare`, with its options as one object.

    only: the key of one row to diagnose, instead of all where an error was introduced
    """
    begun = time.perf_counter()
    sides = _open(reference, "reference", options), _open(candidate, "candidate", options)
    opened = time.perf_counter()
    paired = pair_up(*sides, options.pairing)
    matched = time.perf_counter()
    measuring = Measuring(paired, options, progress)
    measured = list(measuring.rows(paired.pairs))
    done = time.perf_counter()
    paired, measured = _doubted(paired, measured)
    rows = _in_order(paired, measured)
    located = locate(rows, order=paired.reference.order)
    if options.isolate:
        alone = zip(located.pairs, isolated_rows(rows), strict=True)
        located = replace(located, pairs=tuple(replace(pair, isolated=found) for pair, found in alone))
    placed = time.perf_counter()
    if options.diagnose and (located.first_divergence is not None or only is not None):
        located = _diagnosed(rows, located, only)
    end = time.perf_counter()
    timings = {
        "open": opened - begun,
        "pair": matched - opened,
        "measure": done - matched,
        "locate": placed - done,
        "diagnose": end - placed,
    }
    return comparison_of(paired, located, options, {**timings, "total": end - begun})


def _diagnosed(rows: list[Row], located: Located, only: str | None) -> Located:
    from firstdiff.diagnose import diagnose  # the operators are many, and runs that match need none

    found = diagnose(rows, located, only=None if only is None else row_named(located.pairs, only).key)
    return replace(located, pairs=found.pairs, notes=(*located.notes, *found.notes))


def row_named(pairs: Sequence[Pair], key: str) -> Pair:
    """The row of a key of either side; UsageError names those that are nearly it."""
    for pair in pairs:
        if key in (pair.key, pair.candidate.name if pair.candidate else None):
            return pair
    names = dict.fromkeys([pair.key for pair in pairs] + [pair.candidate.name for pair in pairs if pair.candidate])
    raise UsageError(f"neither side has a tensor {key!r}{did_you_mean(key, names)}")


def explain_pair(
    reference: Comparable, candidate: Comparable, key: str, options: Options
) -> tuple[PairingResult, Match | None, Pair]:
    """One row alone, found by the key of either side, and what pairing had to say about it."""
    paired = pair_up(_open(reference, "reference", options), _open(candidate, "candidate", options), options.pairing)
    for match in paired.pairs:
        sides = (paired.reference, match.reference), (paired.candidate, match.candidate)
        if any(str(trace.tensors[place].key) == key for trace, places in sides for place in places):
            row = Measuring(paired, options, None).row(match).pair
            suspects = [paired.pairs.index(match)] if row.status == "mismatch" else []
            doubted = doubt(paired, suspects).pairs[paired.pairs.index(match)]
            return paired, doubted, row
    lone = [lone_row(paired.reference.tensors[left.index], left, "missing") for left in paired.missing]
    lone += [lone_row(paired.candidate.tensors[left.index], left, "extra") for left in paired.extra]
    for row in lone:
        if row.key == key:
            return paired, None, row
    near = did_you_mean(key, [str(tensor.key) for trace in (paired.reference, paired.candidate) for tensor in trace])
    raise UsageError(f"neither side has a tensor {key!r}{near}")


def _doubted(paired: PairingResult, rows: list[Row]) -> tuple[PairingResult, list[Row]]:
    """Rows that do not match although other tensors would: the pairs stay, what would fit is said."""
    suspects = [place for place, row in enumerate(rows) if row.differs and not row.pair.diagnosis]
    if not suspects:
        return paired, rows
    doubted = doubt(paired, suspects)
    for place in suspects:
        match, pair = doubted.pairs[place], rows[place].pair
        if match.doubt:
            said = replace(pair, pairing=match.pairing, reason=f"{pair.reason}; {match.doubt}")
            rows[place] = replace(rows[place], pair=said)
    return doubted, rows


def _in_order(paired: PairingResult, measured: list[Row]) -> list[Row]:
    """Rows in the order of the reference, then what only the candidate has."""
    ours, theirs = paired.reference.tensors, paired.candidate.tensors
    rows = [(match.reference[0], row) for match, row in zip(paired.pairs, measured, strict=True)]
    for left in paired.missing:
        rows.append((left.index, Row(lone_row(ours[left.index], left, "missing"), ours[left.index], None)))
    rows.sort(key=lambda row: row[0])
    extra = [Row(lone_row(theirs[left.index], left, "extra"), None, theirs[left.index]) for left in paired.extra]
    ordered = [*(row for _, row in rows), *extra]
    return [replace(row, pair=replace(row.pair, index=index)) for index, row in enumerate(ordered)]


def _open(side: Comparable, name: str, options: Options) -> Trace:
    if isinstance(side, Trace):
        return side
    if isinstance(side, Mapping):
        return Trace.from_arrays(side, name)
    if not isinstance(side, str | os.PathLike):
        raise UsageError(f"the {name} is a {type(side).__name__}; give a path, a Trace or a dict of arrays")
    return open_trace(side, order=options.order)
