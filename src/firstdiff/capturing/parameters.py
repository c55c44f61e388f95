"""Record parameters and buffers, each once, before the model runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from firstdiff.capturing.module_tree import Node
from firstdiff.capturing.session import Place
from firstdiff.capturing.tensor_recorder import TensorRecorder
from firstdiff.trace import Role

if TYPE_CHECKING:
    import torch

SMALL_BYTES = 64 << 10
# of all together, up to which "auto" records every one: replay needs them, and this much takes a second to write
TOTAL_BYTES = 256 << 20
Params = Literal["auto", "small", "all", "none"]


@dataclass(slots=True)
class Held:
    """A parameter or buffer, the module that holds it, and the other names it has."""

    name: str
    role: Role
    tensor: torch.Tensor
    node: Node
    aliases: list[str] = field(default_factory=list)

    @property
    def nbytes(self) -> int:
        return self.tensor.numel() * self.tensor.element_size()


def held_tensors(nodes: Sequence[Node], root: str) -> list[Held]:
    """Parameters and buffers of all modules in order; tied ones once, under their first name."""
    from torch.nn.parameter import is_lazy

    found: dict[int, Held] = {}
    for node in nodes:
        prefix = "" if node.name == root else f"{node.name}."
        own: list[tuple[Role, str, torch.Tensor | None]] = [
            *(("param", name, tensor) for name, tensor in node.module._parameters.items()),
            *(("buffer", name, tensor) for name, tensor in node.module._buffers.items()),
        ]
        for role, name, tensor in own:
            if tensor is None or is_lazy(tensor):
                continue
            first = found.setdefault(id(tensor), Held(prefix + name, role, tensor, node))
            if first.name != prefix + name:
                first.aliases.append(prefix + name)
    return list(found.values())


def record_parameters(recorder: TensorRecorder, held: Sequence[Held], params: Params) -> int:
    """Record those that `params` asks for and remember where all of them are; returns how many were left out."""
    left_out = 0
    largest = _largest_recorded(held, params)
    for item in held:
        seq = None
        if largest is None or item.nbytes <= largest:
            place = Place(item.name, op=item.node.op, parent=item.node.name)
            attrs = {"aliases": item.aliases} if item.aliases else {}
            seq = recorder.write(item.tensor, place, item.role, attrs=attrs)
        else:
            left_out += 1
        if seq is None:
            recorder.provenance.add(item.tensor, None, param=item.name)
    return left_out


def _largest_recorded(held: Sequence[Held], params: Params) -> int | None:
    """Bytes up to which a parameter is recorded; None where all of them are."""
    if params == "none":
        return -1
    fits = params == "auto" and sum(item.nbytes for item in held) <= TOTAL_BYTES
    return None if params == "all" or fits else SMALL_BYTES
