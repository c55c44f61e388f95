"""Modules of a model by name, their attributes, parameters and buffers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from firstdiff.capturing.arguments import is_scalar, scalar
from firstdiff.capturing.session import Place
from firstdiff.capturing.tensor_recorder import TensorRecorder
from firstdiff.trace import Role

if TYPE_CHECKING:
    import torch

# watched: hooks see calls; compiled, exported: hooks see only the outside of it; inside: part of one of these;
# scripted: takes no hooks; wrapper: stands for the module within
Kind = Literal["watched", "compiled", "exported", "inside", "scripted", "wrapper"]

_INNER = ("_fsdp_wrapped_module", "_checkpoint_wrapped_module")
_PARALLEL = ("DistributedDataParallel", "DataParallel")


@dataclass(frozen=True, slots=True)
class Node:
    """A module and the name it goes by in the trace.

    leaf_of_torch: a module of torch.nn without children: what it computes is its output
    """

    name: str
    module: torch.nn.Module
    kind: Kind
    leaf_of_torch: bool

    @property
    def op(self) -> str:
        return type(_original(self.module)).__name__

    def attributes(self) -> dict[str, Any]:
        """Every scalar the module carries: eps, heads, scale, approximate, whether it trains."""
        held = vars(_original(self.module))
        return {name: scalar(value) for name, value in held.items() if name[0] != "_" and is_scalar(value)}


def root_name(model: torch.nn.Module) -> str:
    """Return the name of the model itself: `root`, with underscores appended if a child has that name."""
    taken = dict(_children(model))
    name = "root"
    while name in taken:
        name += "_"
    return name


def nodes_of(model: torch.nn.Module) -> list[Node]:
    """Every module, each once, parents first; the names have no trace of DDP, FSDP, checkpointing or torch.compile."""
    return list(_walk(model, "", root_name(_unwrapped(model)), False, set()))


def _walk(module: torch.nn.Module, name: str, root: str, inside: bool, seen: set[torch.nn.Module]) -> Iterator[Node]:
    if module in seen:
        return
    seen.add(module)
    kind = _kind_of(module, inside)
    leaf = type(module).__module__.startswith("torch.nn.") and not any(_children(module))
    yield Node(name or root, module, kind, leaf)
    inner = _inner(module)
    if inner is not None:
        yield from _walk(inner, name, root, inside or kind == "compiled", seen)
        return
    for child_name, child in _children(module):
        path = f"{name}.{child_name}" if name else child_name
        yield from _walk(child, path, root, inside or kind in ("compiled", "exported", "scripted"), seen)


def _kind_of(module: torch.nn.Module, inside: bool) -> Kind:
    import torch

    if inside:
        return "inside"
    if isinstance(module, torch.jit.ScriptModule):
        return "scripted"
    if "_orig_mod" in module._modules or module._compiled_call_impl is not None:
        return "compiled"
    if _is_exported(module):
        return "exported"
    return "watched" if _inner(module) is None else "wrapper"


def _is_exported(module: torch.nn.Module) -> bool:
    """True for the one graph of aten operators that torch.export makes of a model: it calls no modules to speak of."""
    import torch

    if not isinstance(module, torch.fx.GraphModule):
        return False
    targets = [node.target for node in module.graph.nodes if node.op == "call_function"]
    return any(isinstance(target, torch._ops.OpOverload) for target in targets)


def _inner(module: torch.nn.Module) -> torch.nn.Module | None:
    """The module a wrapper stands for."""
    children = module._modules
    for name in ("_orig_mod", *_INNER):
        if name in children:
            return children[name]
    return children.get("module") if type(module).__name__ in _PARALLEL else None


def _unwrapped(module: torch.nn.Module) -> torch.nn.Module:
    while (inner := _inner(module)) is not None:
        module = inner
    return module


def _original(module: torch.nn.Module) -> torch.nn.Module:
    return module._modules.get("_orig_mod") or module


def _children(module: torch.nn.Module) -> list[tuple[str, torch.nn.Module]]:
    return [(name, child) for name, child in module._modules.items() if child is not None]


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


def record_parameters(recorder: TensorRecorder, held: Sequence[Held], params: Params) -> list[str]:
    """Record those that `params` asks for and remember where all of them are; returns the names of the others."""
    left_out: list[str] = []
    largest = _largest_recorded(held, params)
    for item in held:
        seq = None
        if largest is None or item.nbytes <= largest:
            place = Place(item.name, op=item.node.op, parent=item.node.name)
            attrs = {"aliases": item.aliases} if item.aliases else {}
            seq = recorder.write(item.tensor, place, item.role, attrs=attrs)
        else:
            left_out += [item.name, *item.aliases]
        if seq is None:
            recorder.provenance.add(item.tensor, None, param=item.name)
    return left_out


def _largest_recorded(held: Sequence[Held], params: Params) -> int | None:
    """Bytes up to which a parameter is recorded; None where all of them are."""
    if params == "none":
        return -1
    fits = params == "auto" and sum(item.nbytes for item in held) <= TOTAL_BYTES
    return None if params == "all" or fits else SMALL_BYTES
