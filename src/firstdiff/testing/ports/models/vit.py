"""ViT in torch the way of timm, channels last: patches cut by reshaping, a fused q, k and v, norms as functions."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn
from torch.nn import functional

from firstdiff.testing.ports.port import Port, Wrong, fault, torch_port
from firstdiff.testing.zoo.architectures import ARCHITECTURES

WIDTH, HEADS, DEPTH, PATCH, SIDE = 32, 4, 3, 4, 4


class PatchEmbed(nn.Module):
    """Patches as rows of pixels, then one linear layer."""

    def __init__(self, wrong: Wrong) -> None:
        super().__init__()
        self.proj = nn.Linear(PATCH * PATCH * 3, WIDTH)
        self.wrong = wrong

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        image = image.permute(0, 2, 3, 1)
        if self.wrong("channels blue first"):
            image = image.flip(-1)
        rows = image.reshape(-1, SIDE, PATCH, SIDE, PATCH, 3)
        if self.wrong("patches column by column"):
            patches = rows.permute(0, 3, 1, 2, 4, 5)
        else:
            patches = rows.permute(0, 1, 3, 2, 4, 5)
        if self.wrong("pixels of a patch channels first"):
            patches = patches.permute(0, 1, 2, 5, 3, 4)
        return self.proj(patches.reshape(-1, SIDE * SIDE, PATCH * PATCH * 3))


class Attention(nn.Module):
    def __init__(self, wrong: Wrong, depth: int) -> None:
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.proj = nn.Linear(WIDTH, WIDTH)
        self.wrong, self.depth = wrong, depth

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = x.shape
        qkv = self.qkv(x).reshape(batch, tokens, 3, HEADS, width // HEADS)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        scale = width**-0.5 if self.wrong("scaled by the width", self.depth) else (width // HEADS) ** -0.5
        attn = (q * scale) @ k.transpose(-2, -1)
        attn = attn.softmax(dim=-2 if self.wrong("softmax over queries", self.depth) else -1)
        mixed = attn @ v
        if self.wrong("heads merged behind channels", self.depth):
            return self.proj(mixed.permute(0, 2, 3, 1).reshape(batch, tokens, width))
        return self.proj(mixed.transpose(1, 2).reshape(batch, tokens, width))


class Mlp(nn.Module):
    def __init__(self, wrong: Wrong) -> None:
        super().__init__()
        self.fc1 = nn.Linear(WIDTH, 2 * WIDTH)
        self.fc2 = nn.Linear(2 * WIDTH, WIDTH)
        self.wrong = wrong

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.fc1(x)
        x = x * torch.sigmoid(1.702 * x) if self.wrong("quick gelu") else functional.gelu(x)
        return self.fc2(x)


class Block(nn.Module):
    def __init__(self, wrong: Wrong, depth: int) -> None:
        super().__init__()
        eps = 1e-3 if wrong("norm eps", depth) else 1e-12
        self.norm1 = nn.LayerNorm(WIDTH, eps=eps)
        self.attn = Attention(wrong, depth)
        self.norm2 = nn.LayerNorm(WIDTH, eps=1e-12)
        self.mlp = Mlp(wrong)
        self.wrong, self.depth = wrong, depth

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attn(self.norm1(x))
        if self.wrong("second residual from the norm", self.depth):
            normed = self.norm2(x)
            return normed + self.mlp(normed)
        return x + self.mlp(self.norm2(x))


class VisionTransformer(nn.Module):
    def __init__(self, wrong: Wrong) -> None:
        super().__init__()
        self.patch_embed = PatchEmbed(wrong)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, WIDTH))
        self.pos_embed = nn.Parameter(torch.zeros(1, 1 + SIDE * SIDE, WIDTH))
        self.blocks = nn.Sequential(*(Block(wrong, depth) for depth in range(DEPTH)))
        self.norm = nn.LayerNorm(WIDTH, eps=1e-12)
        self.fc_norm = nn.Linear(WIDTH, WIDTH)
        self.wrong = wrong

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = self.patch_embed(image)
        cls = self.cls_token.expand(len(x), -1, -1)
        if self.wrong("class token without position"):
            x = torch.cat([cls, x + self.pos_embed[:, 1:]], dim=1)
        elif self.wrong("class token last"):
            x = torch.cat([x, cls], dim=1) + self.pos_embed
        else:
            x = torch.cat([cls, x], dim=1) + self.pos_embed
        x = self.blocks(x)
        if not self.wrong("final norm missing"):
            x = self.norm(x)
        pooled = torch.tanh(self.fc_norm(x.mean(1) if self.wrong("mean instead of class token") else x[:, 0]))
        return torch.cat([x.flatten(), pooled.flatten()])


def vision_transformer(weights: Mapping[str, torch.Tensor], wrong: Wrong) -> nn.Module:
    model = VisionTransformer(wrong)
    kernel = weights["embeddings.patch_embeddings.projection.weight"]
    loaded = {
        "cls_token": weights["embeddings.cls_token"],
        "pos_embed": weights["embeddings.position_embeddings"],
        "patch_embed.proj.weight": kernel.permute(0, 2, 3, 1).reshape(WIDTH, -1),
        "patch_embed.proj.bias": weights["embeddings.patch_embeddings.projection.bias"],
    }
    for part in ("weight", "bias"):
        loaded[f"norm.{part}"] = weights[f"layernorm.{part}"]
        loaded[f"fc_norm.{part}"] = weights[f"pooler.dense.{part}"]
        for depth in range(DEPTH):
            theirs, ours = f"encoder.layer.{depth}", f"blocks.{depth}"
            order = ("query", "value", "key") if wrong("chunks in order q, v, k", depth) else ("query", "key", "value")
            qkv = [weights[f"{theirs}.attention.attention.{name}.{part}"] for name in order]
            loaded[f"{ours}.attn.qkv.{part}"] = torch.cat(qkv)
            loaded[f"{ours}.attn.proj.{part}"] = weights[f"{theirs}.attention.output.dense.{part}"]
            loaded[f"{ours}.norm1.{part}"] = weights[f"{theirs}.layernorm_before.{part}"]
            loaded[f"{ours}.norm2.{part}"] = weights[f"{theirs}.layernorm_after.{part}"]
            loaded[f"{ours}.mlp.fc1.{part}"] = weights[f"{theirs}.intermediate.dense.{part}"]
            loaded[f"{ours}.mlp.fc2.{part}"] = weights[f"{theirs}.output.dense.{part}"]
    model.load_state_dict(loaded)
    return model


_LAYER = "encoder.layer.{n}"
_ATTENTION = "encoder.layer.{n}.attention.attention"
_PATCHES = "embeddings.patch_embeddings.projection:in.0 embeddings.patch_embeddings"
PORT = Port(
    name="vit",
    half="open",
    style="torch, captured, the way of timm, patches by reshape",
    build=lambda: ARCHITECTURES["vit"].build(14),
    result=lambda output: torch.cat([output.last_hidden_state.flatten(), output.pooler_output.flatten()]),
    run=torch_port(vision_transformer),
    faults=(
        fault(
            "channels blue first",
            _PATCHES,
            "layout.reversed layout.permuted layout.chunk_swap weights.differ",
        ),
        fault(
            "patches column by column",
            _PATCHES,
            "layout.transpose layout.reshape layout.permuted",
        ),
        fault(
            "pixels of a patch channels first",
            _PATCHES,
            "layout.transpose layout.reshape layout.permuted weights.differ",
        ),
        fault("scaled by the width", f"{_ATTENTION}.mul", "attention.scale scale.constant", layer=1),
        fault("softmax over queries", f"{_ATTENTION}.softmax", "softmax.axis", layer=0),
        fault(
            "heads merged behind channels",
            f"{_ATTENTION} {_LAYER}.attention.output.dense:in.0 {_LAYER}.attention.output.dense",
            "layout.head_order layout.transpose layout.reshape",
            layer=2,
        ),
        fault("quick gelu", "encoder.layer.0.intermediate", "activation.kind"),
        fault("norm eps", f"{_LAYER}.layernorm_before", "norm.eps", layer=2),
        fault("second residual from the norm", f"{_LAYER}", "residual.missing", layer=1),
        fault("class token without position", "embeddings.cat embeddings.add embeddings", "position.offset"),
        fault("class token last", "embeddings.cat embeddings", "shift.sequence layout.permuted"),
        fault("final norm missing", "layernorm pooler:in.0 root:out.last_hidden_state", "op.skipped"),
        fault("mean instead of class token", "pooler.dense:in.0 pooler", "pool.kind"),
        fault(
            "chunks in order q, v, k", f"{_ATTENTION}.key", "layout.qkv_order layout.chunk_swap weights.differ", layer=1
        ),
    ),
)
