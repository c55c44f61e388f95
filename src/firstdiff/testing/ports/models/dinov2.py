"""DINOv2 in torch with tokens of all pictures packed, one matrix for q, k and v, layer scale folded into weights."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from firstdiff.testing.ports.port import Port, Wrong, fault, torch_port
from firstdiff.testing.zoo.architectures import Architecture

DIM, HEADS, DEPTH, PATCH, GRID, LABELS = 32, 4, 3, 4, 3, 6


def reference() -> nn.Module:
    tf: Any = import_module("transformers")
    config = tf.Dinov2Config(
        **{"image_size": GRID * PATCH, "patch_size": PATCH, "hidden_size": DIM, "num_hidden_layers": DEPTH},
        **{"num_attention_heads": HEADS, "mlp_ratio": 2, "use_swiglu_ffn": True, "num_labels": LABELS},
        **{"attn_implementation": "eager"},
    )
    made: nn.Module = tf.Dinov2ForImageClassification(config)
    return made


def pictures(generator: torch.Generator, batch: int) -> dict[str, Any]:
    """Pictures larger than those the positions were learned for, and not square."""
    return {"pixel_values": torch.randn(batch, 3, 4 * PATCH, 5 * PATCH, generator=generator)}


def varlen_attention(qkv: Tensor, cu_seqlens: list[int], scale: float) -> Tensor:
    """Attention over packed sequences, [tokens, 3, heads, size] -> [tokens, heads * size]."""
    outs = []
    for start, end in pairwise(cu_seqlens):
        q, k, v = qkv[start:end].permute(1, 2, 0, 3)
        outs.append(F.scaled_dot_product_attention(q, k, v, scale=scale).transpose(0, 1).flatten(1))
    return torch.cat(outs)


class Layer(nn.Module):
    """One block: nothing but its tensors, all computed by functions."""

    def __init__(self, tensors: Mapping[str, Tensor], wrong: Wrong, i: int) -> None:
        super().__init__()
        for name, tensor in tensors.items():
            self.register_buffer(name, tensor.clone())
        self.wrong, self.i = wrong, i

    def forward(self, x: Tensor, cu_seqlens: list[int]) -> Tensor:
        p: Any = self
        h = F.layer_norm(x, (DIM,), p.ln1_w, p.ln1_b, 1e-6)
        skip = h if self.wrong("skip from the norm", self.i) else x
        qkv = F.linear(h, p.wqkv, p.bqkv)
        if self.wrong("heads before q, k and v", self.i):
            qkv = qkv.view(len(x), HEADS, 3, -1).transpose(1, 2)
        else:
            qkv = qkv.view(len(x), 3, HEADS, -1)
        size = DIM if self.wrong("scale of the whole width", self.i) else DIM // HEADS
        h = varlen_attention(qkv, cu_seqlens, size**-0.5)
        x = skip + F.linear(h, p.wo, p.bo)
        eps = 1e-3 if self.wrong("eps of the second norm", self.i) else 1e-6
        h = F.linear(F.layer_norm(x, (DIM,), p.ln2_w, p.ln2_b, eps), p.w12, p.b12)
        gate, up = h.tensor_split(2, -1)
        if self.wrong("gate and up exchanged", self.i):
            gate, up = up, gate
        act = F.gelu if self.wrong("gelu for silu", self.i) else F.silu
        return x + F.linear(act(gate) * up, p.w3, p.b3)


class Dino(nn.Module):
    def __init__(self, weights: Mapping[str, Tensor], wrong: Wrong) -> None:
        super().__init__()
        embed = "dinov2.embeddings."
        kernel = weights[f"{embed}patch_embeddings.projection.weight"]
        if not wrong("kernel with channels first"):
            kernel = kernel.permute(0, 2, 3, 1)
        self.register_buffer("patch_w", kernel.flatten(1).clone())
        self.register_buffer("patch_b", weights[f"{embed}patch_embeddings.projection.bias"])
        self.register_buffer("cls", weights[f"{embed}cls_token"].flatten())
        self.register_buffer("pos", weights[f"{embed}position_embeddings"][0])
        self.layers = nn.ModuleList(Layer(layer_tensors(weights, wrong, i), wrong, i) for i in range(DEPTH))
        self.register_buffer("ln_w", weights["dinov2.layernorm.weight"])
        self.register_buffer("ln_b", weights["dinov2.layernorm.bias"])
        self.head = nn.Linear(2 * DIM, LABELS)
        self.head.load_state_dict({"weight": weights["classifier.weight"], "bias": weights["classifier.bias"]})
        self.wrong = wrong

    def positions(self, rows: int, columns: int) -> Tensor:
        p: Any = self
        grid = p.pos[1:].view(GRID, GRID, DIM).movedim(-1, 0)[None]
        mode = "bilinear" if self.wrong("bilinear positions") else "bicubic"
        grid = F.interpolate(grid, (rows, columns), mode=mode, align_corners=False)
        return grid[0].flatten(1).T

    def forward(self, pixels: Tensor) -> Tensor:
        p: Any = self
        wrong = self.wrong
        n, _, height, width = pixels.shape
        rows, columns = height // PATCH, width // PATCH
        cells = pixels.movedim(1, -1).reshape(n, rows, PATCH, columns, PATCH, 3)
        order = (0, 3, 1, 2, 4, 5) if wrong("patches column by column") else (0, 1, 3, 2, 4, 5)
        patches = F.linear(cells.permute(order).reshape(n, rows * columns, -1), p.patch_w, p.patch_b)
        patches = patches + self.positions(rows, columns)
        first = p.cls if wrong("class token without its position") else p.cls + p.pos[0]
        x = torch.cat([first.expand(n, 1, DIM), patches], 1).flatten(0, 1)
        tokens = rows * columns + 1
        cu_seqlens = [i * tokens for i in range(n + 1)]
        if wrong("sequences cut one late"):
            cu_seqlens = [0, *(cut + 1 for cut in cu_seqlens[1:-1]), cu_seqlens[-1]]
        for layer in self.layers:
            x = layer(x, cu_seqlens)
        if not wrong("last norm forgotten"):
            x = F.layer_norm(x, (DIM,), p.ln_w, p.ln_b, 1e-6)
        x = x.view(n, tokens, DIM)
        cls, mean = x[:, 0], x[:, (0 if wrong("mean with the class token") else 1) :].mean(1)
        return self.head(torch.cat([mean, cls] if wrong("mean before the class token") else [cls, mean], -1))


def layer_tensors(weights: Mapping[str, Tensor], wrong: Wrong, i: int) -> dict[str, Tensor]:
    base = f"dinov2.encoder.layer.{i}."
    made: dict[str, Tensor] = {}
    for mine, theirs in {"ln1": "norm1", "ln2": "norm2"}.items():
        made |= {f"{mine}_w": weights[f"{base}{theirs}.weight"], f"{mine}_b": weights[f"{base}{theirs}.bias"]}
    attention = [f"{base}attention.attention.{one}" for one in ("query", "key", "value")]
    made["wqkv"] = torch.cat([weights[f"{one}.weight"] for one in attention])
    made["bqkv"] = torch.cat([weights[f"{one}.bias"] for one in attention])
    if wrong("bias of the query lost", i):
        made["bqkv"][:DIM] = 0
    mlp = f"dinov2.encoder.layer.{i - 1}.mlp" if wrong("mlp of the layer before", i) else f"{base}mlp"
    made["w12"], made["b12"] = weights[f"{mlp}.weights_in.weight"], weights[f"{mlp}.weights_in.bias"]
    gamma1, gamma2 = (weights[f"{base}layer_scale{one}.lambda1"] for one in (1, 2))
    if wrong("layer scale not folded", i):
        gamma1 = torch.ones(DIM)
    made["wo"] = weights[f"{base}attention.output.dense.weight"] * gamma1[:, None]
    made["bo"] = weights[f"{base}attention.output.dense.bias"] * gamma1
    made["w3"] = weights[f"{mlp}.weights_out.weight"] * gamma2[:, None]
    made["b3"] = weights[f"{mlp}.weights_out.bias"] * (1 if wrong("bias without layer scale", i) else gamma2)
    return made


_E = "dinov2.embeddings"
_L = "dinov2.encoder.layer.{n}"
_SELF = f"{_L}.attention.attention"
PORT = Port(
    name="dinov2",
    half="open",
    style="torch, captured, tokens of all pictures packed, layer scale folded into weights",
    build=lambda: Architecture("dinov2", reference, pictures).build(61),
    result=lambda output: output.logits,
    run=torch_port(Dino),
    faults=(
        fault("kernel with channels first", f"{_E}.patch_embeddings.projection", "weights.differ"),
        fault(
            "patches column by column",
            f"{_E}.patch_embeddings.projection:in.0 {_E}.patch_embeddings.projection",
            "layout.transpose layout.reshape layout.permuted layout.head_order",
        ),
        fault("bilinear positions", f"{_E}.interpolate", "resize.mode"),
        fault("class token without its position", f"{_E}.add {_E}"),
        fault("sequences cut one late", "dinov2.encoder.layer.0.attention.attention", "attention.mask"),
        fault("scale of the whole width", _SELF, "attention.scale", layer=0),
        fault("bias of the query lost", f"{_SELF}.query", "bias.missing offset.channel", layer=0),
        fault("skip from the norm", f"{_L}.add", "residual.missing values.stale", layer=1),
        fault("layer scale not folded", f"{_L}.layer_scale1", "scale.channel op.skipped weights.differ", layer=1),
        fault("eps of the second norm", f"{_L}.norm2", "norm.eps", layer=1),
        fault("gate and up exchanged", f"{_L}.mlp.chunk {_L}.mlp.silu", "layout.chunk_swap", layer=0),
        fault("gelu for silu", f"{_L}.mlp.silu {_L}.mlp.mul", "activation.kind", layer=2),
        fault("bias without layer scale", f"{_L}.layer_scale2", "weights.differ offset.channel", layer=2),
        fault("heads before q, k and v", _SELF, "layout.qkv_order layout.head_order layout.reshape", layer=2),
        fault("mlp of the layer before", f"{_L}.mlp.weights_in", "weights.differ", layer=2),
        fault("last norm forgotten", "dinov2.layernorm dinov2:out.pooler_output", "op.skipped"),
        fault("mean with the class token", "root.mean:in.input root.mean", "pool.kind"),
        fault("mean before the class token", "root.cat", "layout.chunk_swap"),
    ),
)
