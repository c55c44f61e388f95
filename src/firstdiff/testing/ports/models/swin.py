"""Swin in torch the way of timm: channels last, a fused projection in each window, shifts by rolling."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import torch
from torch import nn

from firstdiff.testing.ports.port import Port, Wrong, fault, torch_port
from firstdiff.testing.zoo.architectures import Architecture

DIM, DEPTHS, HEADS, WINDOW, CLASSES = 16, (2, 2), (2, 4), 4, 5
HEIGHT, WIDTH, PATCH = 32, 24, 2


def reference() -> nn.Module:
    tf: Any = import_module("transformers")
    config = tf.SwinConfig(
        **{"image_size": (HEIGHT, WIDTH), "patch_size": PATCH, "embed_dim": DIM, "depths": list(DEPTHS)},
        **{"num_heads": list(HEADS), "window_size": WINDOW, "mlp_ratio": 2.0, "num_labels": CLASSES},
        **{"drop_path_rate": 0.0, "attn_implementation": "eager"},
    )
    made: nn.Module = tf.SwinForImageClassification(config)
    return made


def pictures(generator: torch.Generator, batch: int) -> dict[str, Any]:
    return {"pixel_values": torch.randn(batch, 3, HEIGHT, WIDTH, generator=generator)}


class WindowAttention(nn.Module):
    def __init__(self, dim: int, heads: int, wrong: Wrong, depth: int) -> None:
        super().__init__()
        self.heads = heads
        self.relative_position_bias_table = nn.Parameter(torch.zeros((2 * WINDOW - 1) ** 2, heads))
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        side = torch.arange(WINDOW)
        place = torch.stack(torch.meshgrid(side, side, indexing="ij")).flatten(1)
        apart = place[:, :, None] - place[:, None]
        if wrong("places counted backwards", depth):
            apart = -apart
        self.index = (apart[0] + WINDOW - 1) * (2 * WINDOW - 1) + apart[1] + WINDOW - 1
        self.wrong, self.depth = wrong, depth

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        windows, tokens, dim = x.shape
        q, k, v = self.qkv(x).reshape(windows, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        if self.wrong("values for keys", self.depth):
            k, v = v, k
        size = dim if self.wrong("scaled by the whole width", self.depth) else dim // self.heads
        attn = (q * size**-0.5) @ k.transpose(-2, -1)
        attn = attn + self.relative_position_bias_table[self.index].permute(2, 0, 1)
        if mask is not None:
            attn = attn.view(-1, len(mask), self.heads, tokens, tokens) + mask[:, None]
            attn = attn.view(windows, self.heads, tokens, tokens)
        attn = attn.softmax(-1)
        return self.proj((attn @ v).transpose(1, 2).reshape(windows, tokens, dim))


class QuickGELU(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.sigmoid(1.702 * x)


class Mlp(nn.Module):
    def __init__(self, dim: int, wrong: Wrong, depth: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(dim, 2 * dim)
        self.act = QuickGELU() if wrong("quick gelu", depth) else nn.GELU()
        self.fc2 = nn.Linear(2 * dim, dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc2(self.act(self.fc1(x)))


class SwinBlock(nn.Module):
    def __init__(self, dim: int, heads: int, shift: int, wrong: Wrong, depth: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(dim, eps=1e-2 if wrong("eps of the first norm", depth) else 1e-5)
        self.attn = WindowAttention(dim, heads, wrong, depth)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = Mlp(dim, wrong, depth)
        self.shift, self.wrong, self.depth = shift, wrong, depth

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm1(x)
        x = (y if self.wrong("residual from the norm", self.depth) else x) + self.windowed(y)
        y = self.norm1(x) if self.wrong("first norm used twice", self.depth) else self.norm2(x)
        return x + self.mlp(y)

    def windowed(self, x: torch.Tensor) -> torch.Tensor:
        B, H, W, C = x.shape  # noqa: N806
        bottom, right = -H % WINDOW, -W % WINDOW
        first = self.wrong("padded at the left", self.depth)
        x = nn.functional.pad(x, (0, 0, right, 0, bottom, 0) if first else (0, 0, 0, right, 0, bottom))
        shift, wrong = self.shift, self.wrong
        mask = None
        if shift:
            x = x.roll((shift, shift) if wrong("shifted the other way", self.depth) else (-shift, -shift), (1, 2))
            mask = apart(H + bottom, W + right, shift)
            if wrong("shifted windows not masked", self.depth):
                mask = torch.zeros_like(mask)
        rows, columns = x.shape[1] // WINDOW, x.shape[2] // WINDOW
        windows = x.view(B, rows, WINDOW, columns, WINDOW, C).transpose(2, 3).reshape(-1, WINDOW * WINDOW, C)
        y = self.attn(windows, mask)
        if wrong("windows put back column by column", self.depth):
            y = y.view(B, columns, rows, WINDOW, WINDOW, C).permute(0, 2, 3, 1, 4, 5)
        else:
            y = y.view(B, rows, columns, WINDOW, WINDOW, C).transpose(2, 3)
        y = y.reshape(x.shape)
        if shift and not wrong("shift not undone", self.depth):
            y = y.roll((shift, shift), (1, 2))
        return y[:, -H:, -W:] if first else y[:, :H, :W]


def apart(height: int, width: int, shift: int) -> torch.Tensor:
    """Large negative numbers where two places of a shifted window are not neighbours in the picture."""
    rows, columns = (torch.zeros(size) for size in (height, width))
    for line in (rows, columns):
        line[-WINDOW:] = 1
        line[-shift:] = 2
    region = (rows[:, None] * 3 + columns).view(height // WINDOW, WINDOW, width // WINDOW, WINDOW)
    region = region.transpose(1, 2).reshape(-1, WINDOW * WINDOW)
    return (region[:, None] != region[:, :, None]) * -100.0


class PatchMerging(nn.Module):
    def __init__(self, dim: int, wrong: Wrong) -> None:
        super().__init__()
        self.norm, self.reduction = nn.LayerNorm(4 * dim), nn.Linear(4 * dim, 2 * dim, bias=False)
        self.wrong = wrong

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        B, H, W, C = x.shape  # noqa: N806
        x = x.reshape(B, H // 2, 2, W // 2, 2, C)
        x = x.permute(0, 1, 3, 2, 4, 5) if self.wrong("neighbours row by row") else x.permute(0, 1, 3, 4, 2, 5)
        x = x.flatten(3)
        return self.reduction(x if self.wrong("no norm before merging") else self.norm(x))


class SwinTransformer(nn.Module):
    def __init__(self, wrong: Wrong) -> None:
        super().__init__()
        self.patch_embed = nn.Conv2d(3, DIM, PATCH, PATCH)
        self.patch_norm = nn.LayerNorm(DIM)
        self.layers = nn.ModuleList()
        for i, blocks in enumerate(DEPTHS):
            dim = DIM * 2**i
            stage = nn.Sequential()
            if i:
                stage.add_module("downsample", PatchMerging(dim // 2, wrong))
            made = (SwinBlock(dim, HEADS[i], j % 2 * (WINDOW // 2), wrong, 2 * i + j) for j in range(blocks))
            stage.add_module("blocks", nn.Sequential(*made))
            self.layers.append(stage)
        self.norm, self.head = nn.LayerNorm(DIM * 2), nn.Linear(DIM * 2, CLASSES)
        self.wrong = wrong

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.patch_norm(self.patch_embed(x).permute(0, 2, 3, 1))
        for stage in self.layers:
            x = stage(x)
        if self.wrong("mean before the norm"):
            return self.head(self.norm(x.mean((1, 2))))
        x = self.norm(x)
        return self.head(x.amax((1, 2)) if self.wrong("largest instead of mean") else x.mean((1, 2)))


def swin(weights: Mapping[str, torch.Tensor], wrong: Wrong) -> nn.Module:
    names = {
        **{"patch_embed": "swin.embeddings.patch_embeddings.projection", "patch_norm": "swin.embeddings.norm"},
        **{"norm": "swin.layernorm", "head": "classifier"},
    }
    for i, blocks in enumerate(DEPTHS):
        for part in ("norm", "reduction"):
            names[f"layers.{i + 1}.downsample.{part}"] = f"swin.encoder.layers.{i}.downsample.{part}"
        for j in range(blocks):
            mine, theirs = f"layers.{i}.blocks.{j}", f"swin.encoder.layers.{i}.blocks.{j}"
            names |= {f"{mine}.norm1": f"{theirs}.layernorm_before", f"{mine}.norm2": f"{theirs}.layernorm_after"}
            names |= {
                f"{mine}.attn.proj": f"{theirs}.attention.output.dense",
                f"{mine}.attn": f"{theirs}.attention.self",
            }
            names |= {f"{mine}.mlp.fc1": f"{theirs}.intermediate.dense", f"{mine}.mlp.fc2": f"{theirs}.output.dense"}
    model = SwinTransformer(wrong)
    loaded = {}
    for name, empty in model.state_dict().items():
        module, _, part = name.rpartition(".")
        if module.endswith(".qkv"):
            theirs = names[module.removesuffix(".qkv")]
            loaded[name] = torch.cat([weights[f"{theirs}.{one}.{part}"] for one in ("query", "key", "value")])
        else:
            loaded[name] = weights[f"{names[module]}.{part}"]
        if wrong("bias of the feed-forward not loaded") and name == "layers.1.blocks.0.mlp.fc2.bias":
            loaded[name] = torch.zeros_like(empty)
    model.load_state_dict(loaded)
    return model


def _block(depth: int) -> str:
    return f"swin.encoder.layers.{depth // 2}.blocks.{depth % 2}"


PORT = Port(
    name="swin",
    half="open",
    style="torch, captured, the way of timm, channels last, a fused projection",
    build=lambda: Architecture("swin", reference, pictures).build(54),
    result=lambda output: output.logits,
    run=torch_port(swin),
    faults=(
        fault(
            "values for keys",
            f"{_block(0)}.attention.self.matmul:in.other {_block(0)}.attention.self.matmul",
            "layout.qkv_order layout.chunk_swap",
            layer=0,
        ),
        fault("scaled by the whole width", f"{_block(2)}.attention.self.div", "attention.scale", layer=2),
        fault(
            "places counted backwards",
            f"{_block(1)}.attention.self.add:in.other {_block(1)}.attention.self.add",
            "",
            layer=1,
        ),
        fault("quick gelu", f"{_block(3)}.intermediate", "activation.kind", layer=3),
        fault("eps of the first norm", f"{_block(2)}.layernorm_before", "norm.eps", layer=2),
        fault("residual from the norm", f"{_block(1)}.add", "residual.missing values.stale", layer=1),
        fault("first norm used twice", f"{_block(3)}.layernorm_after", "weights.differ norm.affine", layer=3),
        fault("padded at the left", f"{_block(2)}.pad", "layout.pad shift.sequence conv.padding", layer=2),
        fault("shifted the other way", f"{_block(1)}.pad:in.input", "shift.sequence", layer=1),
        fault(
            "shifted windows not masked",
            f"{_block(3)}.masked_fill {_block(3)}.attention.self.add@1",
            "attention.mask",
            layer=3,
        ),
        fault(
            "windows put back column by column",
            f"{_block(0)}.drop_path:in.0 {_block(0)}.add",
            "layout.reshape layout.transpose layout.permuted",
            layer=0,
        ),
        fault(
            "shift not undone",
            f"{_block(1)}.roll@1:in.input {_block(1)}.add",
            "shift.sequence layout.permuted",
            layer=1,
        ),
        fault(
            "neighbours row by row",
            "swin.encoder.layers.0.downsample.norm:in.0 swin.encoder.layers.0.downsample.norm",
            "layout.chunk_swap layout.permuted layout.transpose",
        ),
        fault(
            "no norm before merging",
            "swin.encoder.layers.0.downsample.norm swin.encoder.layers.0.downsample.reduction",
            "op.skipped",
        ),
        fault("mean before the norm", "swin.layernorm:in.0 swin.layernorm swin.pooler", ""),
        fault("largest instead of mean", "swin.pooler", "pool.kind"),
        fault("bias of the feed-forward not loaded", f"{_block(2)}.output.dense", "bias.missing weights.missing"),
    ),
)
