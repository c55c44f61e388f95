"""A GPT that makes mel codes: voice and text in front, then one code after the other."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from firstdiff.rng import Rng
from tts.encoders import SEMANTIC, SPEAKER, Attention
from tts.tokenizer import MERGES

DIM, HEADS, LAYERS, HIDDEN = 64, 4, 4, 128
TEXT_VOCABULARY, CODES, POSITIONS = 256 + MERGES, 64, 256
START = CODES  # the code that begins the sound
SAMPLING_STREAM = 1


class SwiGLU(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate, self.up, self.down = nn.Linear(DIM, HIDDEN), nn.Linear(DIM, HIDDEN), nn.Linear(HIDDEN, DIM)
        self.act = nn.SiLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.down(self.act(self.gate(x)) * self.up(x))


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.attn = nn.LayerNorm(DIM), Attention(DIM, HEADS, causal=True)
        self.norm2, self.mlp = nn.LayerNorm(DIM), SwiGLU()

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Prompt(nn.Module):
    """speaker, semantic tokens, text and the start code, with positions added: [1, tokens, 64]"""

    def __init__(self) -> None:
        super().__init__()
        self.speaker, self.semantic = nn.Linear(SPEAKER, DIM), nn.Linear(SEMANTIC, DIM)
        self.text, self.codes = nn.Embedding(TEXT_VOCABULARY, DIM), nn.Embedding(CODES + 1, DIM)
        self.positions = nn.Embedding(POSITIONS, DIM)

    def forward(self, speaker: Tensor, semantic: Tensor, ids: Tensor, codes: Tensor) -> Tensor:
        parts = self.speaker(speaker)[:, None], self.semantic(semantic), self.text(ids), self.codes(codes)
        x = torch.cat(parts, dim=1)
        return x + self.positions(torch.arange(x.shape[1]))


class GPT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.prompt = Prompt()
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(DIM), nn.Linear(DIM, CODES)

    def forward(self, speaker: Tensor, semantic: Tensor, ids: Tensor, codes: Tensor) -> tuple[Tensor, Tensor]:
        """Return the logits of the next code, and what the last layer made of all tokens."""
        x = self.prompt(speaker, semantic, ids, codes)
        for layer in self.layers:
            x = layer(x)
        x = self.norm(x)
        return self.head(x[:, -1]), x


class Generation:
    """Samples codes with a copy of a GPT, which no capture sees: prompt and codes tell enough of it."""

    def __init__(self, gpt: GPT) -> None:
        self.gpt = copy.deepcopy(gpt)

    def __call__(self, speaker: Tensor, semantic: Tensor, ids: Tensor, count: int, seed: int) -> tuple[Tensor, Tensor]:
        """Return the codes [1, count] and the latents behind them [1, count, 64]."""
        rng, codes = Rng(seed, SAMPLING_STREAM), torch.full((1, 1), START)
        with torch._C.DisableTorchFunction():
            while codes.shape[1] <= count:
                logits, _ = self.gpt(speaker, semantic, ids, codes)
                noise = torch.from_numpy(rng.gumbel(CODES)).float()
                codes = torch.cat((codes, (logits[0] + noise).argmax().reshape(1, 1)), dim=1)
            _, hidden = self.gpt(speaker, semantic, ids, codes)
        return codes[:, 1:], hidden[:, -count:]
