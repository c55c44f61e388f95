"""Wrong weights: of another layer, transposed, never loaded."""

from __future__ import annotations

from typing import Any

import torch

from firstdiff.testing.zoo.edits import set_weight
from firstdiff.testing.zoo.fault import Site, Subject, fault

_EVERYWHERE = "gpt2 llama bert whisper vit t5 diffusion moe"
KINDS = ("Linear", "Conv1D")


def linear(subject: Subject, *, square: bool = False, bias: bool = False) -> tuple[str, Any]:
    """A linear layer at random."""

    def fits(name: str, module: Any) -> bool:
        if type(module).__name__ not in KINDS or name in ("pooler.dense", "lm_head", "proj_out"):
            return False
        return not (square and len(set(module.weight.shape)) > 1) and not (bias and module.bias is None)

    return subject.one_of("linear layer", fits)


@fault("bias missing", "bias.missing", on="gpt2 bert whisper vit diffusion")
def no_bias(subject: Subject) -> Site:
    name, module = linear(subject, bias=True)
    if type(module).__name__ == "Conv1D":
        module.forward = lambda x: torch.matmul(x, module.weight)
    else:
        module.forward = lambda x: torch.nn.functional.linear(x, module.weight)
    return Site(name)


@fault("weight transposed", "weights.transposed", on=_EVERYWHERE)
def transposed(subject: Subject) -> Site:
    name, module = linear(subject, square=True)
    set_weight(module, "weight", module.weight.T)
    return Site(name)


@fault("weights of another layer", "weights.differ", on=_EVERYWHERE)
def of_another_layer(subject: Subject) -> Site:
    name, module = linear(subject)
    alike: list[Any] = [
        other
        for other in subject.model.modules()
        if type(other) is type(module) and other is not module and other.weight.shape == module.weight.shape
    ]
    set_weight(module, "weight", subject.choice("second layer of that shape", alike).weight)
    return Site(name)


@fault("weights loaded in part", "weights.differ", on=_EVERYWHERE)
def in_part(subject: Subject) -> Site:
    name, module = linear(subject)
    changed = module.weight.clone()
    rows = subject.random.randrange(changed.shape[0] // 4, changed.shape[0] // 2)
    fresh = torch.randn(
        changed[:rows].shape, generator=torch.Generator().manual_seed(subject.random.randrange(1 << 30))
    )
    changed[:rows] = fresh * changed.std()
    set_weight(module, "weight", changed)
    return Site(name)


@fault(
    "weights never loaded",
    "weights.missing",
    "weights.differ",
    on=_EVERYWHERE,
    why="weights as they were initialised are other weights of the usual kind",
)
def never_loaded(subject: Subject) -> Site:
    name, module = linear(subject)
    seed = torch.Generator().manual_seed(subject.random.randrange(1 << 30))
    set_weight(module, "weight", 0.02 * torch.randn(module.weight.shape, generator=seed))
    if module.bias is not None:
        set_weight(module, "bias", torch.zeros_like(module.bias))
    return Site(name)
