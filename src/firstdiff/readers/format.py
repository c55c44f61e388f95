"""The formats that files are read with, ours and those of plugins."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from firstdiff import plugins
from firstdiff.errors import ReadError
from firstdiff.readers.blob import Blob, file_kept_open
from firstdiff.readers.tree import Tree, printable
from firstdiff.trace import Record, Source, Tensor, Trace
from firstdiff.trace.order import OrderRule, natural_key, rule_for, sort_key


class Found(NamedTuple):
    """A tensor inside a file: its own name there ("" where the file holds just one), and its values or an error."""

    name: str
    source: Source | ReadError
    attrs: dict[str, Any] | None = None


class Format(NamedTuple):
    """One file format, and one entry of the hook `firstdiff.readers`.

    name: what messages call it
    suffixes: the endings it is usually found under, in lower case
    sniff: whether a blob is of this format, from its first bytes (it need not trust the name)
    open: its tensors; raises ReadError when the whole file is unreadable, and puts one into `Found` when one tensor is
    """

    name: str
    suffixes: tuple[str, ...]
    sniff: Callable[[Blob], bool]
    open: Callable[[Blob], Iterable[Found]]


Progress = Callable[[int, int], None]


class _File(NamedTuple):
    """One file and what was found in it; `inner` says that the tensors have names of their own."""

    folder: str
    stem: str
    found: tuple[Found, ...]
    inner: bool


def open_plain(tree: Tree, order: OrderRule | None = None, progress: Progress | None = None) -> Trace:
    """Every tensor of a tree. The rule that ordered them is the trace's `order`, and can be given instead."""
    files: list[_File] = []
    unknown: list[str] = []
    warnings = list(tree.warnings)
    with file_kept_open():
        for done, blob in enumerate(tree.blobs, 1):
            reader = format_of(blob, warnings)
            if reader is None:
                unknown.append(blob.name)
            else:
                files.append(_open(blob, reader))
            if progress:
                progress(done, len(tree.blobs))
    files += [_refused(refusal.name, refusal.error) for refusal in tree.refusals]
    if unknown:
        warnings.append(f"left out, since no reader knows them: {printable(unknown)}")
    rule = order or rule_for([file.stem for file in files])
    files.sort(key=lambda file: (natural_key(file.folder) if rule != "numbered" else (), sort_key(rule, file.stem)))
    return Trace(tree.label, tuple(_named(files)), order=rule, warnings=tuple(warnings))


def open_single(blob: Blob) -> Trace:
    """One file that holds one tensor, or many under names of their own."""
    warnings: list[str] = []
    reader = format_of(blob, warnings)
    if reader is None:
        known = sorted(suffix for entry in formats() for suffix in entry.suffixes)
        raise ReadError(f"is of no format that firstdiff reads ({' '.join(known)} .zip .tar, and folders of these)")
    try:
        found = reader.open(blob)
        file = _File("", blob.stem, tuple(found), inner=False)
    except ReadError as error:
        raise error.named(blob.label) from error
    tensors = tuple(_tensor(item.name or file.stem, item) for item in file.found)
    return Trace(blob.label, tensors, order="file", warnings=tuple(warnings))


def formats() -> tuple[Format, ...]:
    return plugins.loaded("readers")


@lru_cache(maxsize=256)
def _formats_of(suffix: str) -> tuple[Format, ...]:
    return tuple(entry for entry in formats() if suffix in entry.suffixes)


def format_of(blob: Blob, warnings: list[str]) -> Format | None:
    """The reader for a blob: the one its ending names, unless its first bytes say otherwise, which is warned of."""
    by_name = _formats_of(blob.suffix)
    try:
        for entry in by_name:
            if entry.sniff(blob):
                return entry
        for entry in formats():
            if entry not in by_name and entry.sniff(blob):
                if by_name:
                    warnings.append(f"{blob.name} is not {by_name[0].name} but {entry.name}, and was read as that")
                return entry
    except ReadError:
        pass  # opening it will say what is wrong
    return by_name[0] if by_name else None


def _open(blob: Blob, reader: Format) -> _File:
    folder, _, _ = blob.name.rpartition("/")
    try:
        found = tuple(reader.open(blob))
    except ReadError as error:
        found = (Found("", type(error)(error.finding)),)
    return _File(folder, blob.stem, found, inner=any(item.name for item in found))


def _refused(name: str, error: ReadError) -> _File:
    folder, _, base = name.rpartition("/")
    return _File(folder, base, (Found("", error),), inner=False)


def _named(files: Iterable[_File]) -> Iterator[Tensor]:
    """Names as short as they can be: a stem only in front of several files' inner names, a folder only on a clash."""
    files = list(files)
    several = sum(file.inner for file in files) > 1
    short = [(_short(file, item, several), file, item) for file in files for item in file.found]
    clashes = Counter(name for name, _, _ in short)
    for name, file, item in short:
        yield _tensor(f"{file.folder}/{name}" if clashes[name] > 1 and file.folder else name, item)


def _short(file: _File, item: Found, several: bool) -> str:
    if not item.name:
        return file.stem
    return f"{file.stem}.{item.name}" if several else item.name


def _tensor(name: str, item: Found) -> Tensor:
    record = Record(name=name, attrs=item.attrs or {})
    if isinstance(item.source, ReadError):
        return Tensor(record, error=item.source.finding)
    return Tensor(record, item.source)
