"""A trace folder as recorders write it: trace.json, tensors.jsonl and numbered .npy files."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, final

import numpy as np

from firstdiff import dtypes
from firstdiff.errors import ReadError
from firstdiff.readers.blob import Blob
from firstdiff.readers.npy import open_array, read_header
from firstdiff.readers.sources import MappedSource
from firstdiff.readers.tree import Tree
from firstdiff.trace import FORMAT, HEADER, LINES, VERSION, Index, Key, Record, Source, Tensor, Trace
from firstdiff.trace.order import natural_key

_MAX_HEADER = 1 << 24


def is_recorded(tree: Tree) -> bool:
    """True if a tree holds a recorded trace."""
    return any(_base(blob.name) == LINES for blob in tree.blobs)


def open_recorded(tree: Tree) -> Trace:
    """The trace in a tree; with several (one folder each) their tensors follow one another."""
    folders = sorted(
        (blob.name.removesuffix(LINES) for blob in tree.blobs if _base(blob.name) == LINES), key=natural_key
    )
    parts = [_open_one(tree, folder) for folder in folders]
    if len(parts) == 1:
        return parts[0]
    tensors = [
        replace(tensor, record=replace(tensor.record, name=folder + tensor.name))
        for folder, part in zip(folders, parts, strict=True)
        for tensor in part.tensors
    ]
    warnings = tuple(f"{folder}: {text}" for folder, part in zip(folders, parts, strict=True) for text in part.warnings)
    header = {"parts": [dict(part.header) for part in parts]}
    unfinished = next((part.unfinished for part in parts if part.unfinished), None)
    return Trace(tree.label, tuple(tensors), header, "seq", warnings, unfinished)


@final
class RecordedSource(Source):
    """A tensor whose shape and dtype its line tells: the file is not opened before its values are wanted."""

    def __init__(self, blob: Blob, dtype: np.dtype, shape: tuple[int, ...]) -> None:
        self._blob = blob
        self.dtype = dtype
        self.shape = shape
        self._opened: MappedSource | None = None
        if self.nbytes > blob.size:
            raise ReadError(
                f"shape {list(shape)} of {dtype.name} needs {self.nbytes:,} bytes, "
                f"but {blob.name} has {blob.size:,}; was it cut off?"
            )

    def view(self) -> np.ndarray:
        return self._mapped().view()

    def read(self, index: Index = ...) -> np.ndarray:
        return self._mapped().read(index)

    def stamp(self) -> object:
        return self._blob.stamp()

    def window(self, start: int, stop: int) -> np.ndarray:
        return self._mapped().window(start, stop)

    def _mapped(self) -> MappedSource:
        """Read the header once; the values are mapped anew each time."""
        if self._opened is None:
            try:
                self._opened = _open_data(self._blob, self.dtype, self.shape)
            except ReadError as error:
                raise error.named(self._blob.label) from error
        return self._opened


def _open_one(tree: Tree, folder: str) -> Trace:
    files = {blob.name.removeprefix(folder): blob for blob in tree.blobs if blob.name.startswith(folder)}
    warnings, unfinished = list(tree.warnings), list[str]()
    header = _read_header(files.get(HEADER), warnings)
    if header.get("complete") is False:
        why = f" ({header['error']})" if header.get("error") else ""
        unfinished.append(f"the recording did not finish{why}; tensors may be missing")
    tensors = list(_numbered_calls(_read_lines(files, unfinished)))
    in_order = all(tensor.record.seq is not None for tensor in tensors)
    if in_order:
        tensors.sort(key=lambda tensor: tensor.record.seq or 0)
    order = "seq" if in_order else "file"
    return Trace(
        tree.label, tuple(tensors), header, order, (*warnings, *unfinished), unfinished[0] if unfinished else None
    )


def _read_header(blob: Blob | None, warnings: list[str]) -> dict[str, Any]:
    header: Any = None
    if blob is not None and blob.size <= _MAX_HEADER:
        try:
            header = json.loads(blob.read(0, blob.size))
        except (ValueError, RecursionError):
            header = None
    if not isinstance(header, dict):
        warnings.append(f"{HEADER} is missing or not valid; the tensors were read without it")
        return {}
    if header.get("format", FORMAT) != FORMAT or not isinstance(header.get("version", VERSION), int):
        warnings.append(f"{HEADER} is not that of a {FORMAT}; the tensors were read all the same")
    elif header.get("version", VERSION) > VERSION:
        raise ReadError(
            f"is a trace of version {header['version']}; this firstdiff reads version {VERSION}; update firstdiff"
        )
    return header


def _read_lines(files: dict[str, Blob], unfinished: list[str]) -> Iterator[Tensor]:
    blob = files[LINES]
    text = blob.read(0, blob.size)
    lines = text.split(b"\n")
    torn = lines.pop()
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield _parse_line(line, number, files)
    if torn.strip():
        tensor = _parse_line(torn, len(lines) + 1, files)
        if tensor.error is None:
            yield tensor
        else:
            unfinished.append(f"the last line of {LINES} was cut off and ignored")


def _parse_line(text: bytes, number: int, files: dict[str, Blob]) -> Tensor:
    try:
        line = json.loads(text)
        if not isinstance(line, dict):
            raise ValueError("it is not an object")
        record = Record.from_line(line)
    except (ValueError, RecursionError) as error:
        return Tensor(Record(name=f"line {number}"), error=f"line {number} of {LINES} cannot be read ({error})")
    try:
        return Tensor(record, _open_line(line, files))
    except ReadError as error:
        return Tensor(record, error=error.finding)


def _open_line(line: dict[str, Any], files: dict[str, Blob]) -> Source:
    file, dtype_name, shape = line.get("file"), line.get("dtype"), line.get("shape")
    blob = files.get(file) if isinstance(file, str) else None
    if blob is None:
        raise ReadError(f"its file {file!r} is not in the trace")
    if dtype_name is not None and not (isinstance(dtype_name, str) and dtypes.known(dtype_name)):
        raise ReadError(f"has elements of type {dtype_name!r}, which cannot be compared")
    dtype = None if dtype_name is None else dtypes.from_name(dtype_name)
    if shape is None or dtype is None:
        return _open_data(blob, dtype, None)
    if not (isinstance(shape, list) and all(type(n) is int and n >= 0 for n in shape)):
        raise ReadError(f"has the shape {shape!r}")
    return RecordedSource(blob, dtype, tuple(shape))


def _open_data(blob: Blob, dtype: np.dtype | None, shape: tuple[int, ...] | None) -> MappedSource:
    """Map the .npy, holding it to what its line says."""
    header = read_header(blob)
    if shape is not None and header.shape != shape:
        raise ReadError(f"has shape {list(header.shape)} where its line says {list(shape)}")
    if dtype is None or header.dtype.newbyteorder("=") == dtype:
        return open_array(blob, header)
    if header.dtype != dtypes.bits_of(dtype):
        raise ReadError(f"has elements of type {header.dtype.name} where its line says {dtype.name}")
    return open_array(blob, header, dtype)


def _numbered_calls(tensors: Iterator[Tensor]) -> Iterator[Tensor]:
    """Recorders need not count: a name that comes again is the next call; a stated call that does is an error."""
    seen: Counter[Key] = Counter()
    for tensor in tensors:
        key = tensor.key
        again = seen[key]
        seen[key] += 1
        if not again:
            yield tensor
        elif key.call == 0:
            record = replace(tensor.record, call=again)
            seen[record.key] += 1
            yield replace(tensor, record=record)
        else:
            yield replace(tensor, source=None, error=f"{key} was recorded twice")


def _base(name: str) -> str:
    return name.rpartition("/")[2]
