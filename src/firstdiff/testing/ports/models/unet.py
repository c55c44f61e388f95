"""A denoiser with skips: the reference as diffusers lays it out, the port in torch the way of guided-diffusion."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from firstdiff.testing.ports.port import Port, Wrong, fault, torch_port
from firstdiff.testing.zoo.architectures import Architecture

LOW, HIGH, TIME, GROUPS, HEADS, EPS = 8, 16, 16, 4, 2, 1e-6


class ResnetBlock2D(nn.Module):
    def __init__(self, given: int, made: int) -> None:
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(GROUPS, given, EPS), nn.Conv2d(given, made, 3, padding=1)
        self.time_emb_proj = nn.Linear(TIME, made)
        self.norm2, self.conv2 = nn.GroupNorm(GROUPS, made, EPS), nn.Conv2d(made, made, 3, padding=1)
        self.nonlinearity = nn.SiLU()
        self.conv_shortcut = nn.Conv2d(given, made, 1) if given != made else None

    def forward(self, x: torch.Tensor, temb: torch.Tensor) -> torch.Tensor:
        hidden = self.conv1(self.nonlinearity(self.norm1(x)))
        hidden = hidden + self.time_emb_proj(self.nonlinearity(temb))[:, :, None, None]
        hidden = self.conv2(self.nonlinearity(self.norm2(hidden)))
        return (x if self.conv_shortcut is None else self.conv_shortcut(x)) + hidden


class Attention(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.group_norm = nn.GroupNorm(GROUPS, width, EPS)
        self.to_q, self.to_k, self.to_v = (nn.Linear(width, width) for _ in range(3))
        self.to_out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, width, *_ = x.shape
        hidden = self.group_norm(x).view(batch, width, -1).transpose(1, 2)
        q, k, v = (part(hidden).view(batch, -1, HEADS, width // HEADS) for part in (self.to_q, self.to_k, self.to_v))
        hidden = functional.scaled_dot_product_attention(*(part.transpose(1, 2) for part in (q, k, v)))
        hidden = self.to_out(hidden.transpose(1, 2).reshape(batch, -1, width))
        return hidden.transpose(1, 2).reshape(x.shape) + x


def block(resnets: Iterable[nn.Module], **others: nn.Module) -> nn.Module:
    made = nn.Module()
    made.add_module("resnets", nn.ModuleList(resnets))
    for name, other in others.items():
        made.add_module(name, nn.ModuleList([other]))
    return made


class UNet2D(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv_in = nn.Conv2d(3, LOW, 3, padding=1)
        self.time_embedding = nn.Sequential(nn.Linear(LOW, TIME), nn.SiLU(), nn.Linear(TIME, TIME))
        down = nn.Conv2d(LOW, LOW, 3, stride=2, padding=1)
        self.down_blocks = nn.ModuleList(
            [
                block([ResnetBlock2D(LOW, LOW)], downsamplers=down),
                block([ResnetBlock2D(LOW, HIGH)], attentions=Attention(HIGH)),
            ]
        )
        self.mid_block = block([ResnetBlock2D(HIGH, HIGH) for _ in range(2)], attentions=Attention(HIGH))
        up = nn.Conv2d(HIGH, HIGH, 3, padding=1)
        self.up_blocks = nn.ModuleList(
            [
                block([ResnetBlock2D(2 * HIGH, HIGH), ResnetBlock2D(HIGH + LOW, HIGH)], upsamplers=up),
                block([ResnetBlock2D(HIGH + LOW, LOW), ResnetBlock2D(2 * LOW, LOW)]),
            ]
        )
        self.conv_norm_out, self.conv_act = nn.GroupNorm(GROUPS, LOW, EPS), nn.SiLU()
        self.conv_out = nn.Conv2d(LOW, 3, 3, padding=1)

    def parts(self) -> Any:
        """The blocks without their types, which torch does not know."""
        first, second = self.down_blocks
        return first, second, self.mid_block, self.up_blocks

    def forward(self, sample: torch.Tensor, timestep: torch.Tensor) -> torch.Tensor:
        half = LOW // 2
        angles = timestep[:, None].float() * torch.exp(-math.log(10_000) * torch.arange(half) / half)
        temb = self.time_embedding(torch.cat([angles.cos(), angles.sin()], -1).type_as(sample))
        first, second, mid, ups = self.parts()
        x = self.conv_in(sample)
        skips = [x, x := first.resnets[0](x, temb), x := first.downsamplers[0](x)]
        skips.append(x := second.attentions[0](second.resnets[0](x, temb)))
        x = mid.resnets[1](mid.attentions[0](mid.resnets[0](x, temb)), temb)
        for up in ups:
            for resnet in up.resnets:
                x = resnet(torch.cat([x, skips.pop()], 1), temb)
            if hasattr(up, "upsamplers"):
                x = up.upsamplers[0](functional.interpolate(x, scale_factor=2.0))
        return self.conv_out(self.conv_act(self.conv_norm_out(x)))


def noisy(generator: torch.Generator, batch: int) -> dict[str, Any]:
    sample = torch.randn(batch, 3, 12, 8, generator=generator)
    return {"sample": sample, "timestep": torch.tensor([37, 613, 250][:batch])}


class ResBlock(nn.Module):
    def __init__(self, channels: int, out_channels: int, wrong: Wrong, n: int) -> None:
        super().__init__()
        groups = 2 if wrong("two groups", n) else GROUPS
        eps = 1e-2 if wrong("eps of the first norm", n) else EPS
        act = nn.GELU() if wrong("gelu for silu", n) else nn.SiLU()
        conv = nn.Conv2d(channels, out_channels, 3, padding=1)
        self.in_layers = nn.Sequential(nn.GroupNorm(groups, channels, eps), act, conv)
        first = nn.Identity() if wrong("time embedding not activated", n) else nn.SiLU()
        self.emb_layers = nn.Sequential(first, nn.Linear(TIME, out_channels))
        conv = nn.Conv2d(out_channels, out_channels, 3, padding=1)
        self.out_layers = nn.Sequential(nn.GroupNorm(GROUPS, out_channels, EPS), nn.SiLU(), conv)
        self.skip_connection = nn.Identity() if channels == out_channels else nn.Conv2d(channels, out_channels, 1)
        self.wrong, self.n = wrong, n

    def forward(self, x: torch.Tensor, emb: torch.Tensor) -> torch.Tensor:
        h = self.in_layers(x)
        shift = self.emb_layers(emb)[..., None, None]
        if self.wrong("time added behind the norm", self.n):
            norm, *rest = self.out_layers.children()
            h = norm(h) + shift
            for layer in rest:
                h = layer(h)
        else:
            h = self.out_layers(h + shift)
        if self.wrong("shortcut from the activated input", self.n):
            x = functional.silu(x)
        return self.skip_connection(x) + h


class AttentionBlock(nn.Module):
    def __init__(self, channels: int, wrong: Wrong, n: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(GROUPS, channels, EPS)
        self.qkv, self.proj_out = nn.Conv1d(channels, 3 * channels, 1), nn.Conv1d(channels, channels, 1)
        self.wrong, self.n = wrong, n

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, c, *spatial = x.shape
        flat = x.reshape(b, c, -1)
        qkv = self.qkv(self.norm(flat))
        size = c // HEADS
        if self.wrong("q, k and v cut before heads", self.n):
            q, k, v = (part.reshape(b * HEADS, size, -1) for part in qkv.chunk(3, 1))
        else:
            q, k, v = qkv.reshape(b * HEADS, 3 * size, -1).split(size, 1)
        scale = 1 / math.sqrt(math.sqrt(c if self.wrong("scaled by all channels", self.n) else size))
        weight = torch.einsum("bct,bcs->bts", q * scale, k * scale)
        weight = torch.softmax(weight, -2 if self.wrong("softmax over queries", self.n) else -1)
        h = self.proj_out(torch.einsum("bts,bcs->bct", weight, v).reshape(b, c, -1))
        return (h if self.wrong("attention without residual", self.n) else flat + h).reshape(b, c, *spatial)


class Upsample(nn.Module):
    def __init__(self, channels: int, wrong: Wrong) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)
        self.mode = "bilinear" if wrong("bilinear for nearest") else "nearest"

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(functional.interpolate(x, scale_factor=2, mode=self.mode))


class Downsample(nn.Module):
    def __init__(self, channels: int, wrong: Wrong) -> None:
        super().__init__()
        self.op = nn.Conv2d(channels, channels, 3, stride=2)
        self.pad = (0, 1, 0, 1) if wrong("padded at the end only") else (1, 1, 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.op(functional.pad(x, self.pad))


class TimestepEmbedSequential(nn.Sequential):
    def forward(self, x: torch.Tensor, emb: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        for layer in self:
            x = layer(x, emb) if isinstance(layer, ResBlock) else layer(x)
        return x


class UNetModel(nn.Module):
    def __init__(self, wrong: Wrong) -> None:
        super().__init__()
        self.time_embed = nn.Sequential(nn.Linear(LOW, TIME), nn.SiLU(), nn.Linear(TIME, TIME))
        widths = [(LOW, LOW), (LOW, HIGH), (HIGH, HIGH), (HIGH, HIGH), (2 * HIGH, HIGH), (HIGH + LOW, HIGH)]
        widths += [(HIGH + LOW, LOW), (2 * LOW, LOW)]
        res = [ResBlock(*pair, wrong, n) for n, pair in enumerate(widths)]
        attention = [AttentionBlock(HIGH, wrong, n) for n in range(2)]
        inside = ([nn.Conv2d(3, LOW, 3, padding=1)], [res[0]], [Downsample(LOW, wrong)], [res[1], attention[0]])
        self.input_blocks = nn.ModuleList(TimestepEmbedSequential(*layers) for layers in inside)
        self.middle_block = TimestepEmbedSequential(res[2], attention[1], res[3])
        outside: Any = ([res[4]], [res[5], Upsample(HIGH, wrong)], [res[6]], [res[7]])
        self.output_blocks = nn.ModuleList(TimestepEmbedSequential(*layers) for layers in outside)
        last = nn.Identity() if wrong("last activation missing") else nn.SiLU()
        self.out = nn.Sequential(nn.GroupNorm(GROUPS, LOW, EPS), last, nn.Conv2d(LOW, 3, 3, padding=1))
        self.wrong = wrong

    def forward(self, x: torch.Tensor, timesteps: torch.Tensor) -> torch.Tensor:
        emb = self.time_embed(timestep_embedding(timesteps, self.wrong))
        hs = []
        h = x
        for module in self.input_blocks:
            h = module(h, emb)
            hs.append(h)
        h = self.middle_block(h, emb)
        for n, module in enumerate(self.output_blocks):
            skip = hs[1] if self.wrong("one skip used twice", n) else hs[3 - n]
            parts = [skip, h] if self.wrong("skip before the rest", n) else [h, skip]
            h = module(torch.cat(parts, dim=1), emb)
        return self.out(h)


def timestep_embedding(timesteps: torch.Tensor, wrong: Wrong) -> torch.Tensor:
    half = LOW // 2
    steps = half - 1 if wrong("frequencies end one early") else half
    freqs = torch.exp(-math.log(10000) * torch.arange(0, half, dtype=torch.float32) / steps)
    args = timesteps[:, None].float() * freqs[None]
    parts = [args.sin(), args.cos()] if wrong("sines first") else [args.cos(), args.sin()]
    return torch.cat(parts, dim=-1)


_RES = {
    **{"input_blocks.1.0": "down_blocks.0.resnets.0", "input_blocks.3.0": "down_blocks.1.resnets.0"},
    **{"middle_block.0": "mid_block.resnets.0", "middle_block.2": "mid_block.resnets.1"},
    **{f"output_blocks.{n}.0": f"up_blocks.{n // 2}.resnets.{n % 2}" for n in range(4)},
}
_ATTENTION = {"input_blocks.3.1": "down_blocks.1.attentions.0", "middle_block.1": "mid_block.attentions.0"}
_INNER = {
    **{"in_layers.0": "norm1", "in_layers.2": "conv1", "emb_layers.1": "time_emb_proj", "out_layers.0": "norm2"},
    **{"out_layers.2": "conv2", "skip_connection": "conv_shortcut"},
}


def unet(weights: Mapping[str, torch.Tensor], wrong: Wrong) -> nn.Module:
    names = {
        **{"time_embed.0": "time_embedding.0", "time_embed.2": "time_embedding.2", "input_blocks.0.0": "conv_in"},
        **{"input_blocks.2.0.op": "down_blocks.0.downsamplers.0", "output_blocks.1.1.conv": "up_blocks.0.upsamplers.0"},
        **{"out.0": "conv_norm_out", "out.2": "conv_out"},
    }
    for mine, theirs in _RES.items():
        names |= {f"{mine}.{one}": f"{theirs}.{other}" for one, other in _INNER.items()}
    for mine, theirs in _ATTENTION.items():
        names |= {f"{mine}.norm": f"{theirs}.group_norm", f"{mine}.proj_out": f"{theirs}.to_out", f"{mine}.qkv": theirs}
    model = UNetModel(wrong)
    loaded = {}
    for name, empty in model.state_dict().items():
        module, _, end = name.rpartition(".")
        if module.endswith("qkv"):  # q, k and v of a head beside each other
            parts = [weights[f"{names[module]}.to_{part}.{end}"] for part in "qkv"]
            values = torch.stack([part.reshape(HEADS, -1, *part.shape[1:]) for part in parts], 1).flatten(0, 2)
        else:
            values = weights[f"{names[module]}.{end}"]
        loaded[name] = values.reshape(empty.shape)
    for n, mine in enumerate(_RES):
        if wrong("kernel turned", n):
            loaded[f"{mine}.out_layers.2.weight"] = loaded[f"{mine}.out_layers.2.weight"].mT
    model.load_state_dict(loaded)
    return model


def _res(n: int) -> str:
    return list(_RES.values())[n]


def _attention(n: int) -> str:
    return list(_ATTENTION.values())[n]


_SDPA = "scaled_dot_product_attention"
PORT = Port(
    name="unet",
    half="open",
    style="torch, captured, the way of guided-diffusion",
    build=lambda: Architecture("unet", UNet2D, noisy).build(58),
    result=lambda output: output,
    run=torch_port(unet),
    faults=(
        fault("sines first", "time_embedding:in.0 time_embedding.0", "layout.chunk_swap"),
        fault("frequencies end one early", "root.div root.exp", "rope.base"),
        fault("bilinear for nearest", "root.interpolate", "resize.mode"),
        fault("padded at the end only", "down_blocks.0.downsamplers.0", "conv.padding shift.sequence"),
        fault(
            "time embedding not activated",
            f"{_res(1)}.nonlinearity@1 {_res(1)}.time_emb_proj",
            "activation.missing",
            layer=1,
        ),
        fault("time added behind the norm", f"{_res(2)}.add {_res(2)}.norm2", "", layer=2),
        fault("kernel turned", f"{_res(3)}.conv2", "weights.transposed weights.differ", layer=3),
        fault("eps of the first norm", f"{_res(4)}.norm1", "norm.eps", layer=4),
        fault("two groups", f"{_res(5)}.norm1", "norm.groups", layer=5),
        fault(
            "shortcut from the activated input",
            f"{_res(6)}.conv_shortcut:in.0 {_res(6)}.conv_shortcut",
            "activation.extra",
            layer=6,
        ),
        fault("gelu for silu", f"{_res(7)}.nonlinearity", "activation.kind", layer=7),
        fault(
            "q, k and v cut before heads",
            f"{_attention(0)}.{_SDPA}:in.query {_attention(0)}.{_SDPA}",
            "layout.qkv_order layout.head_order layout.reshape",
            layer=0,
        ),
        fault("scaled by all channels", f"{_attention(1)}.{_SDPA}", "attention.scale", layer=1),
        fault("softmax over queries", f"{_attention(1)}.{_SDPA}", "softmax.axis", layer=1),
        fault("attention without residual", f"{_attention(0)}.add {_attention(0)}", "residual.missing", layer=0),
        fault("one skip used twice", "root.cat@4 up_blocks.1.resnets.1.norm1:in.0", "values.stale", layer=3),
        fault("skip before the rest", "root.cat@1 up_blocks.0.resnets.0.norm1", "layout.chunk_swap", layer=0),
        fault("last activation missing", "conv_act conv_out", "activation.missing op.skipped"),
    ),
)
