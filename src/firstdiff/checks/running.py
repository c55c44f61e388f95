"""Check a trace: every rule on the tensors it names."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from firstdiff.checks import elements, rows, series
from firstdiff.checks.bands import BandFile, band_text, load_bands
from firstdiff.checks.blocks import SlicedSource
from firstdiff.checks.report import CheckReport, Failure, RuleResult
from firstdiff.checks.rule_file import Rule, RuleFile, fits, load_rule_file, rules_of
from firstdiff.errors import ReadError, SettingsError, UsageError, did_you_mean
from firstdiff.readers import open_trace
from firstdiff.trace import Source, Tensor, Trace

Checkable = str | os.PathLike[str] | Trace | Mapping[str, Any]
OnProgress = Callable[[int, int], None]
TensorCheck = Callable[[str, Source, Mapping[str, Any]], Iterator[Failure]]

_TENSOR_CHECKS: dict[str, TensorCheck] = {
    "finite": elements.check_finite,
    "range": elements.check_range,
    "positive": elements.check_positive,
    "ids": elements.check_ids,
    "equal": elements.check_equal,
    "dtype": elements.check_dtype,
    "sum": rows.check_sum,
    "norm": rows.check_norm,
    "unique": rows.check_unique,
    "no_constant_rows": rows.check_no_constant_rows,
    "not_uniform": rows.check_not_uniform,
}


def check(
    trace: Checkable,
    rules: str | os.PathLike[str] | Sequence[Mapping[str, Any]] | RuleFile,
    *,
    on_progress: OnProgress | None = None,
) -> CheckReport:
    """Check that a trace keeps rules.

    >>> import firstdiff as fd
    >>> report = fd.check({"probs": [0.5, 0.4]}, [{"name": "probs", "check": "sum"}])
    >>> report.passed, report.failures[0].text
    (False, 'the row at [:] sums to 0.9, where 1 within 1e-06 is expected')

    trace: a path to whatever `firstdiff inspect` opens, a `Trace`, or a dict of arrays
    rules: a TOML file with `[[rules]]`, or a list of the same as dicts
    on_progress: called with (rules done, rules in all)
    """
    if isinstance(rules, str | os.PathLike):
        stated = load_rule_file(rules)
    elif isinstance(rules, RuleFile):
        stated = rules
    else:
        stated = rules_of({"rules": list(rules)}, "rules")
    return check_trace(_opened(trace), stated, on_progress)


def check_trace(trace: Trace, stated: RuleFile, on_progress: OnProgress | None = None) -> CheckReport:
    """Check an open trace; SettingsError for a rule that matches nothing in it."""
    sizes = {name: (size, "[sizes]") for name, size in stated.sizes.items()}
    matched = [_matching(trace, rule) for rule in stated.rules]
    results = []
    for number, (rule, tensors) in enumerate(zip(stated.rules, matched, strict=True)):
        if on_progress is not None:
            on_progress(number, len(stated.rules))
        failures = tuple(_broken(trace, rule, tensors, stated, sizes))
        results.append(RuleResult(rule.name, rule.check, rule.where, len(tensors), failures))
    return CheckReport(trace.path, tuple(results), trace.warnings)


def measure_bands(references: Sequence[Checkable], stated: RuleFile) -> str:
    """Return a bands file: the shares that reference runs change, for every `changed` rule that names a file."""
    wanted = [rule for rule in stated.rules if rule.check == "changed" and rule.limits["bands"] is not None]
    if not wanted:
        raise SettingsError('there is nothing to measure: no rule has check = "changed" and bands')
    measured: dict[str, list[list[Any]]] = {}
    for reference in references:
        trace = _opened(reference)
        for rule in wanted:
            for one in series.series_of(_matching(trace, rule), rule.slice):
                shares = series.measure_changes(one, _other(trace, rule), rule.limits["axis"])
                measured.setdefault(one.name, []).append(shares)
    return band_text(measured)


def _opened(trace: Checkable) -> Trace:
    if isinstance(trace, Trace):
        return trace
    return Trace.from_arrays(trace) if isinstance(trace, Mapping) else open_trace(trace)


def _matching(trace: Trace, rule: Rule) -> list[Tensor]:
    tensors = [tensor for tensor in trace if rule.matches(tensor)]
    for glob in rule.names:
        if not any(fits((glob,), tensor.key) for tensor in trace):
            near = did_you_mean(glob, dict.fromkeys(tensor.name for tensor in trace))
            raise SettingsError(f"{rule.where}: {glob!r} matches no tensor of {trace.path}{near}")
    return tensors


def _broken(
    trace: Trace, rule: Rule, tensors: Sequence[Tensor], stated: RuleFile, sizes: dict[str, tuple[int, str]]
) -> Iterator[Failure]:
    readable = []
    for tensor in tensors:
        if tensor.source is None:
            yield Failure(str(tensor.key), None, None, 1, f"cannot be read: {tensor.error}")
        else:
            readable.append(tensor)
    if rule.check in ("varies", "changed") or (rule.check == "monotone" and rule.limits["axis"] is None):
        yield from _broken_series(trace, rule, readable, stated)
        return
    for tensor in readable:
        key = str(tensor.key)
        try:
            source = tensor.values() if rule.slice is None else SlicedSource(tensor.values(), rule.slice)
            if rule.check == "shape":
                yield from elements.check_shape(key, source, rule.limits, sizes)
            elif rule.check == "monotone":
                yield from rows.check_monotone_along(key, source, rule.limits)
            else:
                yield from _TENSOR_CHECKS[rule.check](key, source, rule.limits)
        except ReadError as error:
            yield Failure(key, None, None, 1, f"cannot be read: {error}")
        except UsageError as error:
            raise SettingsError(f"{rule.where}: {key} {error}") from error


def _broken_series(trace: Trace, rule: Rule, tensors: Sequence[Tensor], stated: RuleFile) -> Iterator[Failure]:
    bands = _bands(rule, stated.folder)
    try:
        for one in series.series_of(tensors, rule.slice):
            if rule.check == "monotone":
                yield from series.check_monotone(one, rule.limits)
            elif rule.check == "varies":
                yield from series.check_varies(one, rule.limits)
            else:
                band = None if bands is None else bands.band(one.name, rule.where)
                yield from series.check_changed(one, _other(trace, rule), rule.limits, band)
    except UsageError as error:
        raise SettingsError(f"{rule.where}: {error}") from error


def _other(trace: Trace, rule: Rule) -> series.Series | None:
    name = rule.limits["with"]
    if name is None:
        return None
    found = series.series_of([tensor for tensor in trace if fits((name,), tensor.key)], rule.slice)
    if len(found) != 1:
        near = did_you_mean(name, dict.fromkeys(tensor.name for tensor in trace)) if not found else ""
        raise SettingsError(f"{rule.where}: with is {name!r}, which {len(found)} tensors of {trace.path} are{near}")
    return found[0]


def _bands(rule: Rule, folder: Path) -> BandFile | None:
    stated = rule.limits.get("bands")
    return None if stated is None else load_bands(folder / stated)
