"""Record the two traces of `firstdiff demo`: a small GPT in torch, and the same with a wrong eps in one LayerNorm.

python scripts/record-demo.py    # writes src/firstdiff/demo/gpt/reference.zip and candidate.zip
"""

from __future__ import annotations

import json
import tempfile
import zipfile
from pathlib import Path
from unittest.mock import patch

import torch
from torch import nn

import firstdiff as fd

LAYERS, HEADS, WIDTH, TOKENS, VOCABULARY = 4, 2, 32, 12, 65
FAULTY_LAYER, FAULTY_EPS = 2, 1e-3
STEPS = 300
TARGET = Path(__file__).parent.parent / "src" / "firstdiff" / "demo" / "gpt"
TEXT = "the first tensor that differs is where the two runs part, and the rest of the run carries its error along. "


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        size = WIDTH // HEADS
        query, key, value = (
            part.reshape(*x.shape[:2], HEADS, size).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1)
        )
        scores = query @ key.transpose(-1, -2) / size**0.5
        hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        weights = torch.softmax(scores.masked_fill(hidden, float("-inf")), dim=-1)
        return self.out((weights @ value).transpose(1, 2).reshape(x.shape))


class MLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.act = nn.GELU(approximate="tanh")
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(self.act(self.up(x)))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(WIDTH), Attention()
        self.ln_2, self.mlp = nn.LayerNorm(WIDTH), MLP()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.wte = nn.Embedding(VOCABULARY, WIDTH)
        self.wpe = nn.Embedding(TOKENS, WIDTH)
        self.layers = nn.ModuleList(Block() for _ in range(LAYERS))
        self.ln_f = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1]))
        for layer in self.layers:
            x = layer(x)
        return self.head(self.ln_f(x))


def trained(ids: torch.Tensor) -> GPT:
    """A model that has learnt its one sentence, so that its tensors look like those of a model at work."""
    model = GPT()
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(STEPS):
        starts = torch.randint(0, ids.numel() - TOKENS - 1, (16,))
        batch = torch.stack([ids[start : start + TOKENS + 1] for start in starts])
        loss = nn.functional.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return model.eval()


def other_kernel(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """The same product with other last bits, as between any two kernels."""
    product = (x.double() @ weight.double().T).float()
    return product if bias is None else product + bias


def record(model: GPT, ids: torch.Tensor, archive: Path) -> None:
    """Capture one run and pack it, stored rather than deflated: it is opened where it lies."""
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace"
        with torch.no_grad(), fd.capture(model, trace):
            model(ids)
        about = json.loads((trace / "trace.json").read_text(encoding="utf-8"))
        kept = {name: about[name] for name in ("format", "version", "inputs", "complete", "tensors") if name in about}
        kept["producer"] = {"name": "scripts/record-demo.py"}
        (trace / "trace.json").write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_STORED) as packed:
            for file in sorted(trace.iterdir()):
                packed.writestr(zipfile.ZipInfo(file.name), file.read_bytes())
    print(f"{archive}: {archive.stat().st_size:,} bytes")


def main() -> None:
    torch.manual_seed(0)
    letters = sorted(set(TEXT))
    ids = torch.tensor([letters.index(letter) for letter in TEXT * 4])
    model = trained(ids)
    TARGET.mkdir(exist_ok=True)
    record(model, ids[None, :TOKENS], TARGET / "reference.zip")
    model.layers[FAULTY_LAYER].ln_1.eps = FAULTY_EPS
    with patch.object(nn.functional, "linear", other_kernel):
        record(model, ids[None, :TOKENS], TARGET / "candidate.zip")


if __name__ == "__main__":
    main()
