"""A diffusion transformer in torch: modulations kept apart, patches by reshape, rows of tokens without a batch axis."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import nn
from torch.nn import functional

from firstdiff.testing.ports.port import Port, Wrong, fault, torch_port
from firstdiff.testing.zoo.architectures import ARCHITECTURES

DIM, HEADS, BLOCKS, GRID, PATCH = 32, 4, 3, 4, 4
MODULATIONS = ("shift_msa", "scale_msa", "gate_msa", "shift_mlp", "scale_mlp", "gate_mlp")


def modulated(x: torch.Tensor, eps: float, shift: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    centred = x - x.mean(-1, keepdim=True)
    return centred * torch.rsqrt(centred.pow(2).mean(-1, keepdim=True) + eps) * scale + shift


class TimeEmbedder(nn.Module):
    def __init__(self, wrong: Wrong) -> None:
        super().__init__()
        self.linear_1 = nn.Linear(DIM, DIM)
        self.linear_2 = nn.Linear(DIM, DIM)
        self.wrong = wrong

    def forward(self, timestep: torch.Tensor) -> torch.Tensor:
        half = DIM // 2
        last = half - 1 if self.wrong("frequencies to the last one") else half
        exponent = -math.log(10_000) * torch.arange(half, dtype=torch.float32) / last
        if self.wrong("time between 0 and 1"):
            timestep = timestep / 1000
        angles = torch.outer(timestep, exponent.exp())
        waves = [angles.sin(), angles.cos()] if self.wrong("sines first") else [angles.cos(), angles.sin()]
        hidden = self.linear_1(torch.cat(waves, dim=1))
        return self.linear_2(hidden if self.wrong("activation missing") else functional.silu(hidden))


class JointAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.to_q, self.to_k, self.to_v = (nn.Linear(DIM, DIM) for _ in range(3))
        self.to_out = nn.Linear(DIM, DIM)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (part(x).unflatten(-1, (HEADS, -1)).movedim(-2, 0) for part in (self.to_q, self.to_k, self.to_v))
        weights = torch.softmax(torch.einsum("hbid,hbjd->hbij", q, k) / math.sqrt(DIM // HEADS), dim=-1)
        return self.to_out(torch.einsum("hbij,hbjd->bihd", weights, v).flatten(2))


class GatedFeedForward(nn.Module):
    def __init__(self, wrong: Wrong, number: int) -> None:
        super().__init__()
        self.gate = nn.Linear(DIM, 2 * DIM)
        self.up = nn.Linear(DIM, 2 * DIM)
        self.down = nn.Linear(2 * DIM, DIM)
        self.wrong, self.number = wrong, number

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, up = self.gate(x), self.up(x)
        if self.wrong("gate is the other half", self.number):
            gate, up = up, gate
        kind = "none" if self.wrong("erf gelu", self.number) else "tanh"
        return self.down(functional.gelu(gate, approximate=kind) * up)


class TransformerBlock(nn.Module):
    def __init__(self, wrong: Wrong, number: int) -> None:
        super().__init__()
        self.adaln = nn.ModuleDict({name: nn.Linear(DIM, DIM) for name in MODULATIONS})
        self.attention = JointAttention()
        self.feed_forward = GatedFeedForward(wrong, number)
        self.wrong, self.number = wrong, number

    def forward(self, x: torch.Tensor, condition: torch.Tensor) -> torch.Tensor:
        wrong, number = self.wrong, self.number
        activated = condition if wrong("condition without activation", number) else functional.silu(condition)
        mod = {name: self.adaln[name](activated).unsqueeze(1) for name in MODULATIONS}
        if wrong("shift and scale swapped", number):
            mod["shift_msa"], mod["scale_msa"] = mod["scale_msa"], mod["shift_msa"]
        one = 0 if wrong("scale without one plus", number) else 1
        eps = 1e-2 if wrong("norm eps", number) else 1e-6
        attended = self.attention(modulated(x, eps, mod["shift_msa"], one + mod["scale_msa"]))
        x = x + (attended if wrong("attention not gated", number) else mod["gate_msa"] * attended)
        shift, scale, gate = mod["shift_mlp"], mod["scale_mlp"], mod["gate_mlp"]
        if wrong("second gate is the first", number):
            gate = mod["gate_msa"]
        return x + gate * self.feed_forward(modulated(x, 1e-6, shift, 1 + scale))


class Denoiser(nn.Module):
    def __init__(self, wrong: Wrong) -> None:
        super().__init__()
        self.x_embedder = nn.Linear(3 * PATCH * PATCH, DIM)
        self.position = nn.Parameter(torch.zeros(1, GRID * GRID, DIM))
        self.t_embedder = TimeEmbedder(wrong)
        self.transformer_blocks = nn.ModuleList(TransformerBlock(wrong, number) for number in range(BLOCKS))
        self.norm_out = nn.LayerNorm(DIM)
        self.proj_out = nn.Linear(DIM, 3 * PATCH * PATCH)
        self.wrong = wrong

    def forward(self, latent: torch.Tensor, timestep: torch.Tensor) -> torch.Tensor:
        patches = latent.reshape(-1, 3, GRID, PATCH, GRID, PATCH).permute(0, 2, 4, 1, 3, 5).reshape(-1, GRID * GRID, 48)
        position = self.position.roll(1, dims=1) if self.wrong("positions one off") else self.position
        x = self.x_embedder(patches) + position
        condition = self.t_embedder(timestep)
        for block in self.transformer_blocks:
            x = block(x, condition)
        patches = self.proj_out(self.norm_out(x)).reshape(-1, GRID, GRID, 3, PATCH, PATCH)
        if self.wrong("patches put back column by column"):
            patches = patches.transpose(1, 2)
        return patches.permute(0, 3, 1, 4, 2, 5).reshape(-1, 3, GRID * PATCH, GRID * PATCH)


def denoiser(weights: Mapping[str, torch.Tensor], wrong: Wrong) -> nn.Module:
    model = Denoiser(wrong)
    loaded = {"position": weights["position"], "x_embedder.weight": weights["patches.weight"].flatten(1)}
    loaded["x_embedder.bias"] = weights["patches.bias"]
    for part in ("weight", "bias"):
        for ours, theirs in (("norm_out", "norm"), ("proj_out", "head"), ("t_embedder.linear_1", "time.one")):
            loaded[f"{ours}.{part}"] = weights[f"{theirs}.{part}"]
        loaded[f"t_embedder.linear_2.{part}"] = weights[f"time.two.{part}"]
        for number in range(BLOCKS):
            source = 0 if wrong("weights of the first block", number) else number
            ours, theirs = f"transformer_blocks.{number}", f"blocks.{source}"
            for name, values in zip(MODULATIONS, weights[f"{theirs}.modulation.1.{part}"].chunk(6), strict=True):
                loaded[f"{ours}.adaln.{name}.{part}"] = values
            for name, values in zip("qkv", weights[f"{theirs}.attn.qkv.{part}"].chunk(3), strict=True):
                loaded[f"{ours}.attention.to_{name}.{part}"] = values
            loaded[f"{ours}.attention.to_out.{part}"] = weights[f"{theirs}.attn.out.{part}"]
            gate, up = weights[f"{theirs}.mlp.fused.{part}"].chunk(2)
            loaded[f"{ours}.feed_forward.gate.{part}"], loaded[f"{ours}.feed_forward.up.{part}"] = gate, up
            loaded[f"{ours}.feed_forward.down.{part}"] = weights[f"{theirs}.mlp.out.{part}"]
    model.load_state_dict(loaded)
    return model


_BLOCK = "blocks.{n}"
PORT = Port(
    name="dit",
    half="open",
    style="torch, captured, split weights, norms written out, patches by reshape",
    build=lambda: ARCHITECTURES["diffusion"].build(18),
    result=lambda output: output,
    run=torch_port(denoiser),
    faults=(
        fault("frequencies to the last one", "time.div time.exp", "rope.base"),
        fault("time between 0 and 1", "time.mul@1", "scale.constant"),
        fault("sines first", "time.cat time.one", "layout.chunk_swap"),
        fault("activation missing", "time.act time", "activation.missing op.skipped"),
        fault("gate is the other half", f"{_BLOCK}.mlp.act:in.0 {_BLOCK}.mlp.act", "layout.chunk_swap", layer=1),
        fault("erf gelu", f"{_BLOCK}.mlp.act", "activation.kind", layer=2),
        fault("condition without activation", f"{_BLOCK}.modulation.0 {_BLOCK}.chunk", "activation.missing", layer=1),
        fault("shift and scale swapped", f"{_BLOCK}.chunk {_BLOCK}.add {_BLOCK}.mul", "layout.chunk_swap", layer=2),
        fault("scale without one plus", f"{_BLOCK}.add {_BLOCK}.mul", "affine.one_plus", layer=0),
        fault("norm eps", f"{_BLOCK}.norm_1", "norm.eps", layer=1),
        fault("attention not gated", f"{_BLOCK}.mul@1 {_BLOCK}.add@2", "op.skipped scale.channel", layer=1),
        fault("second gate is the first", f"{_BLOCK}.mul@3", "layout.chunk_swap", layer=0),
        fault("positions one off", "root.add", "position.offset shift.sequence"),
        fault("patches put back column by column", "root", "layout.transpose layout.reshape"),
        fault("weights of the first block", f"{_BLOCK}.modulation.1 {_BLOCK}.chunk", "weights.differ", layer=2),
    ),
)
