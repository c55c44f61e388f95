"""A wav2vec2 conformer in torch the way of ESPnet: one matrix for q, k and v, relative positions picked by index."""

from __future__ import annotations

import math
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import torch
from torch import nn

from firstdiff.testing.ports.port import Port, Wrong, fault, torch_port
from firstdiff.testing.zoo.architectures import Architecture

ADIM, AHEADS, EUNITS, ELAYERS, KERNEL, CHANNELS, TOKENS = 32, 4, 48, 2, 5, 16, 12
STRIDES, WIDTHS = (5, 2), (10, 3)


def reference() -> nn.Module:
    tf: Any = import_module("transformers")
    config = tf.Wav2Vec2ConformerConfig(
        **{"vocab_size": TOKENS, "hidden_size": ADIM, "num_hidden_layers": ELAYERS, "num_attention_heads": AHEADS},
        **{"intermediate_size": EUNITS, "conv_dim": (CHANNELS, CHANNELS), "conv_stride": STRIDES},
        **{"conv_kernel": WIDTHS, "conv_bias": True, "feat_extract_norm": "layer", "mask_time_prob": 0.0},
        **{"num_conv_pos_embeddings": 8, "num_conv_pos_embedding_groups": 2, "max_source_positions": 64},
        **{"conv_depthwise_kernel_size": KERNEL, "position_embeddings_type": "relative", "hidden_act": "swish"},
    )
    made: nn.Module = tf.Wav2Vec2ConformerForCTC(config)
    return made


def waves(generator: torch.Generator, batch: int) -> dict[str, Any]:
    return {"input_values": torch.randn(batch, 260, generator=generator)}


class ChannelNorm(nn.LayerNorm):
    """A layer norm over channels that come second."""

    def forward(self, xs: torch.Tensor) -> torch.Tensor:
        return super().forward(xs.transpose(1, -1)).transpose(1, -1)


class Frontend(nn.Module):
    """The waveform to frames, [batch, samples] -> [batch, frames, dim]."""

    def __init__(self, wrong: Wrong) -> None:
        super().__init__()
        self.convs, self.norms = nn.ModuleList(), nn.ModuleList()
        for i, (width, stride) in enumerate(zip(WIDTHS, STRIDES, strict=True)):
            self.convs.append(nn.Conv1d(CHANNELS if i else 1, CHANNELS, width, stride))
            self.norms.append(ChannelNorm(CHANNELS))
        self.act = nn.GELU("tanh" if wrong("gelu by tanh") else "none")
        self.out_norm, self.out = nn.LayerNorm(CHANNELS), nn.Linear(CHANNELS, ADIM)
        self.wrong = wrong

    def forward(self, wav: torch.Tensor) -> torch.Tensor:
        xs = wav.unsqueeze(1)
        if self.wrong("waveform normalised"):
            xs = (xs - xs.mean(-1, keepdim=True)) / xs.std(-1, keepdim=True)
        for i, (conv, norm) in enumerate(zip(self.convs, self.norms, strict=True)):
            if i == 1 and self.wrong("frames padded"):
                xs = nn.functional.pad(xs, (1, 1))
            xs = self.act(norm(conv(xs)))
        return self.out(self.out_norm(xs.transpose(1, 2)))


class RelPositionMultiHeadedAttention(nn.Module):
    def __init__(self, wrong: Wrong, n: int) -> None:
        super().__init__()
        self.d_k = ADIM // AHEADS
        self.linear_qkv, self.linear_out = nn.Linear(ADIM, 3 * ADIM), nn.Linear(ADIM, ADIM)
        self.linear_pos = nn.Linear(ADIM, ADIM, bias=False)
        self.pos_bias_u, self.pos_bias_v = (nn.Parameter(torch.zeros(AHEADS, self.d_k)) for _ in range(2))
        self.wrong, self.n = wrong, n

    def rel_shift(self, bd: torch.Tensor) -> torch.Tensor:
        """Scores by distance, [..., i, T - 1 - (i - j)], to scores by key, [..., i, j]."""
        t = bd.shape[-2]
        rows = torch.arange(t)
        index = rows[None] - rows[:, None] + t - 1
        if self.wrong("distances turned round", self.n):
            index = index.T
        if self.wrong("distances one off", self.n):
            index = (index - 1).clamp(min=0)
        return bd.gather(-1, index.expand(*bd.shape[:2], t, t))

    def forward(self, x: torch.Tensor, pos_emb: torch.Tensor) -> torch.Tensor:
        wrong, n = self.wrong, self.n
        n_batch, t, _ = x.shape
        qkv = self.linear_qkv(x).view(n_batch, t, 3, AHEADS, self.d_k)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        p = self.linear_pos(pos_emb).view(-1, AHEADS, self.d_k).transpose(0, 1)
        u, w = self.pos_bias_u[:, None], self.pos_bias_v[:, None]
        if wrong("biases of positions exchanged", n):
            u, w = w, u
        ac = (q + u) @ k.transpose(-2, -1)
        bd = self.rel_shift((q + w) @ p.transpose(-2, -1))
        if wrong("only content is scaled", n):
            scores = ac / math.sqrt(self.d_k) + bd
        else:
            scores = (ac + bd) / math.sqrt(self.d_k)
        attn = torch.softmax(scores, dim=-2 if wrong("softmax over queries", n) else -1)
        return self.linear_out((attn @ v).transpose(1, 2).reshape(n_batch, t, ADIM))


class ConvolutionModule(nn.Module):
    def __init__(self, wrong: Wrong, n: int) -> None:
        super().__init__()
        self.pointwise_conv1 = nn.Conv1d(ADIM, 2 * ADIM, 1, bias=False)
        self.depthwise_conv = nn.Conv1d(ADIM, ADIM, KERNEL, groups=ADIM, bias=False)
        self.norm = nn.BatchNorm1d(ADIM)
        if wrong("statistics of the batch", n):
            self.norm.track_running_stats = False
            self.norm.running_mean = self.norm.running_var = self.norm.num_batches_tracked = None
        self.pointwise_conv2 = nn.Conv1d(ADIM, ADIM, 1, bias=False)
        self.pad = (KERNEL - 1, 0) if wrong("causal padding", n) else (KERNEL // 2, KERNEL // 2)
        self.wrong, self.n = wrong, n

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        value, gate = self.pointwise_conv1(x.transpose(1, 2)).chunk(2, dim=1)
        if self.wrong("gate is the first half", self.n):
            value, gate = gate, value
        x = value * torch.sigmoid(gate)
        x = self.norm(self.depthwise_conv(nn.functional.pad(x, self.pad)))
        x = nn.functional.relu(x) if self.wrong("relu for swish", self.n) else x * torch.sigmoid(x)
        return self.pointwise_conv2(x).transpose(1, 2)


class EncoderLayer(nn.Module):
    def __init__(self, wrong: Wrong, n: int) -> None:
        super().__init__()
        self.feed_forward_macaron, self.feed_forward = (
            nn.Sequential(nn.Linear(ADIM, EUNITS), nn.SiLU(), nn.Linear(EUNITS, ADIM)) for _ in range(2)
        )
        self.self_attn, self.conv_module = RelPositionMultiHeadedAttention(wrong, n), ConvolutionModule(wrong, n)
        self.norm_ff_macaron, self.norm_mha, self.norm_conv, self.norm_ff = (nn.LayerNorm(ADIM) for _ in range(4))
        self.norm_final = nn.LayerNorm(ADIM, eps=1e-2 if wrong("eps of the final norm", n) else 1e-5)
        self.wrong, self.n = wrong, n

    def forward(self, x: torch.Tensor, pos_emb: torch.Tensor) -> torch.Tensor:
        wrong, n = self.wrong, self.n
        x = x + (1.0 if wrong("first half step whole", n) else 0.5) * self.feed_forward_macaron(self.norm_ff_macaron(x))
        if wrong("convolution before attention", n):
            x = x + self.conv_module(self.norm_conv(x))
            x = x + self.self_attn(self.norm_mha(x), pos_emb)
        else:
            x = x + self.self_attn(self.norm_mha(x), pos_emb)
            x = (0 if wrong("convolution without residual", n) else x) + self.conv_module(self.norm_conv(x))
        x = x + 0.5 * self.feed_forward(self.norm_ff(x))
        return self.norm_final(x)


class Encoder(nn.Module):
    def __init__(self, wrong: Wrong) -> None:
        super().__init__()
        self.encoders = nn.ModuleList(EncoderLayer(wrong, n) for n in range(ELAYERS))
        self.after_norm = nn.LayerNorm(ADIM)
        self.wrong = wrong

    def rel_positions(self, t: int) -> torch.Tensor:
        """Distances from t - 1 down to 1 - t as waves, [1, 2 t - 1, dim]."""
        distances = torch.arange(t - 1, -t, -1.0)
        rates = torch.exp(torch.arange(0, ADIM, 2.0) * -(math.log(10000.0) / ADIM))
        angles = distances[:, None] * rates
        if self.wrong("waves not interleaved"):
            return torch.cat([angles.sin(), angles.cos()], -1)[None]
        return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)[None]

    def forward(self, xs: torch.Tensor) -> torch.Tensor:
        pos_emb = self.rel_positions(xs.shape[1])
        for layer in self.encoders:
            xs = layer(xs, pos_emb)
        return self.after_norm(xs)


class ESPnetASRModel(nn.Module):
    def __init__(self, wrong: Wrong) -> None:
        super().__init__()
        self.frontend, self.encoder = Frontend(wrong), Encoder(wrong)
        self.ctc = nn.Module()
        self.ctc.add_module("ctc_lo", nn.Linear(ADIM, TOKENS))

    def forward(self, speech: torch.Tensor) -> torch.Tensor:
        ctc: Any = self.ctc.ctc_lo
        return ctc(self.encoder(self.frontend(speech)))


def espnet(weights: Mapping[str, torch.Tensor], wrong: Wrong) -> nn.Module:
    base = "wav2vec2_conformer."
    names = {"ctc.ctc_lo": "lm_head", "encoder.after_norm": f"{base}encoder.layer_norm"}
    names |= {"frontend.out_norm": f"{base}feature_projection.layer_norm"}
    names |= {"frontend.out": f"{base}feature_projection.projection"}
    for i in range(len(WIDTHS)):
        layer = f"{base}feature_extractor.conv_layers.{i}"
        names |= {f"frontend.convs.{i}": f"{layer}.conv", f"frontend.norms.{i}": f"{layer}.layer_norm"}
    inner = {
        **{"norm_ff_macaron": "ffn1_layer_norm", "norm_mha": "self_attn_layer_norm", "norm_ff": "ffn2_layer_norm"},
        **{"norm_conv": "conv_module.layer_norm", "norm_final": "final_layer_norm", "self_attn": "self_attn"},
        **{"feed_forward_macaron.0": "ffn1.intermediate_dense", "feed_forward_macaron.2": "ffn1.output_dense"},
        **{"feed_forward.0": "ffn2.intermediate_dense", "feed_forward.2": "ffn2.output_dense"},
        **{"self_attn.linear_out": "self_attn.linear_out", "self_attn.linear_pos": "self_attn.linear_pos"},
        **{"self_attn.linear_qkv": "self_attn", "conv_module.norm": "conv_module.batch_norm"},
        **{f"conv_module.{one}": f"conv_module.{one}" for one in ("pointwise_conv1", "pointwise_conv2")},
        **{"conv_module.depthwise_conv": "conv_module.depthwise_conv"},
    }
    for n in range(ELAYERS):
        names |= {f"encoder.encoders.{n}.{one}": f"{base}encoder.layers.{n}.{other}" for one, other in inner.items()}
    model = ESPnetASRModel(wrong)
    loaded = {}
    for name in model.state_dict():
        module, end = name.rsplit(".", 1)
        if module.endswith("linear_qkv"):
            loaded[name] = torch.cat([weights[f"{names[module]}.linear_{part}.{end}"] for part in "qkv"])
        else:
            loaded[name] = weights[f"{names[module]}.{end}"]
    for n in range(ELAYERS):
        mine = f"encoder.encoders.{n}"
        if wrong("second pointwise weight transposed", n):
            second = f"{mine}.conv_module.pointwise_conv2.weight"
            loaded[second] = loaded[second].transpose(0, 1)
    model.load_state_dict(loaded)
    return model


_F = "wav2vec2_conformer.feature_extractor.conv_layers"
_L = "wav2vec2_conformer.encoder.layers.{n}"
PORT = Port(
    name="conformer",
    half="locked",
    style="torch, captured, the way of ESPnet, relative positions by index, padding in front of convolutions",
    build=lambda: Architecture("conformer", reference, waves).build(65),
    result=lambda output: output.logits,
    run=torch_port(espnet),
    faults=(
        fault("waveform normalised", f"{_F}.0.conv:in.0 {_F}.0.conv", "normalise.mean_std"),
        fault("gelu by tanh", f"{_F}.0.activation", "activation.kind"),
        fault("frames padded", f"{_F}.1.conv:in.0 {_F}.1.conv", "conv.padding layout.pad shift.sequence"),
        fault(
            "waves not interleaved",
            "wav2vec2_conformer.encoder.embed_positions",
            "layout.interleave layout.permuted layout.reshape layout.head_order",
        ),
        fault("first half step whole", f"{_L}.mul {_L}.add", "scale.constant op.skipped", 1),
        fault(
            "biases of positions exchanged",
            f"{_L}.self_attn.add {_L}.self_attn.matmul",
            "layout.chunk_swap offset.channel",
            0,
        ),
        fault("distances turned round", f"{_L}.self_attn.add@2:in.other {_L}.self_attn.add@2", "", 0),
        fault(
            "distances one off",
            f"{_L}.self_attn.add@2:in.other {_L}.self_attn.add@2",
            "shift.sequence position.offset",
            1,
        ),
        fault("only content is scaled", f"{_L}.self_attn.add@2 {_L}.self_attn.div", "attention.scale", 1),
        fault("softmax over queries", f"{_L}.self_attn.softmax", "softmax.axis", 0),
        fault(
            "convolution before attention",
            f"{_L}.self_attn_layer_norm:in.0 {_L}.conv_module:in.0",
            "",
            1,
        ),
        fault("convolution without residual", f"{_L}.add@2", "residual.missing", 0),
        fault("gate is the first half", f"{_L}.conv_module.glu", "layout.chunk_swap", 1),
        fault("causal padding", f"{_L}.conv_module.depthwise_conv", "conv.padding shift.sequence", 0),
        fault("statistics of the batch", f"{_L}.conv_module.batch_norm", "norm.batch_statistics", 1),
        fault("relu for swish", f"{_L}.conv_module.activation", "activation.kind", 1),
        fault("second pointwise weight transposed", f"{_L}.conv_module.pointwise_conv2", "weights.transposed", 0),
        fault("eps of the final norm", f"{_L}.final_layer_norm", "norm.eps", 0),
    ),
)
