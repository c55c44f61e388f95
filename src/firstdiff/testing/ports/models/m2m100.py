"""M2M100 in torch the way of fairseq: time first, one projection for q, k and v, heads by einsum, texts filled left."""

from __future__ import annotations

import math
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from firstdiff.testing.ports.port import Port, Wrong, fault, torch_port
from firstdiff.testing.zoo.architectures import Architecture

C, HEADS, LAYERS, VOCAB, PAD, SOURCE, TARGET = 32, 4, 2, 60, 1, 10, 7
FFN = {"encoder": 48, "decoder": 40}


def reference() -> nn.Module:
    tf: Any = import_module("transformers")
    config = tf.M2M100Config(
        **{"vocab_size": VOCAB, "d_model": C, "encoder_layers": LAYERS, "decoder_layers": LAYERS},
        **{"encoder_attention_heads": HEADS, "decoder_attention_heads": HEADS, "max_position_embeddings": 32},
        **{"encoder_ffn_dim": FFN["encoder"], "decoder_ffn_dim": FFN["decoder"], "pad_token_id": PAD},
        **{"use_cache": False, "attn_implementation": "eager"},
    )
    made: nn.Module = tf.M2M100ForConditionalGeneration(config)
    return made


def sentences(generator: torch.Generator, batch: int) -> dict[str, Any]:
    source = torch.randint(4, VOCAB, (batch, SOURCE), generator=generator)
    mask = torch.ones_like(source)
    mask[-1, :3] = 0
    target = torch.randint(4, VOCAB, (batch, TARGET), generator=generator)
    return {"input_ids": source.masked_fill(mask == 0, PAD), "attention_mask": mask, "decoder_input_ids": target}


class SinusoidalPositionalEmbedding(nn.Module):
    weights: Tensor

    def __init__(self, where: str, wrong: Wrong) -> None:
        super().__init__()
        half = C // 2
        rates = torch.exp(torch.arange(half) * -(math.log(10000) / (half - 1)))
        angles = torch.arange(40)[:, None] * rates
        waves = [angles.sin(), angles.cos()]
        table = torch.stack(waves, 2).flatten(1) if wrong("waves interleaved") else torch.cat(waves, 1)
        table[PAD] = 0
        self.register_buffer("weights", table)
        self.where, self.wrong = where, wrong

    def forward(self, tokens: Tensor) -> Tensor:
        """Positions of [time, batch] tokens; the first after the padding has number PAD + 1."""
        mask = tokens.ne(PAD).long()
        if self.where == "encoder" and self.wrong("padding has positions"):
            positions = torch.arange(1, len(tokens) + 1)[:, None].expand_as(tokens) + PAD
        else:
            positions = mask.cumsum(0) * mask + PAD
        if self.where == "decoder" and self.wrong("positions one on"):
            positions = positions + 1
        return self.weights[positions]


class MultiheadAttention(nn.Module):
    def __init__(self, crossed: bool) -> None:
        super().__init__()
        self.crossed = crossed
        if crossed:
            self.q_proj, self.kv_proj = nn.Linear(C, C), nn.Linear(C, 2 * C)
        else:
            self.in_proj = nn.Linear(C, 3 * C)
        self.out_proj = nn.Linear(C, C)

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        *,
        key_padding_mask: Tensor | None = None,
        attn_mask: Tensor | None = None,
        scaling: float = (C // HEADS) ** -0.5,
        swapped: bool = False,
        merge: str = "bhts,sbhd->tbhd",
    ) -> Tensor:
        if self.crossed:
            q = self.q_proj(x)
            k, v = self.kv_proj(memory).split(C, -1)
        else:
            q, k, v = self.in_proj(x).split(C, -1)
        if swapped:
            k, v = v, k
        q = q * scaling
        q, k, v = (part.reshape(*part.shape[:2], HEADS, C // HEADS) for part in (q, k, v))
        attn_weights = torch.einsum("tbhd,sbhd->bhts", q, k)
        if attn_mask is not None:
            attn_weights += attn_mask
        if key_padding_mask is not None:
            attn_weights = attn_weights.masked_fill(key_padding_mask[:, None, None], float("-inf"))
        attn = torch.einsum(merge, attn_weights.softmax(-1), v)
        return self.out_proj(attn.reshape(*x.shape))


class TransformerLayer(nn.Module):
    """A layer of the encoder, or with `encoder_attn` one of the decoder."""

    def __init__(self, where: str, wrong: Wrong, i: int) -> None:
        super().__init__()
        self.self_attn, self.self_attn_layer_norm = MultiheadAttention(crossed=False), nn.LayerNorm(C)
        if where == "decoder":
            self.encoder_attn, self.encoder_attn_layer_norm = MultiheadAttention(crossed=True), nn.LayerNorm(C)
        self.fc1, self.fc2 = nn.Linear(C, FFN[where]), nn.Linear(FFN[where], C)
        self.final_layer_norm = nn.LayerNorm(C)
        self.where, self.wrong, self.i = where, wrong, i

    def forward(self, x: Tensor, padding: Tensor, memory: Tensor | None = None, future: Tensor | None = None) -> Tensor:
        encoder = memory is None

        def wrong(name: str, *, here: bool) -> bool:
            return here and self.wrong(name, self.i)

        hidden = None if not encoder or wrong("padding not hidden", here=encoder) else padding
        scaling = (C // HEADS) ** -0.5
        residual = x
        x = self.self_attn_layer_norm(x)
        residual = x.clone() if wrong("residual after the norm", here=encoder) else residual
        x = self.self_attn(
            x,
            x,
            key_padding_mask=hidden,
            attn_mask=future,
            scaling=scaling**2 if wrong("scaled twice", here=not encoder) else scaling,
            merge="bhts,sbhd->tbdh" if wrong("heads last", here=encoder) else "bhts,sbhd->tbhd",
        )
        x += residual
        if memory is not None:
            residual = x
            x = self.encoder_attn_layer_norm(x)
            swapped = wrong("values for keys of the encoder", here=True)
            x = self.encoder_attn(x, memory, key_padding_mask=padding, swapped=swapped)
            x += residual
        residual = x
        if wrong("norm behind the feed-forward", here=not encoder):
            return self.final_layer_norm(residual + self.fc2(F.relu(self.fc1(x))))
        x = self.fc1(self.final_layer_norm(x))
        x = F.gelu(x) if wrong("gelu for relu", here=not encoder) else F.relu(x, inplace=True)
        x = self.fc2(x)
        if wrong("relu behind fc2", here=encoder):
            x = F.relu(x)
        x += residual
        return x


class Stack(nn.Module):
    """The encoder or the decoder."""

    def __init__(self, where: str, table: nn.Embedding, wrong: Wrong) -> None:
        super().__init__()
        self.embed_tokens, self.embed_positions = table, SinusoidalPositionalEmbedding(where, wrong)
        self.layers = nn.ModuleList(TransformerLayer(where, wrong, i) for i in range(LAYERS))
        self.layer_norm = nn.LayerNorm(C, eps=1e-1 if where == "decoder" and wrong("eps of the last norm") else 1e-5)
        self.where, self.wrong = where, wrong

    def forward(self, tokens: Tensor, padding: Tensor, memory: Tensor | None = None) -> Tensor:
        encoder = self.where == "encoder"
        x = self.embed_tokens(tokens) * (1 if encoder and self.wrong("embeddings not scaled") else math.sqrt(C))
        x += self.embed_positions(tokens)
        future = None
        if not encoder:
            diagonal = 2 if self.wrong("mask one late") else 1
            future = torch.full((len(tokens), len(tokens)), float("-inf")).triu(diagonal)
        for layer in self.layers:
            x = layer(x, padding, memory, future)
        return x if encoder and self.wrong("encoder not normed") else self.layer_norm(x)


class TransformerModel(nn.Module):
    def __init__(self, wrong: Wrong) -> None:
        super().__init__()
        table = nn.Embedding(VOCAB, C, PAD)
        self.encoder, self.decoder = Stack("encoder", table, wrong), Stack("decoder", table, wrong)

    def forward(self, src_tokens: Tensor, mask: Tensor, prev_output_tokens: Tensor) -> Tensor:
        padding = mask.eq(0)
        encoder_out = self.encoder(src_tokens.T, padding)
        x = self.decoder(prev_output_tokens.T, padding, encoder_out)
        return F.linear(x, self.decoder.embed_tokens.weight).transpose(0, 1)


def fairseq(weights: Mapping[str, Tensor], wrong: Wrong) -> nn.Module:
    fused = {"in_proj": ("q_proj", "k_proj", "v_proj"), "kv_proj": ("k_proj", "v_proj")}
    model = TransformerModel(wrong)
    loaded = {}
    for name, empty in model.state_dict().items():
        if name.endswith("embed_positions.weights"):
            loaded[name] = empty
            continue
        path, part, end = name.rsplit(".", 2)
        parts = [f"model.{path}.{one}.{end}" for one in fused.get(part, [part])]
        loaded[name] = torch.cat([weights[one] for one in parts])
    for i in range(LAYERS):
        encoder, decoder = f"encoder.layers.{i}", f"decoder.layers.{i}"
        if wrong("output weight transposed", i):
            loaded[f"{encoder}.self_attn.out_proj.weight"] = loaded[f"{encoder}.self_attn.out_proj.weight"].T
        if wrong("value bias missing", i):
            loaded[f"{decoder}.self_attn.in_proj.bias"][2 * C :] = 0
        if wrong("norm of the other attention", i):
            loaded |= {
                f"{decoder}.encoder_attn_layer_norm.{end}": loaded[f"{decoder}.self_attn_layer_norm.{end}"]
                for end in ("weight", "bias")
            }
    model.load_state_dict(loaded)
    return model


_E, _D = "model.encoder.layers.{n}", "model.decoder.layers.{n}"
PORT = Port(
    name="m2m100",
    half="open",
    style="torch, captured, the way of fairseq, time first, heads by einsum",
    build=lambda: Architecture("m2m100", reference, sentences).build(62),
    result=lambda output: output.logits,
    run=torch_port(fairseq),
    faults=(
        fault("embeddings not scaled", "model.encoder.embed_tokens", "scale.constant op.skipped"),
        fault(
            "padding has positions",
            "model.encoder.embed_positions.add@1 model.encoder.embed_positions",
            "position.offset",
        ),
        fault(
            "waves interleaved",
            "model.encoder.embed_positions",
            "layout.interleave layout.permuted layout.reshape layout.head_order",
        ),
        fault("positions one on", "model.decoder.embed_positions", "position.offset shift.sequence"),
        fault("heads last", f"{_E}.self_attn.out_proj:in.0", "layout.head_order layout.transpose layout.reshape", 0),
        fault("relu behind fc2", f"{_E}.add@1 {_E}", "activation.extra", 0),
        fault("padding not hidden", f"{_E}.self_attn.add {_E}.self_attn.softmax", "attention.mask", 1),
        fault("output weight transposed", f"{_E}.self_attn.out_proj", "weights.transposed", 1),
        fault("residual after the norm", f"{_E}.add", "residual.missing values.stale", 1),
        fault("encoder not normed", "model.encoder.layer_norm", "op.skipped"),
        fault("scaled twice", f"{_D}.self_attn.mul", "attention.scale scale.constant", 0),
        fault("value bias missing", f"{_D}.self_attn.v_proj", "bias.missing offset.channel", 0),
        fault(
            "values for keys of the encoder",
            f"{_D}.encoder_attn.matmul:in.other {_D}.encoder_attn.mul",
            "layout.qkv_order layout.chunk_swap",
            0,
        ),
        fault(
            "mask one late",
            "model.decoder.triu model.decoder.layers.0.self_attn.add model.decoder.layers.0.self_attn.softmax",
            "attention.mask",
        ),
        fault("norm of the other attention", f"{_D}.encoder_attn_layer_norm", "weights.differ", 1),
        fault("gelu for relu", f"{_D}.activation_fn", "activation.kind", 0),
        fault(
            "norm behind the feed-forward",
            f"{_D}.final_layer_norm:in.0 {_D}.final_layer_norm {_D}.fc1",
            "op.skipped",
            1,
        ),
        fault("eps of the last norm", "model.decoder.layer_norm", "norm.eps"),
    ),
)
