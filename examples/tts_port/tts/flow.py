"""Flow matching with a diffusion transformer: from noise to mel frames, in the voice of the prompt."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from firstdiff.rng import Rng
from tts.encoders import SPEAKER, Attention
from tts.gpt import DIM as LATENT
from tts.mel import MELS

DIM, HEADS, BLOCKS, STEPS = 64, 4, 2, 4
PROMPT = 16  # mel frames of the voice that stand in front
FRAMES_PER_CODE = 4
GUIDANCE = 0.7
NOISE_STREAM = 2


class Time(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.act, self.fc2 = nn.Linear(DIM, DIM), nn.SiLU(), nn.Linear(DIM, DIM)

    def forward(self, t: Tensor) -> Tensor:
        rates = torch.exp(-math.log(10_000) * torch.arange(DIM // 2) / (DIM // 2))
        angles = 100 * t[:, None] * rates
        return self.fc2(self.act(self.fc1(torch.cat((angles.cos(), angles.sin()), dim=-1))))


class AdaLN(nn.Module):
    """SiLU and a linear layer in front of what is chunked into shifts, scales and gates."""

    def __init__(self, parts: int) -> None:
        super().__init__()
        self.act, self.linear = nn.SiLU(), nn.Linear(DIM, parts * DIM)

    def forward(self, condition: Tensor) -> Tensor:
        return self.linear(self.act(condition))[:, None]


class Modulate(nn.Module):
    def forward(self, x: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
        return x * (1 + scale) + shift


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.adaln = AdaLN(6)
        self.norm1, self.norm2 = (nn.LayerNorm(DIM, eps=1e-6, elementwise_affine=False) for _ in range(2))
        self.modulate1, self.modulate2 = Modulate(), Modulate()
        self.attn = Attention(DIM, HEADS)
        self.fc1, self.act, self.fc2 = nn.Linear(DIM, 2 * DIM), nn.GELU(approximate="tanh"), nn.Linear(2 * DIM, DIM)

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        shift1, scale1, gate1, shift2, scale2, gate2 = self.adaln(condition).chunk(6, dim=-1)
        x = x + gate1 * self.attn(self.modulate1(self.norm1(x), shift1, scale1))
        return x + gate2 * self.fc2(self.act(self.fc1(self.modulate2(self.norm2(x), shift2, scale2))))


class Velocity(nn.Module):
    """The diffusion transformer: noisy mel, prompt, latents, speaker and time -> velocity"""

    def __init__(self) -> None:
        super().__init__()
        self.time, self.input = Time(), nn.Linear(2 * MELS + LATENT + SPEAKER, DIM)
        self.blocks = nn.ModuleList(Block() for _ in range(BLOCKS))
        self.adaln, self.norm = AdaLN(2), nn.LayerNorm(DIM, eps=1e-6, elementwise_affine=False)
        self.modulate, self.out = Modulate(), nn.Linear(DIM, MELS)

    def forward(self, x: Tensor, condition: Tensor, t: Tensor) -> Tensor:
        time = self.time(t)
        x = self.input(torch.cat((x, condition), dim=-1))
        for block in self.blocks:
            x = block(x, time)
        shift, scale = self.adaln(time).chunk(2, dim=-1)
        return self.out(self.modulate(self.norm(x), shift, scale))


class Guidance(nn.Module):
    """Classifier-free guidance: away from what the model does without a condition."""

    def forward(self, velocity: Tensor) -> Tensor:
        conditional, unconditional = velocity[:1], velocity[1:]
        return (1 + GUIDANCE) * conditional - GUIDANCE * unconditional


class Step(nn.Module):
    """One step of Euler's method."""

    def forward(self, x: Tensor, velocity: Tensor) -> Tensor:
        return x + velocity / STEPS


class Cut(nn.Module):
    def forward(self, mel: Tensor) -> Tensor:
        return mel[:, PROMPT:].contiguous()


class Flow(nn.Module):
    """latents [1, codes, 64], mel of the voice, speaker [1, 64] -> mel [1, 4 * codes, 80]"""

    def __init__(self) -> None:
        super().__init__()
        self.velocity, self.guidance, self.step, self.cut = Velocity(), Guidance(), Step(), Cut()

    def forward(self, latents: Tensor, voice: Tensor, speaker: Tensor, noise: Tensor) -> Tensor:
        x, frames = noise, noise.shape[1]
        prompt = torch.zeros(1, frames, MELS)
        prompt[:, :PROMPT] = voice[:, :PROMPT]
        latents = torch.cat((torch.zeros(1, PROMPT, LATENT), latents.repeat_interleave(FRAMES_PER_CODE, dim=1)), dim=1)
        condition = torch.cat((prompt, latents, speaker[:, None].expand(1, frames, SPEAKER)), dim=-1)
        both = torch.cat((condition, torch.zeros_like(condition)))
        for step in range(STEPS):
            velocity = self.velocity(x.repeat(2, 1, 1), both, torch.full((2,), step / STEPS))
            x = self.step(x, self.guidance(velocity))
        return self.cut(x)


def noise_for(codes: int, seed: int) -> Tensor:
    """Return the noise that the flow begins with."""
    drawn = Rng(seed, NOISE_STREAM).normal((1, PROMPT + FRAMES_PER_CODE * codes, MELS))
    return torch.from_numpy(drawn).float()
