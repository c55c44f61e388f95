"""A character-level discrete-diffusion transformer with uniform transitions.

The network predicts the clean characters. `DiffusionText.forward` turns that prediction into the log-scores that a
sampler works with, `log p_t(y) / p_t(x_t)`: zero at the current character, positive where another one is more likely.
"""

import json
import math
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

HERE = Path(__file__).parent
WEIGHTS = HERE / "weights"


@dataclass(frozen=True)
class Config:
    """Shape of the network and bounds of its noise schedule."""

    vocab_size: int
    block_size: int = 128
    layers: int = 5
    heads: int = 4
    width: int = 128
    sigma_min: float = 0.05
    sigma_max: float = 5.0
    steps: int = 64


class NoiseEmbedding(nn.Module):
    """Fourier features of log(sigma), mixed by one hidden layer."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("frequencies", 2.0 ** torch.arange(-2, 6) * math.pi / 8, persistent=False)
        self.hidden = nn.Linear(16, width)
        self.out = nn.Linear(width, width)

    def forward(self, sigma: Tensor) -> Tensor:
        angles = torch.log(sigma)[:, None] * self.frequencies
        return F.silu(self.out(F.silu(self.hidden(torch.cat([angles.sin(), angles.cos()], dim=-1)))))


class NoiseNorm(nn.Module):
    """Layer norm whose scale and shift depend on the noise level."""

    def __init__(self, width: int, noise_width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width, elementwise_affine=False)
        self.modulation = nn.Linear(noise_width, 2 * width)
        nn.init.zeros_(self.modulation.weight)
        nn.init.zeros_(self.modulation.bias)

    def forward(self, x: Tensor, noise: Tensor) -> Tensor:
        scale, shift = self.modulation(noise)[:, None].chunk(2, dim=-1)
        return self.norm(x) * (1 + scale) + shift


class Attention(nn.Module):
    """Self-attention over the whole block, in both directions."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        heads = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = heads.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = F.scaled_dot_product_attention(query, key, value)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    """Depthwise convolution, attention and a feed-forward layer, each added to the stream.

    The convolution shows a character its neighbours, which attention learns only after thousands of steps.
    """

    def __init__(self, config: Config, noise_width: int) -> None:
        super().__init__()
        width = config.width
        self.conv = nn.Conv1d(width, width, kernel_size=7, padding=3, groups=width)
        self.attention_norm = NoiseNorm(width, noise_width)
        self.attention = Attention(width, config.heads)
        self.feed_forward_norm = NoiseNorm(width, noise_width)
        self.feed_forward = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width)
        )

    def forward(self, x: Tensor, noise: Tensor) -> Tensor:
        x = x + self.conv(x.transpose(1, 2)).transpose(1, 2)
        x = x + self.attention(self.attention_norm(x, noise))
        return x + self.feed_forward(self.feed_forward_norm(x, noise))


class DiffusionText(nn.Module):
    """Network from ids [batch, block_size] and sigma [batch] to log-scores [batch, block_size, vocab_size]."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        noise_width = 64
        self.config = config
        self.token = nn.Embedding(config.vocab_size, config.width)
        self.position = nn.Parameter(torch.zeros(config.block_size, config.width))
        self.noise = NoiseEmbedding(noise_width)
        self.blocks = nn.ModuleList(Block(config, noise_width) for _ in range(config.layers))
        self.norm = NoiseNorm(config.width, noise_width)
        self.head = nn.Linear(config.width, config.vocab_size)
        nn.init.normal_(self.token.weight, std=0.5)
        nn.init.normal_(self.position, std=0.02)
        nn.init.zeros_(self.head.weight)
        for block in self.blocks:
            nn.init.zeros_(block.attention.out.weight)
            nn.init.zeros_(block.feed_forward[2].weight)

    def predict_clean(self, ids: Tensor, sigma: Tensor) -> Tensor:
        """Return the logits of the clean character at every position."""
        noise = self.noise(sigma)
        x = self.token(ids) + self.position
        for block in self.blocks:
            x = block(x, noise)
        return self.head(self.norm(x, noise))

    def forward(self, ids: Tensor, sigma: Tensor) -> Tensor:
        """Return `log p_t(y) / p_t(ids)` for every character y at every position.

        With alpha = exp(-sigma) and beta = (1 - alpha) / V, a clean character survives with probability alpha + beta
        and becomes any other one with probability beta, so Bayes' rule turns p(x_0 | x_t) into the ratios exactly.
        """
        clean = torch.softmax(self.predict_clean(ids, sigma), dim=-1)
        alpha = torch.exp(-sigma)[:, None, None]
        beta = (1 - alpha) / self.config.vocab_size
        current = F.one_hot(ids, self.config.vocab_size).to(clean.dtype)
        weight = clean / (beta + alpha * current)
        log_density = torch.log(beta * weight.sum(dim=-1, keepdim=True) + alpha * weight)
        return log_density - log_density.gather(-1, ids[..., None])


def load_config(folder: Path) -> Config:
    """Return the configuration in `metadata.json`."""
    metadata = json.loads((folder / "metadata.json").read_text(encoding="utf-8"))
    return Config(**{name: metadata[name] for name in Config.__dataclass_fields__})


def load_vocab(folder: Path) -> list[str]:
    """Return the characters in the order of their ids."""
    vocab: list[str] = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
    return vocab


def save_model(model: DiffusionText, vocab: list[str], words: list[str], folder: Path) -> None:
    """Write weights, configuration, vocabulary and the training text's words."""
    folder.mkdir(parents=True, exist_ok=True)
    arrays = {name: value.detach().numpy() for name, value in model.state_dict().items()}
    np.savez(folder / "weights.npz", **arrays)
    (folder / "metadata.json").write_text(json.dumps(asdict(model.config), indent=2) + "\n", encoding="utf-8")
    (folder / "vocab.json").write_text(json.dumps(vocab) + "\n", encoding="utf-8")
    (folder / "words.txt").write_text("\n".join(words) + "\n", encoding="utf-8")


def load_model(folder: Path = WEIGHTS) -> tuple[DiffusionText, list[str]]:
    """Return the trained model, ready for inference, and its vocabulary."""
    config, vocab = load_config(folder), load_vocab(folder)
    if len(vocab) != config.vocab_size:
        raise SystemExit(
            f"{folder / 'vocab.json'} has {len(vocab)} characters, but {folder / 'metadata.json'} says vocab_size "
            f"{config.vocab_size}: take both from the same training run"
        )
    model = DiffusionText(config)
    with np.load(folder / "weights.npz") as arrays:
        model.load_state_dict({name: torch.from_numpy(arrays[name]) for name in arrays.files})
    return model.eval(), vocab


def with_heads(model: DiffusionText, heads: int) -> DiffusionText:
    """Return a model of the same weights that splits attention into another number of heads."""
    other = DiffusionText(replace(model.config, heads=heads))
    other.load_state_dict(model.state_dict())
    return other.eval()
