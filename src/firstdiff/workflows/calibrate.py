"""Measure noise floors from the differences between several runs of one model."""

from __future__ import annotations

import json
import math
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import mkdtemp

from firstdiff.errors import UsageError, WriteError
from firstdiff.measure.noise_floor import Spread, spread_between
from firstdiff.readers import open_trace
from firstdiff.trace import HEADER, LINES, Key, Record, Tensor, Trace, TraceWriter
from firstdiff.trace.writer import add_floors

_HELD = ("param", "buffer")


@dataclass(frozen=True, slots=True)
class Calibration:
    """The result of a calibration: the path of the floors, the number of tensors with one, and warnings."""

    path: Path
    tensors: int
    with_floor: int
    warnings: tuple[str, ...]


def calibrate(
    reference: str | Path,
    runs: Sequence[str | Path],
    output: str | Path,
    *,
    overwrite: bool = False,
    least: float = 0.0,
    progress: Callable[[int, int], None] | None = None,
) -> Calibration:
    """Compare a reference with other healthy runs of the same model and store the spread of each tensor as its floor.

    reference: the trace that gets floors
    runs: traces of the same model on the same inputs, made in ways that should not matter
    output: where the trace with floors goes; the reference itself is changed in place, at once
    overwrite: replace another trace that is there
    least: how many eps of its type a tensor must move by to get a floor
    progress: called with (tensors done, tensors in all)
    """
    if not runs:
        raise UsageError("calibrate needs at least one more run beside the reference")
    source, target = Path(reference), Path(output)
    trace = open_trace(source)
    others = [open_trace(run) for run in runs]
    spreads, warnings = _spreads(trace, others, progress)
    how = [other.path for other in others]
    floors = {key: spread.to_floor(how) for key, spread in spreads.items() if spread.relative >= least * spread.eps}
    if target.exists() and source.resolve() == target.resolve():
        _in_place(source, floors)
    else:
        _to_another(trace, source, target, floors, overwrite)
    return Calibration(target, len(trace), len(floors), tuple(warnings))


def _spreads(
    trace: Trace, others: Sequence[Trace], progress: Callable[[int, int], None] | None
) -> tuple[dict[Key, Spread], list[str]]:
    found: dict[Key, Spread] = {}
    missing: Counter[str] = Counter()
    odd: list[str] = []
    by_key = [{tensor.key: tensor for tensor in other} for other in others]
    for number, tensor in enumerate(trace):
        for other, tensors in zip(others, by_key, strict=True):
            partner = tensors.get(tensor.key)
            spread = None if partner is None else _between(tensor, partner)
            if partner is None:
                missing[other.path] += 1
            if spread is None:
                continue
            if tensor.record.role in _HELD:
                odd += [f"{tensor.key} is not the same in {other.path}"] if spread.relative else []
                continue
            if spread.relative > math.sqrt(spread.eps):
                odd.append(f"{tensor.key} moves by {spread.relative:.2g} of its size in {other.path}")
            known = found.get(tensor.key)
            found[tensor.key] = spread if known is None else known.widened(spread)
        if progress is not None:
            progress(number + 1, len(trace))
    warnings = [f"{count} of {len(trace)} tensors are not in {path}" for path, count in missing.items()]
    if odd:
        more = f" (and {len(odd) - 1} more like it)" if len(odd) > 1 else ""
        warnings.append(f"{odd[0]}{more}; is that a healthy run of the same model on the same inputs?")
    return found, warnings


def _between(tensor: Tensor, partner: Tensor) -> Spread | None:
    """The spread of a pair; tensors that cannot be read, or that have other shapes, have none."""
    if tensor.source is None or partner.source is None or tensor.source.shape != partner.source.shape:
        return None
    return spread_between(tensor.source.view(), partner.source.view())


def _in_place(folder: Path, floors: dict[Key, dict[str, object]]) -> None:
    if not (folder / LINES).is_file():
        raise UsageError(f"{folder} is no trace folder that could be changed in place; name another place with -o")
    by_line = {number: floors[key] for number, key in _keys_of_lines(folder) if key in floors}
    try:
        add_floors(folder, by_line)
    except OSError as error:
        raise WriteError(f"cannot add noise floors to {folder} ({error.strerror or error})") from error


def _to_another(
    trace: Trace, source: Path, target: Path, floors: dict[Key, dict[str, object]], overwrite: bool
) -> None:
    if (source / LINES).is_file():
        _copy_folder(source, target, floors, overwrite)
        return
    header = {name: value for name, value in trace.header.items() if name not in ("format", "version", "producer")}
    with TraceWriter(target, producer={"name": "firstdiff calibrate"}, header=header, overwrite=overwrite) as writer:
        for tensor in trace:
            writer.write(replace(tensor.record, floor=floors.get(tensor.key)), tensor.values().view())


def _copy_folder(source: Path, target: Path, floors: dict[Key, dict[str, object]], overwrite: bool) -> None:
    """A copy with floors appears under its name when it is complete."""
    if target.exists() and not (overwrite and (target / HEADER).is_file()):
        raise WriteError(f"{target} exists already; choose another place, or replace a trace with --overwrite")
    try:
        target.absolute().parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(mkdtemp(prefix=f".{target.name}.", dir=target.absolute().parent)) / target.name
        try:
            shutil.copytree(source, fresh)
            _in_place(fresh, floors)
            if target.exists():
                shutil.rmtree(target)
            fresh.rename(target)
        finally:
            shutil.rmtree(fresh.parent)
    except OSError as error:
        raise WriteError(f"cannot write a trace to {target} ({error.strerror or error})") from error


def _keys_of_lines(folder: Path) -> Iterator[tuple[int, Key]]:
    """The key of each line, calls counted where the writer did not count them."""
    seen: Counter[Key] = Counter()
    with (folder / LINES).open(encoding="utf-8") as lines:
        for number, text in enumerate(lines):
            try:
                key = Record.from_line(json.loads(text)).key
            except ValueError:
                continue
            again = seen[key]
            seen[key] += 1
            yield number, replace(key, call=again) if again and key.call == 0 else key
