"""`firstdiff inspect`: what is in a trace, in one tensor, in a slice of it."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from firstdiff.schema import Statistics
    from firstdiff.trace import Index, Source, Tensor, Trace

_FIGURES = ("mean", "std", "min", "max", "nan", "inf")
_SHOWN_VALUES = 1000
_MOST_JSON_VALUES = 1_000_000


def inspect(
    path: Annotated[Path, typer.Argument(metavar="TRACE", help="A trace, a folder, an archive or a tensor file.")],
    tensor: Annotated[str | None, typer.Argument(metavar="[TENSOR]", help="The key of one tensor to look at.")] = None,
    slice_text: Annotated[
        str | None, typer.Option("--slice", metavar="'0,:,3:8'", help="The part of the tensor to print.")
    ] = None,
    statistics: Annotated[
        bool, typer.Option(help="Read every value for mean, deviation, range, NaN and Inf; off: just list.")
    ] = True,
    order: Annotated[
        str | None, typer.Option(metavar="numbered|layer_stage|natural", help="How names of plain files order them.")
    ] = None,
    format_: Annotated[Literal["text", "json"], typer.Option("--format", help="How to print it.")] = "text",
) -> None:
    """Show what is in a trace: names, shapes, dtypes and statistics; or one tensor; or a slice of it."""
    from firstdiff.cli.console import progress_bar, warn
    from firstdiff.cli.options import stated_order
    from firstdiff.errors import UsageError
    from firstdiff.readers import open_trace

    rule = stated_order(order)
    if slice_text is not None and tensor is None:
        raise UsageError("--slice needs the name of a tensor in front of it")
    with progress_bar("opening") as progress:
        trace = open_trace(path, order=rule, progress=progress)
    for warning in trace.warnings:
        warn(warning)
    if tensor is None:
        _show_trace(trace, _measure(trace.tensors, statistics), format_)
    else:
        _show_tensor(trace, trace[tensor], slice_text, statistics, format_)


def _measure(tensors: tuple[Tensor, ...], wanted: bool) -> list[Statistics | str | None]:
    """Statistics of each tensor, or the sentence that says why there are none."""
    from firstdiff.cli.console import progress_bar
    from firstdiff.errors import ReadError

    if not wanted:
        return [tensor.error for tensor in tensors]
    from firstdiff.measure import measure_statistics

    total = sum(tensor.source.nbytes for tensor in tensors if tensor.source)
    done = 0
    found: list[Statistics | str | None] = []
    with progress_bar("reading", unit_bytes=True) as progress:
        for tensor in tensors:
            try:
                source = tensor.values()
                found.append(measure_statistics(source, progress=partial(_report, progress, total, done, source)))
                done += source.nbytes
            except ReadError as error:
                found.append(tensor.error or str(error))
    return found


def _report(progress: Callable[[int, int], None], total: int, before: int, source: Source, elements: int) -> None:
    progress(before + elements * source.dtype.itemsize, total)


def _show_trace(trace: Trace, measured: list[Statistics | str | None], format_: str) -> None:
    from firstdiff import dtypes
    from firstdiff.cli.console import say
    from firstdiff.reports.terminal import columns, paint, shown

    if format_ == "json":
        _print_json({**_head(trace), "tensors": [_row(*pair) for pair in zip(trace, measured, strict=True)]})
        return
    rows = [("tensor", "shape", "dtype", *(_FIGURES if any(found is not None for found in measured) else ()))]
    for tensor, found in zip(trace, measured, strict=True):
        name = shown(str(tensor.key))
        if isinstance(found, str):
            rows.append((name, "failed"))
        else:
            source = tensor.values()
            rows.append((name, str(list(source.shape)), dtypes.name_of(source.dtype), *_figures(found)))
    size = sum(tensor.source.nbytes for tensor in trace if tensor.source)
    say(f"{shown(trace.path)}: {_count(len(trace), 'tensor')}, {_bytes(size)}, order: {trace.order}", "bold")
    for line, row in zip(columns(rows, right=frozenset(range(3, 9))), rows, strict=True):
        say(paint(line, "bold" if row is rows[0] else "red") if row is rows[0] or row[1:] == ("failed",) else line)
    failures = [(tensor, found) for tensor, found in zip(trace, measured, strict=True) if isinstance(found, str)]
    if failures:
        say(f"{_count(len(failures), 'tensor')} failed:", "bold red")
    for tensor, reason in failures:
        say(f"  {shown(str(tensor.key))}: {shown(reason)}")


def _show_tensor(trace: Trace, tensor: Tensor, slice_text: str | None, statistics: bool, format_: str) -> None:
    from firstdiff.trace.slices import parse_slice

    source = tensor.values()
    index = None if slice_text is None else parse_slice(slice_text, source.shape)
    (measured,) = _measure((tensor,), statistics)
    if format_ == "json":
        row = _row(tensor, measured)
        if index is not None:
            row["slice"] = _sliced(source, index, str(slice_text))
        _print_json({**_head(trace), "tensors": [row]})
    else:
        _print_tensor(tensor, measured)
        _print_values(source, index, slice_text)


def _print_tensor(tensor: Tensor, measured: Statistics | str | None) -> None:
    from firstdiff.cli.console import say
    from firstdiff.reports.terminal import shown

    source = tensor.values()
    say(f"{shown(str(tensor.key))}  {list(source.shape)}  {source.dtype.name}", "bold")
    for field, value in tensor.record.to_line().items():
        if field != "name":
            say(f"  {field}: {shown(str(value))}")
    if measured is not None:
        for field, text in zip(_FIGURES, _figures(measured), strict=True):
            say(f"  {field}: {text}")


def _print_values(source: Source, index: Index | None, slice_text: str | None) -> None:
    import numpy as np

    from firstdiff.cli.console import say

    if index is None:
        say(f"first values: {np.array2string(source.window(0, min(source.size, 10)), max_line_width=120)}")
        return
    values = source.read(index)
    say(f"[{slice_text}]  {list(values.shape)}")
    say(np.array2string(values, threshold=_SHOWN_VALUES, max_line_width=120))


def _sliced(source: Source, index: Index, slice_text: str) -> dict[str, Any]:
    from firstdiff.errors import UsageError

    values = source.read(index)
    if values.size > _MOST_JSON_VALUES:
        raise UsageError(f"the slice {slice_text!r} has {values.size:,} values; ask for {_MOST_JSON_VALUES:,} or fewer")
    return {"index": slice_text, "shape": list(values.shape), "values": _listed(values)}


def _head(trace: Trace) -> dict[str, Any]:
    return {
        "schema": "firstdiff/inspect/1",
        "path": trace.path,
        "order": trace.order,
        "header": trace.header,
        "warnings": trace.warnings,
    }


def _row(tensor: Tensor, measured: Statistics | str | None) -> dict[str, Any]:
    failed = isinstance(measured, str)
    return {
        "key": str(tensor.key),
        **tensor.record.to_line(),
        "shape": tensor.source.shape if tensor.source else None,
        "dtype": tensor.source.dtype.name if tensor.source else None,
        "statistics": None if failed else measured,
        "error": measured if failed else None,
    }


def _listed(values: np.ndarray) -> Any:
    """Nested lists of exact numbers; small float types go through float32, which holds all of them."""
    from firstdiff import dtypes

    return (values.astype("float32") if dtypes.is_extended(values.dtype) else values).tolist()


def _figures(found: Statistics | str | None) -> tuple[str, ...]:
    if found is None or isinstance(found, str):
        return ()
    numbers = (found.mean, found.std, found.min, found.max)
    return (*("" if number is None else f"{number:.6g}" for number in numbers), str(found.nan), str(found.inf))


def _print_json(value: Any) -> None:
    from firstdiff.json_text import to_json

    typer.echo(to_json(value, indent=1))


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _bytes(number: int) -> str:
    size = float(number)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"
