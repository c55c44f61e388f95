"""BART in torch the way of OpenNMT: time first, heads folded into the batch, names of its own, one table for all."""

from __future__ import annotations

import math
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from firstdiff.testing.ports.port import Port, Wrong, fault, torch_port
from firstdiff.testing.zoo.architectures import Architecture

D, H, N, V, SOURCE, TARGET = 32, 4, 2, 70, 11, 7


def reference() -> nn.Module:
    tf: Any = import_module("transformers")
    config = tf.BartConfig(
        **{"vocab_size": V, "d_model": D, "encoder_layers": N, "decoder_layers": N, "max_position_embeddings": 30},
        **{"encoder_attention_heads": H, "decoder_attention_heads": H, "encoder_ffn_dim": 48, "decoder_ffn_dim": 40},
        **{"scale_embedding": True, "use_cache": False, "attn_implementation": "eager"},
    )
    made: nn.Module = tf.BartForConditionalGeneration(config)
    return made


def texts(generator: torch.Generator, batch: int) -> dict[str, Any]:
    source = torch.randint(4, V, (batch, SOURCE), generator=generator)
    mask = torch.ones_like(source)
    mask[-1, 8:] = 0
    target = torch.randint(4, V, (batch, TARGET), generator=generator)
    return {"input_ids": source, "attention_mask": mask, "decoder_input_ids": target}


class MultiHeadedAttention(nn.Module):
    def __init__(self, where: str, wrong: Wrong, n: int) -> None:
        super().__init__()
        self.linear_query, self.linear_keys = nn.Linear(D, D), nn.Linear(D, D)
        self.linear_values, self.final_linear = nn.Linear(D, D), nn.Linear(D, D)
        self.where, self.wrong, self.n = where, wrong, n

    def forward(self, query: torch.Tensor, memory: torch.Tensor, hidden: torch.Tensor | None) -> torch.Tensor:
        targets, batch, _ = query.shape
        scale = 1.0 if self.where == "context" and self.wrong("context not scaled", self.n) else math.sqrt(D // H)
        q = self.linear_query(query) / scale
        k, v = self.linear_keys(memory), self.linear_values(memory)
        q, k, v = (part.contiguous().view(len(part), batch * H, D // H).transpose(0, 1) for part in (q, k, v))
        weights = torch.bmm(q, k.transpose(1, 2))
        if hidden is not None:
            weights = weights.masked_fill(hidden.expand(batch, targets, len(memory)).repeat_interleave(H, 0), -1e18)
        mixed = torch.bmm(weights.softmax(-1), v)
        if self.where == "decoder" and self.wrong("heads put together before time", self.n):
            return self.final_linear(mixed.contiguous().view(targets, batch, D))
        return self.final_linear(mixed.transpose(0, 1).contiguous().view(targets, batch, D))


class PositionwiseFeedForward(nn.Module):
    def __init__(self, width: int, where: str, wrong: Wrong, n: int) -> None:
        super().__init__()
        self.w_1, self.w_2 = nn.Linear(D, width), nn.Linear(width, D)
        encoder = where == "encoder"
        self.layer_norm = nn.LayerNorm(D, eps=1e-2 if encoder and wrong("eps of the last norm", n) else 1e-5)
        self.norm_first = encoder and wrong("norm before the residual", n)
        self.relu = wrong(f"relu in the {where}", n)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = self.w_1(x)
        inner = functional.relu(inner) if self.relu else functional.gelu(inner)
        if self.norm_first:
            return x + self.layer_norm(self.w_2(inner))
        return self.layer_norm(x + self.w_2(inner))


class EncoderLayer(nn.Module):
    def __init__(self, wrong: Wrong, n: int) -> None:
        super().__init__()
        self.self_attn = MultiHeadedAttention("encoder", wrong, n)
        self.layer_norm = nn.LayerNorm(D)
        self.feed_forward = PositionwiseFeedForward(48, "encoder", wrong, n)
        self.wrong, self.n = wrong, n

    def forward(self, x: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        attended = self.self_attn(x, x, None if self.wrong("source padding seen", self.n) else hidden)
        if self.wrong("dropout at work", self.n):
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(0)
                attended = functional.dropout(attended, 0.1)
        return self.feed_forward(self.layer_norm(x + attended))


class DecoderLayer(nn.Module):
    def __init__(self, wrong: Wrong, n: int) -> None:
        super().__init__()
        self.self_attn = MultiHeadedAttention("decoder", wrong, n)
        self.context_attn = MultiHeadedAttention("context", wrong, n)
        self.layer_norm_1, self.layer_norm_2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.feed_forward = PositionwiseFeedForward(40, "decoder", wrong, n)
        self.wrong, self.n = wrong, n

    def forward(self, x: torch.Tensor, memory: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        future = torch.ones(len(x), len(x), dtype=torch.bool).triu(1)
        if self.wrong("mask transposed", self.n):
            future = future.T & (torch.arange(len(x)) < len(x) - 1)
        query = self.layer_norm_1(x + self.self_attn(x, x, future))
        if self.wrong("source padding seen by the decoder", self.n):
            hidden = torch.zeros_like(hidden)
        context = self.context_attn(query, memory, hidden)
        start = x if self.wrong("residual of the context from the layer's input", self.n) else query
        return self.feed_forward(self.layer_norm_2(start + context))


class Embeddings(nn.Module):
    def __init__(self, table: nn.Embedding, where: str, wrong: Wrong) -> None:
        super().__init__()
        self.word_lut, self.pe = table, nn.Embedding(32, D)
        self.layer_norm = nn.LayerNorm(D)
        self.scale = 1.0 if where == "source" and wrong("source not scaled") else math.sqrt(D)
        self.normed = not (where == "target" and wrong("target not normed"))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        emb = self.word_lut(ids) * self.scale + self.pe.weight[2 : len(ids) + 2, None]
        return self.layer_norm(emb) if self.normed else emb


class NMTModel(nn.Module):
    def __init__(self, wrong: Wrong) -> None:
        super().__init__()
        table = nn.Embedding(V, D)
        self.src_emb, self.tgt_emb = Embeddings(table, "source", wrong), Embeddings(table, "target", wrong)
        self.encoder = nn.ModuleList(EncoderLayer(wrong, n) for n in range(N))
        self.decoder = nn.ModuleList(DecoderLayer(wrong, n) for n in range(N))
        self.wrong = wrong

    def forward(self, src: torch.Tensor, keep: torch.Tensor, tgt: torch.Tensor) -> torch.Tensor:
        hidden = (keep == 0)[:, None, :]
        memory = self.src_emb(src.T)
        before = memory
        for layer in self.encoder:
            before, memory = memory, layer(memory, hidden)
        x = self.tgt_emb(tgt.T)
        for layer in self.decoder:
            x = layer(x, before if self.wrong("memory of the layer before the last") else memory, hidden)
        return functional.linear(x, self.tgt_emb.word_lut.weight).transpose(0, 1)


def nmt(weights: Mapping[str, torch.Tensor], wrong: Wrong) -> nn.Module:
    attention = {
        "linear_query": "q_proj",
        "linear_keys": "k_proj",
        "linear_values": "v_proj",
        "final_linear": "out_proj",
    }
    inner = {
        **{"layer_norm": "self_attn_layer_norm", "layer_norm_1": "self_attn_layer_norm"},
        **{"layer_norm_2": "encoder_attn_layer_norm", "feed_forward.w_1": "fc1", "feed_forward.w_2": "fc2"},
        **{"feed_forward.layer_norm": "final_layer_norm"},
    }
    for mine, theirs in {"self_attn": "self_attn", "context_attn": "encoder_attn"}.items():
        inner |= {f"{mine}.{part}": f"{theirs}.{other}" for part, other in attention.items()}
    emb = {"word_lut": "embed_tokens", "pe": "embed_positions", "layer_norm": "layernorm_embedding"}
    model = NMTModel(wrong)
    loaded = {}
    for name in model.state_dict():
        module, _, end = name.rpartition(".")
        first, _, rest = module.partition(".")
        if rest in emb:
            theirs = f"model.{'encoder' if first == 'src_emb' else 'decoder'}.{emb[rest]}"
        else:
            layer, _, rest = rest.partition(".")
            theirs = f"model.{first}.layers.{layer}.{inner[rest]}"
        loaded[name] = weights[f"{theirs}.{end}"]
    for n in range(N):
        if wrong("output weight of the context transposed", n):
            loaded[f"decoder.{n}.context_attn.final_linear.weight"] = loaded[
                f"decoder.{n}.context_attn.final_linear.weight"
            ].T
        if wrong("bias of the feed-forward missing", n):
            loaded[f"encoder.{n}.feed_forward.w_1.bias"] = torch.zeros(48)
    model.load_state_dict(loaded)
    return model


_E, _D = "model.encoder.layers.{n}", "model.decoder.layers.{n}"
_FAULTS = (
    fault("source not scaled", "model.encoder.embed_tokens model.encoder.add", "scale.constant"),
    fault(
        "target not normed",
        "model.decoder.layernorm_embedding model.decoder.layers.0.self_attn.q_proj",
        "op.skipped",
    ),
    fault("dropout at work", f"{_E}.add {_E}.self_attn_layer_norm", "dropout.active", layer=1),
    fault("source padding seen", f"{_E}.self_attn.add {_E}.self_attn.softmax", "attention.mask", layer=0),
    fault("norm before the residual", f"{_E}.add@1 {_E}.final_layer_norm", "", layer=1),
    fault("relu in the encoder", f"{_E}.activation_fn", "activation.kind", layer=0),
    fault("bias of the feed-forward missing", f"{_E}.fc1", "bias.missing", layer=1),
    fault("eps of the last norm", f"{_E}.final_layer_norm", "norm.eps", layer=0),
    fault(
        "memory of the layer before the last",
        "model.decoder.layers.0.encoder_attn.k_proj:in.0 model.decoder.layers.0.encoder_attn.k_proj",
        "values.stale op.skipped",
    ),
    fault("mask transposed", f"{_D}.self_attn.add {_D}.self_attn.softmax", "attention.mask", layer=1),
    fault(
        "source padding seen by the decoder",
        f"{_D}.encoder_attn.add {_D}.encoder_attn.softmax",
        "attention.mask",
        layer=1,
    ),
    fault("context not scaled", f"{_D}.encoder_attn.mul {_D}.encoder_attn.softmax", "attention.scale", layer=0),
    fault(
        "heads put together before time",
        f"{_D}.self_attn.out_proj:in.0 {_D}.self_attn.out_proj",
        "layout.head_order layout.reshape layout.transpose",
        layer=1,
    ),
    fault(
        "residual of the context from the layer's input",
        f"{_D}.add@1 {_D}.encoder_attn_layer_norm",
        "values.stale residual.missing",
        layer=1,
    ),
    fault("output weight of the context transposed", f"{_D}.encoder_attn.out_proj", "weights.transposed", layer=0),
    fault("relu in the decoder", f"{_D}.activation_fn", "activation.kind", layer=1),
)
PORT = Port(
    name="bart",
    half="open",
    style="torch, captured, the way of OpenNMT, time first, heads folded into the batch",
    build=lambda: Architecture("bart", reference, texts).build(56),
    result=lambda output: output.logits,
    run=torch_port(nmt),
    faults=_FAULTS,
)
