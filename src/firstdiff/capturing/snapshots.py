"""Copy torch tensors to numpy arrays, bfloat16 and float8 included."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from firstdiff import dtypes, memory

if TYPE_CHECKING:
    import torch

_CARRIERS = {1: "uint8", 2: "int16"}  # integers as wide as the types numpy alone does not know


class UnreadableTensorError(Exception):
    """The tensor has no values that could be copied; the text says why."""


class LargeTensorError(UnreadableTensorError):
    """The tensor is larger than what was asked for."""


@dataclass(frozen=True, slots=True)
class Copy:
    """The values and what to say about them; `whole` if they are all of the tensor, in its own type."""

    array: np.ndarray
    attrs: dict[str, Any] = field(default_factory=dict)
    whole: bool = True


@dataclass(frozen=True, slots=True)
class CopyRule:
    """A rule for copying tensors.

    tokens: the part of the sequence axis to keep
    dtype: the type floating-point values are stored in
    max_bytes: the largest tensor that is recorded, after the other two
    """

    tokens: slice | None = None
    dtype: str | None = None
    max_bytes: int | None = None

    def copy(self, tensor: torch.Tensor, length: int | None = None) -> Copy:
        """A copy by this rule; `length` is how many tokens the model was called with."""
        import torch

        plain = _readable(tensor)
        attrs: dict[str, Any] = {}
        part = plain
        axis = None if self.tokens is None else sequence_axis(plain.shape, length)
        if axis is not None:
            part = part[(slice(None),) * axis + (self.tokens,)]
            attrs |= {"tokens": _text_of(self.tokens), "tokens_axis": axis, "tokens_of": length}
        target = getattr(torch, self.dtype) if self.dtype and part.is_floating_point() else part.dtype
        if target == torch.complex32:
            target = torch.complex64  # numpy has no half-precision complex numbers
        if target != part.dtype:
            attrs["dtype_was"] = str(part.dtype).removeprefix("torch.")
        size = part.numel() * target.itemsize
        if self.max_bytes is not None and size > self.max_bytes:
            raise LargeTensorError(f"larger than max_bytes={self.max_bytes:,}")
        try:
            array = array_of(part.to("cpu", target))
        except (RuntimeError, TypeError) as error:
            # torch has more kinds of tensors than can be listed: fake ones, wrapped ones, those of other devices
            raise UnreadableTensorError(f"a {type(tensor).__name__} without plain values ({error})") from error
        # numpy copies on one thread: waiting for torch's others, which the writer keeps busy, takes longer
        return Copy(memory.copy(array) if _shares(part, target) else array, attrs, not attrs)


def sequence_axis(shape: tuple[int, ...], length: int | None) -> int | None:
    """The axis of the tokens: the first after the batch's that is as long as the sequence; none for a single token."""
    if length is None or length == 1:
        return None
    start = 1 if len(shape) > 1 else 0
    return next((axis for axis in range(start, len(shape)) if shape[axis] == length), None)


def _readable(tensor: torch.Tensor) -> torch.Tensor:
    """The plain, dense tensor behind it, off the graph; a sharded one gives the part this process holds."""
    import torch

    plain = tensor.detach()
    if hasattr(plain, "to_local"):
        plain = plain.to_local()
    if plain.device.type == "meta":
        raise UnreadableTensorError("on the meta device, without values")
    if plain.layout != torch.strided:
        raise UnreadableTensorError(f"of layout {str(plain.layout).removeprefix('torch.')}")
    if plain.is_quantized or not (plain.dtype == torch.complex32 or _name_of(plain.dtype) in dtypes.BY_NAME):
        raise UnreadableTensorError(f"of type {_name_of(plain.dtype)}, which a trace cannot hold")
    if torch._C._functorch.is_functorch_wrapped_tensor(plain):
        raise UnreadableTensorError("inside a torch.func transform, without values of its own")
    return plain


def array_of(tensor: torch.Tensor) -> np.ndarray:
    """The same memory as an array, for a tensor on the CPU that is off the graph."""
    import torch

    dtype = dtypes.from_name(_name_of(tensor.dtype))
    plain = tensor.resolve_conj().resolve_neg()
    if dtypes.is_extended(dtype):
        return plain.view(getattr(torch, _CARRIERS[dtype.itemsize])).numpy().view(dtype)
    return plain.numpy()


def _shares(part: torch.Tensor, target: torch.dtype) -> bool:
    """True if `.to("cpu", target)` returns the tensor's own memory, or a non-contiguous array."""
    return (part.device.type == "cpu" and part.dtype == target) or not part.is_contiguous()


def _name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _text_of(part: slice | None) -> str:
    assert part is not None
    ends = ["" if end is None else str(end) for end in (part.start, part.stop)]
    return ":".join(ends if part.step is None else [*ends, str(part.step)])
