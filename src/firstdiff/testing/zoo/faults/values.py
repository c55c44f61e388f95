"""Mistakes that are told from values alone: a scale, an offset, a sign, zeros, clipping."""

from __future__ import annotations

import torch

from firstdiff.testing.zoo.edits import Change, change_output
from firstdiff.testing.zoo.fault import Site, Subject, fault

_EVERYWHERE = "gpt2 llama bert whisper vit t5 vocoder diffusion moe"
_KINDS = ("Linear", "Conv1D", "LayerNorm", "LlamaRMSNorm", "T5LayerNorm", "MixtralRMSNorm", "Conv1d", "ConvTranspose1d")


def changed(subject: Subject, change: Change) -> Site:
    """A layer at random whose output is changed."""
    name, module = subject.of_kind(*_KINDS)
    change_output(module, change)
    return Site(name)


@fault("constant scale", "scale.constant", on=_EVERYWHERE)
def constant_scale(subject: Subject) -> Site:
    factor = subject.random.choice([2.0, 0.5, 255.0, 1 / 255, 8**0.5, 8**-0.5, 1.1])
    return changed(subject, lambda x: x * factor)


@fault("constant offset", "offset.constant", on=_EVERYWHERE)
def constant_offset(subject: Subject) -> Site:
    offset = subject.random.choice([0.5, -1.0, 0.1])
    return changed(subject, lambda x: x + offset)


@fault("sign flipped", "sign.flip", on=_EVERYWHERE)
def flipped(subject: Subject) -> Site:
    return changed(subject, torch.neg)


@fault("channel scale", "scale.channel", on=_EVERYWHERE)
def channel_scale(subject: Subject) -> Site:
    channel, factor = subject.random.randrange(16), subject.random.choice([0.5, 1.03, 2.0])

    def scaled(x: torch.Tensor) -> torch.Tensor:
        found = x.clone()
        found.movedim(channel_axis(subject), 0)[channel] *= factor
        return found

    return changed(subject, scaled)


@fault("clipped", "values.clipped", on=_EVERYWHERE)
def clipped(subject: Subject) -> Site:
    share = subject.random.uniform(0.3, 0.7)
    return changed(subject, lambda x: x.clamp(-share * x.abs().max(), share * x.abs().max()))


@fault("channel offset", "offset.channel", on=_EVERYWHERE)
def channel_offset(subject: Subject) -> Site:
    """Every channel has an offset of its own."""
    seed = subject.random.randrange(1 << 30)

    def moved(x: torch.Tensor) -> torch.Tensor:
        along = x.movedim(channel_axis(subject), -1)
        offsets = 0.3 * torch.randn(along.shape[-1], generator=torch.Generator().manual_seed(seed))
        return (along + offsets).movedim(-1, channel_axis(subject)).contiguous()

    return changed(subject, moved)


@fault("channel zero", "values.zero", on=_EVERYWHERE)
def zero_channel(subject: Subject) -> Site:
    channel = subject.random.randrange(16)

    def emptied(x: torch.Tensor) -> torch.Tensor:
        found = x.clone()
        found.movedim(channel_axis(subject), 0)[channel] = 0
        return found

    return changed(subject, emptied)


@fault("output zero", "values.zero", on=_EVERYWHERE)
def all_zero(subject: Subject) -> Site:
    return changed(subject, torch.zeros_like)


@fault("embedding scale", "scale.constant", on="gpt2 llama bert whisper t5 moe")
def embedding_scale(subject: Subject) -> Site:
    name, module = subject.of_kind("Embedding")
    factor = subject.random.choice([32**0.5, 32**-0.5])
    change_output(module, lambda x: x * factor)
    return Site(name)


@fault("output unrelated", "values.uncorrelated", on=_EVERYWHERE)
def unrelated(subject: Subject) -> Site:
    seed = subject.random.randrange(1 << 30)

    def noise(x: torch.Tensor) -> torch.Tensor:
        return x.std() * torch.randn(x.shape, generator=torch.Generator().manual_seed(seed))

    return changed(subject, noise)


def channel_axis(subject: Subject) -> int:
    return 1 if subject.architecture == "vocoder" else -1
