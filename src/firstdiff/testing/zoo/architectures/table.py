"""Every architecture by name, with random weights under which each part matters."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from firstdiff.testing.zoo.architectures import diffusion, sampler, transformer_models, unseen_models, vocoder

_EMBEDDING_STD = 0.7


def randomise(model: nn.Module, seed: int) -> None:
    """Fill a model with trained-like weights: norms near 1, biases not 0, activations of about unit size."""
    generator = torch.Generator().manual_seed(seed)
    done: set[int] = set()
    for module in model.modules():
        for name, values in module.named_parameters(recurse=False):
            if id(values) not in done:
                done.add(id(values))
                _fill(module, name, values.data, generator)
    for found in model.modules():
        if type(found).__name__ == "T5Attention":  # its weights scale the scores, as in trained models
            found.q.weight.data *= found.key_value_proj_dim**-0.5  # type: ignore[union-attr,operator]
    for name, buffer in model.named_buffers():
        if name.endswith(("running_mean", "running_var")):
            buffer.copy_(0.5 + torch.rand(buffer.shape, generator=generator))


def _fill(module: nn.Module, name: str, values: torch.Tensor, generator: torch.Generator) -> None:
    random = torch.randn(values.shape, generator=generator)
    if isinstance(module, nn.Embedding):
        values.copy_(_EMBEDDING_STD * random)
    elif values.ndim == 1:
        values.copy_(1 + 0.2 * random if name == "weight" else 0.2 * random)
    else:
        values.copy_(random / math.sqrt(_fan_in(module, values)))


def _fan_in(module: nn.Module, values: torch.Tensor) -> int:
    if type(module).__name__ == "Conv1D":  # of transformers, with inputs first
        return values.shape[0]
    if isinstance(module, nn.ConvTranspose1d):
        return values.shape[0] * values.shape[2] // module.stride[0]
    return values[0].numel()


@dataclass(frozen=True, slots=True)
class Built:
    """A model ready to run, and its inputs."""

    model: nn.Module
    inputs: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Architecture:
    """One architecture.

    name: what it is called on the command line
    model: makes the model
    inputs: makes what it is given, for a number of batch rows
    routed: it chooses experts, so that half precision takes other ways through it
    held_out: nothing is tuned on it
    """

    name: str
    model: Callable[[], nn.Module]
    inputs: Callable[[torch.Generator, int], dict[str, Any]]
    routed: bool = False
    held_out: bool = False

    def build(self, seed: int, batch: int = 2) -> Built:
        """Build the model and its inputs, the same for the same seed."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = self.model().eval()
        randomise(model, seed)
        return Built(model.requires_grad_(False), self.inputs(torch.Generator().manual_seed(seed + 1), batch))


ARCHITECTURES = {
    made.name: made
    for made in (
        Architecture("gpt2", transformer_models.gpt2, transformer_models.ids),
        Architecture("llama", transformer_models.llama, transformer_models.ids),
        Architecture("bert", transformer_models.bert, transformer_models.padded_ids),
        Architecture("whisper", transformer_models.whisper, transformer_models.speech),
        Architecture("vit", transformer_models.vit, transformer_models.image),
        Architecture("t5", transformer_models.t5, transformer_models.two_texts),
        Architecture("vocoder", vocoder.Vocoder, vocoder.waveform),
        Architecture("diffusion", diffusion.DiffusionTransformer, diffusion.noisy),
        Architecture("moe", transformer_models.mixtral, transformer_models.ids, routed=True),
        Architecture("sampler", sampler.Sampler, sampler.drawn),
        Architecture("neox", unseen_models.neox, unseen_models.ids, held_out=True),
        Architecture("gemma", unseen_models.gemma, unseen_models.ids, held_out=True),
        Architecture("convnet", unseen_models.ConvNet, unseen_models.picture, held_out=True),
    )
}
