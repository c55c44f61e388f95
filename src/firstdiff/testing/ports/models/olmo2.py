"""OLMo 2 in torch the way of lit-gpt: one matrix with q, k and v of each group of heads, tables of angles, sdpa."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import torch
from torch import nn

from firstdiff.testing.ports.port import Port, Wrong, fault, torch_port
from firstdiff.testing.zoo.architectures import Architecture

n_embd, n_head, n_query_groups, n_layer, intermediate_size, padded_vocab_size = 32, 4, 2, 3, 48, 80
head_size, q_per_kv, rope_base, norm_eps, T = n_embd // n_head, n_head // n_query_groups, 500_000, 1e-6, 11


def reference() -> nn.Module:
    tf: Any = import_module("transformers")
    config = tf.Olmo2Config(
        **{"vocab_size": padded_vocab_size, "hidden_size": n_embd, "intermediate_size": intermediate_size},
        **{"num_hidden_layers": n_layer, "num_attention_heads": n_head, "num_key_value_heads": n_query_groups},
        **{"max_position_embeddings": 64, "rope_theta": rope_base, "rms_norm_eps": norm_eps, "use_cache": False},
        **{"attn_implementation": "eager", "pad_token_id": 0, "eos_token_id": 1},
    )
    made: nn.Module = tf.Olmo2ForCausalLM(config)
    return made


def prompts(generator: torch.Generator, batch: int) -> dict[str, Any]:
    return {"input_ids": torch.randint(2, padded_vocab_size, (batch, T), generator=generator)}


class RMSNorm(nn.Module):
    def __init__(self, size: int, eps: float = norm_eps, *, bf16: bool = False) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps, self.bf16 = eps, bf16

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.bf16:
            x = x.bfloat16()
        norm_x = torch.mean(x * x, dim=-1, keepdim=True)
        x_normed = x * torch.rsqrt(norm_x + self.eps)
        return x_normed.float() * self.weight


def build_rope_cache(wrong: Wrong) -> tuple[torch.Tensor, torch.Tensor]:
    base = 10_000 if wrong("base 10000") else rope_base
    theta = 1.0 / (base ** (torch.arange(0, head_size, 2).float() / head_size))
    angles = torch.outer(torch.arange(64), theta).repeat(1, 2)
    if wrong("tables in bfloat16"):
        return torch.cos(angles).bfloat16().float(), torch.sin(angles).bfloat16().float()
    return torch.cos(angles), torch.sin(angles)


def apply_rope(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, wrong: Wrong, block_idx: int) -> torch.Tensor:
    if wrong("neighbours turned", block_idx):
        rotated = torch.stack((-x[..., 1::2], x[..., 0::2]), dim=-1).flatten(-2)
        return x * cos + rotated * sin
    x1, x2 = x[..., : head_size // 2], x[..., head_size // 2 :]
    rotated = torch.cat((x2, -x1) if wrong("turned the other way", block_idx) else (-x2, x1), dim=-1)
    return x * cos + rotated * sin


class CausalSelfAttention(nn.Module):
    def __init__(self, wrong: Wrong, block_idx: int) -> None:
        super().__init__()
        self.attn = nn.Linear(n_embd, (n_head + 2 * n_query_groups) * head_size, bias=False)
        self.proj = nn.Linear(n_embd, n_embd, bias=False)
        self.norm_q, self.norm_k = RMSNorm(n_embd), RMSNorm(n_query_groups * head_size)
        self.wrong, self.block_idx = wrong, block_idx

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        wrong, n = self.wrong, self.block_idx
        B, T, C = x.size()  # noqa: N806
        qkv = self.attn(x).view(B, T, n_query_groups, q_per_kv + 2, head_size)
        q, k, v = qkv.split((q_per_kv, 1, 1), dim=3)
        q, k = q.reshape(B, T, C), k.reshape(B, T, -1)
        if wrong("queries normed head by head", n):
            heads = q.view(B, T, n_head, head_size)
            norm_x = torch.mean(heads * heads, dim=-1, keepdim=True)
            q = (heads * torch.rsqrt(norm_x + norm_eps)).view(B, T, C) * self.norm_q.weight
        else:
            q = self.norm_q(q)
        if not wrong("keys not normed", n):
            k = self.norm_k(k)
        q = q.view(B, T, n_head, head_size).transpose(1, 2)
        k, v = (part.view(B, T, n_query_groups, head_size).transpose(1, 2) for part in (k, v.squeeze(3)))
        q, k = (apply_rope(part, cos, sin, wrong, n) for part in (q, k))
        if wrong("groups tiled", n):
            k, v = (part.repeat(1, q_per_kv, 1, 1) for part in (k, v))
        else:
            k, v = (part.repeat_interleave(q_per_kv, dim=1) for part in (k, v))
        if wrong("window of four", n):
            mask = mask & ~torch.ones_like(mask).tril(-4)
        scale = n_embd**-0.5 if wrong("scale of the width", n) else head_size**-0.5
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale)
        return self.proj(y.transpose(1, 2).reshape(B, T, C))


class LLaMAMLP(nn.Module):
    def __init__(self, wrong: Wrong, block_idx: int) -> None:
        super().__init__()
        self.fc_1, self.fc_2 = (nn.Linear(n_embd, intermediate_size, bias=False) for _ in range(2))
        self.proj = nn.Linear(intermediate_size, n_embd, bias=False)
        self.act = torch.nn.functional.gelu if wrong("gelu for silu", block_idx) else torch.nn.functional.silu

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x_fc_1, x_fc_2 = self.fc_1(x), self.fc_2(x)
        return self.proj(self.act(x_fc_1) * x_fc_2)


class Block(nn.Module):
    def __init__(self, wrong: Wrong, block_idx: int) -> None:
        super().__init__()
        self.attn, self.mlp = CausalSelfAttention(wrong, block_idx), LLaMAMLP(wrong, block_idx)
        self.post_attention_norm = RMSNorm(n_embd)
        self.post_mlp_norm = RMSNorm(n_embd, bf16=wrong("norm in bfloat16", block_idx))
        self.wrong, self.block_idx = wrong, block_idx

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        wrong, n = self.wrong, self.block_idx
        if wrong("norm in front of attention", n):
            h = x + self.attn(self.post_attention_norm(x), cos, sin, mask)
        elif wrong("attention not normed", n):
            h = x + self.attn(x, cos, sin, mask)
        else:
            h = x + self.post_attention_norm(self.attn(x, cos, sin, mask))
        if wrong("norm over the sum", n):
            return self.post_mlp_norm(h + self.mlp(h))
        return h + self.post_mlp_norm(self.mlp(x if wrong("parallel branches", n) else h))


class GPT(nn.Module):
    cos: torch.Tensor
    sin: torch.Tensor
    mask: torch.Tensor

    def __init__(self, wrong: Wrong) -> None:
        super().__init__()
        self.lm_head = nn.Linear(n_embd, padded_vocab_size, bias=False)
        self.transformer = nn.ModuleDict(
            {
                "wte": nn.Embedding(padded_vocab_size, n_embd),
                "h": nn.ModuleList(Block(wrong, n) for n in range(n_layer)),
                "ln_f": RMSNorm(n_embd, 1e-2 if wrong("eps of the last norm") else norm_eps),
            }
        )
        cos, sin = build_rope_cache(wrong)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        self.register_buffer("mask", torch.ones(64, 64, dtype=torch.bool).tril(), persistent=False)

    def forward(self, idx: torch.Tensor) -> torch.Tensor:
        t = idx.size(1)
        x = self.transformer["wte"](idx)
        blocks: Any = self.transformer["h"]
        for block in blocks:
            x = block(x, self.cos[:t], self.sin[:t], self.mask[:t, :t])
        return self.lm_head(self.transformer["ln_f"](x))


def copy_weights(hf_weights: Mapping[str, torch.Tensor], wrong: Wrong) -> nn.Module:
    weight_map = {
        **{"transformer.wte": "model.embed_tokens", "transformer.ln_f": "model.norm", "lm_head": "lm_head"},
        **{"attn.proj": "self_attn.o_proj", "attn.norm_q": "self_attn.q_norm", "attn.norm_k": "self_attn.k_norm"},
        **{"post_attention_norm": "post_attention_layernorm", "post_mlp_norm": "post_feedforward_layernorm"},
        **{"mlp.fc_1": "mlp.gate_proj", "mlp.fc_2": "mlp.up_proj", "mlp.proj": "mlp.down_proj"},
    }
    model = GPT(wrong)
    loaded = {}
    for name in model.state_dict():
        module = name.removesuffix(".weight")
        if module in weight_map:
            loaded[name] = hf_weights[f"{weight_map[module]}.weight"]
            continue
        _, _, index, part = module.split(".", 3)
        layer, n = f"model.layers.{index}", int(index)
        if wrong("gate and up exchanged", n) and part in ("mlp.fc_1", "mlp.fc_2"):
            part = {"mlp.fc_1": "mlp.fc_2", "mlp.fc_2": "mlp.fc_1"}[part]
        if part == "attn.attn":
            q, k, v = (hf_weights[f"{layer}.self_attn.{one}_proj.weight"] for one in "qkv")
            groups = zip(*(one.chunk(n_query_groups) for one in (q, k, v)), strict=True)
            straight = wrong("groups not interleaved", n)
            loaded[name] = torch.cat([q, k, v] if straight else [one for group in groups for one in group])
        else:
            loaded[name] = hf_weights[f"{layer}.{weight_map[part]}.weight"]
    model.load_state_dict(loaded)
    return model


_L = "model.layers.{n}"
_A = f"{_L}.self_attn"
PORT = Port(
    name="olmo2",
    half="locked",
    style="torch, captured, the way of lit-gpt, q, k and v of each group of heads fused",
    build=lambda: Architecture("olmo2", reference, prompts).build(64),
    result=lambda output: output.logits,
    run=torch_port(copy_weights),
    faults=(
        fault("base 10000", "model.rotary_emb model.layers.0.self_attn.mul", "rope.base"),
        fault("tables in bfloat16", "model.rotary_emb model.layers.0.self_attn.mul", "dtype.bf16"),
        fault("groups not interleaved", f"{_A}.q_proj", "layout.qkv_order layout.head_order weights.differ", 1),
        fault("queries normed head by head", f"{_A}.q_norm.mean {_A}.q_norm", "norm.groups norm.kind", 0),
        fault("keys not normed", f"{_A}.k_norm {_A}.mul@2", "op.skipped", 2),
        fault("turned the other way", f"{_A}.neg:in.input {_A}.neg {_A}.cat", "rope.direction sign.flip", 1),
        fault("neighbours turned", f"{_A}.neg:in.input {_A}.neg {_A}.cat", "layout.rope_interleave", 2),
        fault("groups tiled", f"{_A}.matmul:in.other {_A}.matmul@1", "attention.kv_heads layout.head_order", 0),
        fault("scale of the width", f"{_A}.matmul@1", "attention.scale", 1),
        fault("window of four", f"{_A}.matmul@1", "attention.mask", 2),
        fault("norm in front of attention", f"{_A}.q_proj:in.0 {_A}.q_proj", "", 1),
        fault("attention not normed", f"{_L}.post_attention_layernorm {_L}.add", "op.skipped", 0),
        fault("parallel branches", f"{_L}.mlp:in.0 {_L}.mlp.gate_proj", "values.stale residual.missing", 2),
        fault("gate and up exchanged", f"{_L}.mlp.gate_proj", "layout.chunk_swap weights.differ", 1),
        fault("gelu for silu", f"{_L}.mlp.act_fn {_L}.mlp.mul", "activation.kind", 0),
        fault(
            "norm in bfloat16", f"{_L}.post_feedforward_layernorm.* {_L}.post_feedforward_layernorm", "dtype.bf16", 0
        ),
        fault("norm over the sum", f"{_L}.post_feedforward_layernorm:in.0 {_L}.post_feedforward_layernorm", "", 1),
        fault("eps of the last norm", "model.norm.add model.norm", "norm.eps"),
    ),
)
