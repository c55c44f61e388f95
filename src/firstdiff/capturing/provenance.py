"""Find the earlier recorded tensor that a tensor is identical to or a view of."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from firstdiff.capturing.snapshots import array_of

if TYPE_CHECKING:
    import torch

_FIRST_SWEEP = 256


class Elements(NamedTuple):
    """The bytes of a storage that a tensor covers: start, stop, and its strides with contiguous axes merged."""

    start: int
    stop: int
    strides: tuple[tuple[int, int], ...]
    dense: bool


class Origin(NamedTuple):
    """An earlier tensor; `exact` if it is that very tensor and not just a view of it.

    seq: its number; None for a parameter that was not recorded, or was changed since
    param: the name it has as a parameter or buffer
    attrs: what was said of its values: the part of the tokens, the type they had
    """

    seq: int | None
    exact: bool
    param: str | None
    attrs: Mapping[str, Any]


class _Layout(NamedTuple):
    offset: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    conj: bool
    neg: bool


@dataclass(frozen=True, slots=True)
class _Entry:
    storage: weakref.ref[torch.UntypedStorage]
    tensor: weakref.ref[torch.Tensor]
    version: int | None
    layout: _Layout
    elements: Elements
    copy: np.ndarray | None
    seq: int | None
    param: str | None
    attrs: Mapping[str, Any]

    def origin(self, exact: bool, version: int | None) -> Origin | None:
        """Return the origin of a tensor of this version in the same memory; a parameter stays one after writes."""
        storage = self.storage()
        if storage is None:
            return None
        if version == self.version and self._unchanged(storage):
            return Origin(self.seq, exact, self.param, self.attrs)
        return None if self.param is None else Origin(None, exact, self.param, {})

    def _unchanged(self, storage: torch.UntypedStorage) -> bool:
        import torch

        if self.version is not None:
            tensor = self.tensor()
            return tensor is None or tensor._version == self.version
        if self.copy is None:
            return False
        now = array_of(torch.empty(0, dtype=self.layout.dtype).set_(storage, *self.layout[:3]))
        return now.tobytes() == self.copy.tobytes()


@final
class Provenance:
    """Remembers recorded tensors as long as their memory lives; memory that is used again is not the same.

    A tensor that was written to since is another one: torch counts writes. It does not for tensors of inference
    mode; those are compared with their copy.
    """

    def __init__(self) -> None:
        self._entries: dict[int, list[_Entry]] = {}
        self._count = 0
        self._sweep_at = _FIRST_SWEEP

    def add(
        self,
        tensor: torch.Tensor,
        seq: int | None,
        *,
        param: str | None = None,
        attrs: Mapping[str, Any] | None = None,
        copy: np.ndarray | None = None,
    ) -> None:
        """Remember a tensor as recorded; `copy` has its values, needed where writes are not counted."""
        storage = _storage_of(tensor)
        if storage is None:
            return
        version = _version_of(tensor)
        entry = _Entry(
            weakref.ref(storage),
            weakref.ref(tensor),
            version,
            _layout_of(tensor),
            elements_of(tensor),
            copy if version is None and tensor.device.type == "cpu" else None,
            seq,
            param,
            attrs or {},
        )
        self._entries.setdefault(storage._cdata, []).append(entry)
        self._count += 1
        if self._count > self._sweep_at:
            self._sweep()

    def find(self, tensor: torch.Tensor) -> Origin | None:
        """The latest recorded tensor that this one is, else the latest it is a view of."""
        storage = _storage_of(tensor)
        entries = self._entries.get(storage._cdata) if storage is not None else None
        if not entries:
            return None
        version, layout, elements = _version_of(tensor), _layout_of(tensor), elements_of(tensor)
        view: Origin | None = None
        for entry in reversed(entries):
            exact = entry.layout == layout
            if (exact or not view) and (exact or covers(entry.elements, elements)):
                origin = entry.origin(exact, version)
                if exact and origin is not None:
                    return origin
                view = view or origin
        return view

    def _sweep(self) -> None:
        alive = {
            storage: kept
            for storage, entries in self._entries.items()
            if (kept := [entry for entry in entries if entry.storage() is not None])
        }
        self._entries = alive
        self._count = sum(map(len, alive.values()))
        self._sweep_at = max(_FIRST_SWEEP, 2 * self._count)


def elements_of(tensor: torch.Tensor) -> Elements:
    """Return the bytes a strided tensor covers; tensors of any shape over the same elements have equal `strides`."""
    width = tensor.element_size()
    start = int(tensor.storage_offset()) * width
    if tensor.is_contiguous():
        count = tensor.numel()
        return Elements(start, start + count * width, ((width, count),) if count > 1 else (), dense=True)
    pairs = sorted(
        ((step * width, n) for n, step in zip(tensor.shape, tensor.stride(), strict=True) if n > 1 and step),
        reverse=True,
    )
    merged: list[tuple[int, int]] = []
    for step, n in pairs:
        if merged and merged[-1][0] == step * n:
            merged[-1] = (step, merged[-1][1] * n)
        else:
            merged.append((step, n))
    stop = start + sum(step * (n - 1) for step, n in merged) + width
    dense = not merged or merged == [(width, merged[0][1])]
    return Elements(start, stop, tuple(merged), dense)


def covers(outer: Elements, inner: Elements) -> bool:
    """True if `outer` is known to include every element of `inner`."""
    if outer.dense:
        return outer.start <= inner.start and inner.stop <= outer.stop
    return outer.start == inner.start and outer.strides == inner.strides


def _storage_of(tensor: torch.Tensor) -> torch.UntypedStorage | None:
    import torch

    if tensor.layout != torch.strided or tensor.device.type == "meta" or tensor.numel() == 0:
        return None
    try:
        return tensor.untyped_storage()
    except (RuntimeError, NotImplementedError):
        return None  # wrappers such as those of torch.func have no storage of their own


def _layout_of(tensor: torch.Tensor) -> _Layout:
    shape, stride = tuple(tensor.shape), tensor.stride()
    return _Layout(int(tensor.storage_offset()), shape, stride, tensor.dtype, tensor.is_conj(), tensor.is_neg())


def _version_of(tensor: torch.Tensor) -> int | None:
    return None if tensor.is_inference() else tensor._version
