"""The interface of a file format: recognise a blob, open its tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from firstdiff.errors import ReadError
from firstdiff.readers.blob import Blob
from firstdiff.trace import Source


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
