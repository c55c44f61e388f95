"""Mistakes in how modules are put together: left out, done twice, mixed up."""

from __future__ import annotations

import re
from typing import Any

import torch

from firstdiff.testing.zoo.edits import around_forward, change_output, edit_function, with_first_tensor
from firstdiff.testing.zoo.fault import Site, Subject, fault
from firstdiff.testing.zoo.faults.norms import norm

BLOCKS = (
    *("GPT2Block", "LlamaDecoderLayer", "WhisperEncoderLayer", "ViTLayer", "Block", "MixtralDecoderLayer"),
    *("BertLayer", "Residual"),
)
# the residual calls of `add` in a module's code, and the operand that is the branch
_RESIDUALS: dict[str, dict[int, int]] = {
    **{"GPT2Block": {0: 0, 1: 1}, "LlamaDecoderLayer": {0: 1, 1: 1}, "MixtralDecoderLayer": {0: 1, 1: 1}},
    **{"WhisperEncoderLayer": {0: 1, 1: 1}, "WhisperDecoderLayer": {0: 1, 1: 1, 2: 1}, "Residual": {0: 1}},
    **{"ViTLayer": {0: 0}, "ViTOutput": {0: 0}, "BertSelfOutput": {0: 0}, "BertOutput": {0: 0}},
    **{"T5LayerSelfAttention": {0: 1}, "T5LayerCrossAttention": {0: 1}, "T5LayerFF": {0: 1}, "Block": {2: 1, 5: 1}},
}
_KEPT = ("Attention", "MLP", "Norm", "LayerFF", "Intermediate")
_ALL = "gpt2 llama bert whisper vit vocoder diffusion moe"


@fault("residual missing", "residual.missing", on=f"{_ALL} t5")
def no_residual(subject: Subject) -> Site:
    name, module = subject.of_kind(*_RESIDUALS)
    call, branch = subject.choice("residual", list(_RESIDUALS[type(module).__name__].items()))
    edit_function(module, "add", lambda _, *operands: operands[branch].clone(), call=call)
    return Site(name)


@fault("layer skipped", "op.skipped", on=_ALL)
def layer_skipped(subject: Subject) -> Site:
    name, module = subject.of_kind(*BLOCKS)
    in_tuple = type(module).__name__ in ("GPT2Block", "WhisperEncoderLayer", "BertLayer")
    around_forward(module, lambda _, x, *_args, **_named: (x,) if in_tuple else x)
    return Site(name)


@fault("layer done twice", "op.repeated", on=_ALL)
def layer_twice(subject: Subject) -> Site:
    name, module = subject.of_kind(*BLOCKS)

    def twice(forward: Any, x: torch.Tensor, *args: Any, **named: Any) -> Any:
        once = forward(x, *args, **named)
        return forward(once if isinstance(once, torch.Tensor) else once[0], *args, **named)

    around_forward(module, twice)
    return Site(name)


@fault("norm skipped", "op.skipped", on="gpt2 llama bert whisper vit t5 diffusion moe")
def norm_skipped(subject: Subject) -> Site:
    name, module = norm(subject)
    around_forward(module, lambda _, x: x.clone())
    return Site(name)


@fault("norm done twice", "op.repeated", on="gpt2 llama bert whisper vit t5 moe")
def norm_twice(subject: Subject) -> Site:
    name, module = norm(subject, affine=True)
    around_forward(module, lambda forward, x: forward(forward(x)))
    return Site(name)


@fault("output of an earlier layer", "values.stale", on="gpt2 llama bert whisper vit t5 diffusion moe")
def stale(subject: Subject) -> Site:
    """Make a layer return the output of its namesake before: a buffer that was not written again."""
    namesakes: dict[str, list[tuple[str, Any]]] = {}
    for name, module in subject.model.named_modules():
        kind = type(module).__name__
        # experts are given different tokens
        if "experts" not in name and any(part in kind for part in _KEPT):
            namesakes.setdefault(re.sub(r"\d+", "#", name), []).append((name, module))
    alike = subject.choice("layer with a namesake", [found for found in namesakes.values() if len(found) > 1])
    at = subject.random.randrange(1, len(alike))
    before: list[torch.Tensor] = []

    def keep(x: torch.Tensor) -> torch.Tensor:
        before.append(x.clone())
        return x

    change_output(alike[at - 1][1], keep)
    around_forward(
        alike[at][1],
        lambda forward, *args, **named: with_first_tensor(forward(*args, **named), lambda _: before[-1].clone()),
    )
    return Site(alike[at][0])


@fault("dropout left on", "dropout.active", on="gpt2 bert vit t5")
def dropout(subject: Subject) -> Site:
    name, module = subject.of_kind("Dropout")
    module.p = max(module.p, 0.1)
    module.train()
    return Site(name)
