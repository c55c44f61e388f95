"""OPT in torch as one flat function: parameters in a dictionary, `F.*` calls only, queries with their scale."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from firstdiff.testing.ports.port import Port, Wrong, fault, torch_port
from firstdiff.testing.zoo.architectures import Architecture

D, H, FF, N, V, T = 32, 4, 48, 3, 80, 10


def reference() -> nn.Module:
    tf: Any = import_module("transformers")
    config = tf.OPTConfig(
        **{"vocab_size": V, "hidden_size": D, "num_hidden_layers": N, "ffn_dim": FF, "num_attention_heads": H},
        **{
            "max_position_embeddings": 32,
            "word_embed_proj_dim": 16,
            "attn_implementation": "eager",
            "use_cache": False,
        },
    )
    made: nn.Module = tf.OPTForCausalLM(config)
    return made


def prompts(generator: torch.Generator, batch: int) -> dict[str, Any]:
    """Texts of different lengths, filled up on the left."""
    ids = torch.randint(4, V, (batch, T), generator=generator)
    mask = torch.ones_like(ids)
    mask[-1, :3] = 0
    return {"input_ids": ids.masked_fill(mask == 0, 1), "attention_mask": mask}


class OPT(nn.Module):
    def __init__(self, params: Mapping[str, torch.Tensor], wrong: Wrong) -> None:
        super().__init__()
        self.p = nn.ParameterDict({name: nn.Parameter(values) for name, values in params.items()})
        self.wrong = wrong

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        p, wrong = self.p, self.wrong
        b, t = ids.shape
        x = F.linear(F.embedding(ids, p["wte"]), p["w_in"])
        pos = (mask.cumsum(1) * mask - 1).long()
        if wrong("positions count the padding"):
            pos = torch.arange(t).expand(b, t)
        x = x + F.embedding(pos + (1 if wrong("positions one early") else 2), p["wpe"])
        visible = torch.ones(t, t, dtype=torch.bool).tril()
        keep = visible if wrong("padding is seen") else visible & mask[:, None, None, :].bool()
        for n in range(N):
            ahead = torch.ones(t, t, dtype=torch.bool).tril(1) & mask[:, None, None, :].bool()
            y = F.layer_norm(x, (D,), p[f"ln1_w{n}"], p[f"ln1_b{n}"])
            q = F.linear(y, p[f"q_w{n}"], p[f"q_b{n}"])
            k, v = F.linear(y, p[f"kv_w{n}"], p[f"kv_b{n}"]).chunk(2, -1)
            if wrong("keys in bfloat16", n):
                k = k.bfloat16().float()
            q, k, v = (part.reshape(b, t, H, D // H).transpose(1, 2) for part in (q, k, v))
            s = q @ k.mT
            if wrong("scaled once more", n):
                s = s * (D // H) ** -0.5
            s = s.masked_fill(~(ahead if wrong("one token ahead is seen", n) else keep), torch.finfo(s.dtype).min)
            a = (F.softmax(s, -1) @ v).transpose(1, 2).reshape(b, t, D)
            a = F.linear(a, p[f"o_w{n}"], p[f"o_b{n}"])
            x = (y if wrong("residual from the norm", n) else x) + a
            left_out = wrong("no norm before the feed-forward", n)
            y = x if left_out else F.layer_norm(x, (D,), p[f"ln2_w{n}"], p[f"ln2_b{n}"])
            h = F.linear(y, p[f"up_w{n}"], p[f"up_b{n}"])
            h = F.gelu(h) if wrong("gelu for relu", n) else F.relu(h)
            h = F.linear(h, p[f"down_w{n}"], p[f"down_b{n}"])
            x = x + (F.relu(h) if wrong("relu after the second product", n) else h)
        x = F.layer_norm(x, (D,), p["ln_w"], p["ln_b"], 1e-1 if wrong("eps of the final norm") else 1e-5)
        return F.linear(F.linear(x, p["w_out"]), p["wte"])


def opt(weights: Mapping[str, torch.Tensor], wrong: Wrong) -> nn.Module:
    base = "model.decoder."
    params = {
        "wte": weights[f"{base}embed_tokens.weight"],
        "wpe": weights[f"{base}embed_positions.weight"],
        "w_in": weights[f"{base}project_in.weight"],
        "w_out": weights[f"{base}project_out.weight"],
    }
    for short, end in (("w", "weight"), ("b", "bias")):
        params[f"ln_{short}"] = weights[f"{base}final_layer_norm.{end}"]
        for n in range(N):
            layer = f"{base}layers.{n}"
            params[f"ln1_{short}{n}"] = weights[f"{layer}.self_attn_layer_norm.{end}"]
            params[f"ln2_{short}{n}"] = weights[f"{layer}.final_layer_norm.{end}"]
            params[f"q_{short}{n}"] = weights[f"{layer}.self_attn.q_proj.{end}"] * (D // H) ** -0.5
            params[f"kv_{short}{n}"] = torch.cat([weights[f"{layer}.self_attn.{part}_proj.{end}"] for part in "kv"])
            params[f"o_{short}{n}"] = weights[f"{layer}.self_attn.out_proj.{end}"]
            source = f"{base}layers.{n - 1}" if wrong("feed-forward of the layer before", n) else layer
            params[f"up_{short}{n}"] = weights[f"{source}.fc1.{end}"]
            params[f"down_{short}{n}"] = weights[f"{source}.fc2.{end}"]
    for n in range(N):
        if wrong("output weight transposed", n):
            params[f"o_w{n}"] = params[f"o_w{n}"].T
        if wrong("value bias missing", n):
            params[f"kv_b{n}"] = torch.cat([params[f"kv_b{n}"][:D], torch.zeros(D)])
        if wrong("scale not folded into the bias", n):
            params[f"q_b{n}"] = weights[f"{base}layers.{n}.self_attn.q_proj.bias"]
    return OPT(params, wrong)


_D = "model.decoder"
_L = "model.decoder.layers.{n}"
PORT = Port(
    name="opt",
    half="open",
    style="torch, captured, one flat function, parameters in a dictionary",
    build=lambda: Architecture("opt", reference, prompts).build(51),
    result=lambda output: output.logits,
    run=torch_port(opt),
    faults=(
        fault("positions count the padding", f"{_D}.embed_positions.add {_D}.embed_positions", "position.offset"),
        fault(
            "positions one early",
            f"{_D}.embed_positions.add {_D}.embed_positions",
            "position.offset offset.constant shift.sequence",
        ),
        fault("padding is seen", f"{_D}.layers.0.self_attn.add {_D}.layers.0.self_attn.softmax", "attention.mask"),
        fault("keys in bfloat16", f"{_L}.self_attn.k_proj {_L}.self_attn.matmul", "dtype.bf16", layer=1),
        fault("scaled once more", f"{_L}.self_attn.add {_L}.self_attn.softmax", "attention.scale", layer=0),
        fault("one token ahead is seen", f"{_L}.self_attn.add {_L}.self_attn.softmax", "attention.mask", layer=2),
        fault("residual from the norm", f"{_L}.add", "residual.missing values.stale", layer=1),
        fault("no norm before the feed-forward", f"{_L}.final_layer_norm {_L}.fc1", "op.skipped", layer=2),
        fault("gelu for relu", f"{_L}.activation_fn {_L}.fc2", "activation.kind", layer=2),
        fault("relu after the second product", f"{_L}.add@1", "activation.extra", layer=0),
        fault("eps of the final norm", f"{_D}.final_layer_norm", "norm.eps"),
        fault("feed-forward of the layer before", f"{_L}.fc1", "weights.differ", layer=2),
        fault("output weight transposed", f"{_L}.self_attn.out_proj", "weights.transposed", layer=1),
        fault("value bias missing", f"{_L}.self_attn.v_proj", "bias.missing", layer=2),
        fault("scale not folded into the bias", f"{_L}.self_attn.mul", "weights.differ offset.channel", layer=0),
    ),
)
