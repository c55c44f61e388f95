"""Perturb inputs for the noise floor: by one unit in the last place, or to float64."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from firstdiff.capturing.saved_calls import mapped
from firstdiff.capturing.slots import parts_of_call
from firstdiff.capturing.tensor_recorder import is_tensor

if TYPE_CHECKING:
    import torch

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


def float_inputs(arguments: Arguments) -> bool:
    """True if a call has any floating-point tensor argument."""
    return any(tensor.is_floating_point() for _, tensor in parts_of_call(*arguments, is_tensor).tensors)


def moved_by_one_ulp(arguments: Arguments) -> Arguments:
    """Every floating-point element up or down by one unit in the last place."""
    args, kwargs = mapped(arguments, lambda tensor: nudged(tensor) if tensor.is_floating_point() else tensor)
    return args, kwargs


def in_float64(arguments: Arguments) -> Arguments:
    args, kwargs = mapped(arguments, lambda tensor: tensor.double() if tensor.is_floating_point() else tensor)
    return args, kwargs


@contextmanager
def nudged_embeddings(model: torch.nn.Module) -> Iterator[int]:
    """Perturb the outputs of a model's embeddings instead, for models with integer inputs; yields their number."""
    import torch

    modules = [module for module in model.modules() if isinstance(module, torch.nn.Embedding)]
    handles = [module.register_forward_hook(lambda _module, _args, result: nudged(result)) for module in modules]
    try:
        yield len(modules)
    finally:
        for handle in handles:
            handle.remove()


def nudged(tensor: torch.Tensor) -> torch.Tensor:
    """One unit in the last place up or down, by a fixed pattern; what is 0 or not finite stays."""
    import torch

    if tensor.element_size() == 1:
        return tensor  # in fp8 one unit is up to an eighth of the value, which does matter
    carrier = {2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()]
    plain = tensor.detach().cpu().contiguous()
    pattern = torch.Generator().manual_seed(0)
    steps = torch.randint(0, 2, plain.shape, generator=pattern, dtype=carrier) * 2 - 1
    moved = (plain.view(carrier) + steps).view(plain.dtype)
    kept = (plain == 0) | ~torch.isfinite(plain) | ~torch.isfinite(moved)
    return torch.where(kept, plain, moved).to(tensor.device).requires_grad_(tensor.requires_grad)
