"""Add torch tensors to a recording, copying only those that are not in it already."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeGuard, final

from firstdiff.capturing.provenance import Provenance
from firstdiff.capturing.session import Place, Session
from firstdiff.capturing.snapshots import CopyRule, LargeTensorError, UnreadableTensorError
from firstdiff.trace import Role

if TYPE_CHECKING:
    import torch

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
