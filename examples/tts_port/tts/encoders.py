"""Speaker and semantic encoders of a mel spectrogram."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional

from tts.mel import MELS

SPEAKER, SEMANTIC, HEADS, POOL = 64, 48, 4, 8


class Speaker(nn.Module):
    """mel [1, frames, mels] -> speaker [1, 64] of length 1"""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.norm1 = nn.Conv1d(MELS, 32, 5, stride=2, padding=2), nn.GroupNorm(4, 32)
        self.conv2, self.norm2 = nn.Conv1d(32, 32, 3, stride=2, padding=1), nn.GroupNorm(4, 32)
        self.act1, self.act2 = nn.SiLU(), nn.SiLU()
        self.proj = nn.Linear(32, SPEAKER)

    def forward(self, mel: Tensor) -> Tensor:
        x = self.act1(self.norm1(self.conv1(mel.transpose(1, 2))))
        x = self.act2(self.norm2(self.conv2(x)))
        return functional.normalize(self.proj(x.mean(dim=2)), dim=-1)


class Heads(nn.Module):
    """Attention of fused queries, keys and values [batch, tokens, 3 * dim] -> [batch, heads, tokens, dim of a head]"""

    def __init__(self, heads: int, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal

    def forward(self, qkv: Tensor) -> Tensor:
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in qkv.chunk(3, dim=-1))
        return functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)


class Attention(nn.Module):
    def __init__(self, dim: int, heads: int, causal: bool = False) -> None:
        super().__init__()
        self.qkv, self.heads, self.out = nn.Linear(dim, 3 * dim), Heads(heads, causal), nn.Linear(dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.heads(self.qkv(x)).transpose(1, 2).flatten(2))


class Transpose(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.transpose(1, 2).contiguous()


class Semantic(nn.Module):
    """mel [1, frames, mels] -> semantic tokens [1, tokens, 48]"""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.transpose = nn.Conv1d(MELS, SEMANTIC, 3, stride=4, padding=1), Transpose()
        self.norm1, self.attn = nn.LayerNorm(SEMANTIC), Attention(SEMANTIC, HEADS)
        self.norm2, self.fc1 = nn.LayerNorm(SEMANTIC), nn.Linear(SEMANTIC, 2 * SEMANTIC)
        self.act, self.fc2 = nn.GELU(), nn.Linear(2 * SEMANTIC, SEMANTIC)
        self.pool, self.norm = nn.AvgPool1d(POOL), nn.LayerNorm(SEMANTIC)

    def forward(self, mel: Tensor) -> Tensor:
        x = self.transpose(self.conv(mel.transpose(1, 2)))
        x = x + self.attn(self.norm1(x))
        x = x + self.fc2(self.act(self.fc1(self.norm2(x))))
        return self.norm(self.pool(x.transpose(1, 2)).transpose(1, 2))
