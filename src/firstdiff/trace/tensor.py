"""A trace in memory: tensors in order, each with its record and its values on demand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from firstdiff import dtypes
from firstdiff.errors import ReadError, UsageError, did_you_mean
from firstdiff.trace.record import Key, Record
from firstdiff.trace.source import ArraySource, Source


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor: its values (`source`), or why it has none (`error`)."""

    record: Record
    source: Source | None = None
    error: str | None = None

    @property
    def key(self) -> Key:
        return self.record.key

    @property
    def name(self) -> str:
        return self.record.name

    def values(self) -> Source:
        """The source; raises what made the tensor unreadable."""
        if self.source is None:
            raise ReadError(self.error or "has no values", self.name)
        return self.source


@dataclass(frozen=True)
class Trace:
    """Everything one run left behind.

    `order` names the rule that put the tensors in order, `warnings` what a reader noticed and went on from;
    `unfinished` is the one of them that says that the recording ended early.
    """

    path: str
    tensors: tuple[Tensor, ...]
    header: Mapping[str, Any] = field(default_factory=dict)
    order: str = "given"
    warnings: tuple[str, ...] = ()
    unfinished: str | None = None

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any], path: str = "arrays") -> Trace:
        """A trace of what is in memory: name -> array, list or number."""
        return cls(path, tuple(_in_memory(name, values) for name, values in arrays.items()))

    def __len__(self) -> int:
        return len(self.tensors)

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self.tensors)

    def __getitem__(self, key: str | Key) -> Tensor:
        """The tensor of a key such as `layers.0.ln_1` or `layers.0.attn@1:in.0`."""
        wanted = str(key)
        found = self._by_key.get(wanted)
        if found is None:
            near = did_you_mean(wanted, self._by_key)
            raise UsageError(f"{self.path} has no tensor {wanted!r}{near}")
        return found

    @cached_property
    def repeated(self) -> frozenset[str]:
        """Keys that more than one tensor has."""
        count = Counter(str(tensor.key) for tensor in self.tensors)
        return frozenset(key for key, times in count.items() if times > 1)

    @cached_property
    def _by_key(self) -> dict[str, Tensor]:
        return {str(tensor.key): tensor for tensor in reversed(self.tensors)}


def _in_memory(name: str, values: Any) -> Tensor:
    record = Record(name=name)
    try:
        array = np.asarray(values)
    except (ValueError, TypeError) as error:
        return Tensor(record, error=f"cannot be made an array ({error})")
    if not dtypes.is_supported(array.dtype):
        return Tensor(record, error=f"has elements of type {array.dtype}, which cannot be compared")
    return Tensor(record, ArraySource(array))
