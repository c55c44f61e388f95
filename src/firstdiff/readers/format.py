"""What a format is: how to tell it, and how to open it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from firstdiff.errors import ReadError
from firstdiff.readers.blob import Blob
from firstdiff.trace import Source


@dataclass(frozen=True, slots=True)
class Found:
    """A tensor inside a file: its own name there ("" where the file holds just one), and its values or an error."""

    name: str
    source: Source | ReadError
    attrs: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Format:
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
