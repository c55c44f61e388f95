"""Record tensors with what they were computed from, and their gradients."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard, final

import numpy as np

from firstdiff.capturing.session import Place, Session
from firstdiff.capturing.snapshots import CopyRule, LargeTensorError, UnreadableTensorError, array_of
from firstdiff.trace import Role

if TYPE_CHECKING:
    import torch
    from torch.utils.hooks import RemovableHandle

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


_HELD: tuple[Role, ...] = ("param", "buffer")


def is_tensor(value: Any) -> TypeGuard[torch.Tensor]:
    import torch

    return isinstance(value, torch.Tensor)


@final
class TensorRecorder:
    """Records tensors of one model. `length` is the number of tokens of the running call, for `tokens`."""

    def __init__(self, session: Session, rule: CopyRule) -> None:
        self.session = session
        self.provenance = Provenance()
        self.length: int | None = None
        self._rule = rule

    def write(
        self,
        tensor: torch.Tensor,
        place: Place,
        role: Role,
        slot: str = "0",
        *,
        attrs: Mapping[str, Any] | None = None,
        sources: tuple[int, ...] = (),
        dims: str | None = None,
    ) -> int | None:
        """Record a tensor; returns its `seq`, or None if it is not in the trace.

        An input names in `from` the tensor it is, or is a view of; values that are in the trace are not written again.
        """
        if not self.session.wants(place.name, role):
            return None
        said = dict(attrs or {})
        origin = self.provenance.find(tensor)
        if role == "input" and origin is not None and origin.seq is not None:
            sources = (origin.seq,)
            if not origin.exact:
                said["view"] = True
        if origin is not None and origin.exact and origin.seq is not None:
            said |= origin.attrs
            seq = self.session.emit(place, role, origin.seq, slot=slot, attrs=said, sources=sources, dims=dims)
            if role != "input":
                self.provenance.add(tensor, seq, param=origin.param, attrs=origin.attrs)
            return seq
        try:
            copy = self._rule.copy(tensor, None if role in _HELD else self.length)
        except UnreadableTensorError as error:
            self.session.skip(place.name, str(error), asked_for=isinstance(error, LargeTensorError))
            return None
        said |= copy.attrs
        seq = self.session.emit(place, role, copy.array, slot=slot, attrs=said, sources=sources, dims=dims)
        self.provenance.add(
            tensor,
            seq,
            param=place.name if role in _HELD else None,
            attrs=copy.attrs,
            copy=copy.array if copy.whole else None,
        )
        return seq


@final
class Gradients:
    """Hooks on tensors; they fire in the backward pass and change nothing."""

    def __init__(self, recorder: TensorRecorder, shielded: Callable[[Callable[[], object]], None]) -> None:
        self._recorder = recorder
        self._session = recorder.session
        self._shielded = shielded
        self._handles: list[RemovableHandle] = []

    def of_output(self, tensor: torch.Tensor, place: Place, slot: str) -> None:
        """The gradient of a module's output goes by the output's name and slot; that of a first backward pass."""
        arrivals = 0

        def record(gradient: torch.Tensor) -> None:
            nonlocal arrivals
            arrivals += 1
            if arrivals > 1:
                self._session.skip(f"{place.name}:grad", "of a second backward pass through the same graph")
            else:
                self._recorder.write(gradient, place, "grad", slot)

        self._watch(tensor, place.name, record)

    def of_parameters(self, parameters: Iterable[tuple[str, torch.Tensor]]) -> None:
        """The gradient of each backward pass by itself, before it is added to `.grad`."""
        for name, tensor in parameters:

            def record(gradient: torch.Tensor, name: str = name) -> None:
                step = self._session.step
                call = self._session.count_call(f"{name}:grad", step)
                self._recorder.write(gradient, Place(name, call, step), "grad")

            self._watch(tensor, name, record)

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def _watch(self, tensor: torch.Tensor, name: str, record: Callable[[torch.Tensor], Any]) -> None:
        if tensor.requires_grad and self._session.wants(name, "grad"):
            register: Any = tensor.register_hook
            self._handles.append(register(lambda gradient: self._shielded(lambda: record(gradient))))
