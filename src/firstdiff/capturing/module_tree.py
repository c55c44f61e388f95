"""List the modules of a model by name, without wrappers such as DDP, and classify what can be recorded of each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from firstdiff.capturing.slots import is_scalar, scalar

if TYPE_CHECKING:
    import torch

# watched: hooks see calls; compiled: only the outside of it runs as Python; inside: part of a compiled one;
# scripted: takes no hooks; wrapper: stands for the module within
Kind = Literal["watched", "compiled", "inside", "scripted", "wrapper"]

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
        yield from _walk(child, path, root, inside or kind in ("compiled", "scripted"), seen)


def _kind_of(module: torch.nn.Module, inside: bool) -> Kind:
    import torch

    if inside:
        return "inside"
    if isinstance(module, torch.jit.ScriptModule):
        return "scripted"
    if "_orig_mod" in module._modules or module._compiled_call_impl is not None:
        return "compiled"
    return "watched" if _inner(module) is None else "wrapper"


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
