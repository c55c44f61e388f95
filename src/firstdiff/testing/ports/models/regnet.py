"""RegNet-Y in torch for inference: batch norms folded into convolutions, additions in place, a flat list of blocks."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from firstdiff.testing.ports.port import Port, Wrong, fault, torch_port
from firstdiff.testing.zoo.architectures import Architecture, Built

STEM, WIDTHS, GROUP, LABELS = 8, (16, 32), 8, 5
BLOCKS = [f"regnet.encoder.stages.{stage}.layers.{layer}" for stage in range(2) for layer in range(2)]


def reference() -> nn.Module:
    tf: Any = import_module("transformers")
    config = tf.RegNetConfig(
        **{"embedding_size": STEM, "hidden_sizes": list(WIDTHS), "depths": [2, 2], "groups_width": GROUP},
        **{"layer_type": "y", "num_labels": LABELS},
    )
    made: nn.Module = tf.RegNetForImageClassification(config)
    return made


def pictures(generator: torch.Generator, batch: int) -> dict[str, Any]:
    return {"pixel_values": torch.randn(batch, 3, 26, 34, generator=generator)}


def build() -> Built:
    """Gather the statistics of the batch norms from other pictures, as training would."""
    built = Architecture("regnet", reference, pictures).build(63)
    for module in built.model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.reset_running_stats()
            module.momentum = None
    built.model.train()
    with torch.no_grad():
        built.model(**pictures(torch.Generator().manual_seed(630), 4))
    built.model.eval()
    return built


class ConvBnAct(nn.Module):
    """A convolution with its batch norm folded in, and ReLU."""

    w: torch.Tensor
    b: torch.Tensor

    def __init__(
        self, params: Mapping[str, torch.Tensor], src: str, wrong: Wrong, tag: str, n: int, stride: int, relu: bool
    ) -> None:
        super().__init__()
        w = params[f"{src}.convolution.weight"]
        gamma, beta, mean, var = (
            params[f"{src}.normalization.{part}"] for part in ("weight", "bias", "running_mean", "running_var")
        )
        if tag == "b" and wrong("kernel flipped", n):
            w = w.flip(2, 3)
        if tag == "c" and wrong("1x1 weight transposed", n):
            w = w.transpose(0, 1)
        eps = 1e-3 if tag == "b" and wrong("eps of the folded norm", n) else 1e-5
        std = var + eps if tag == "a" and wrong("folded with the variance", n) else torch.sqrt(var + eps)
        if tag == "down" and wrong("running mean not folded", n):
            mean = torch.zeros_like(mean)
        if tag == "c" and wrong("bias of the norm left out", n):
            beta = torch.zeros_like(beta)
        self.register_buffer("w", w * (gamma / std)[:, None, None, None])
        self.register_buffer("b", beta - mean * gamma / std)
        self.stride, self.relu = stride, relu
        self.pad = (w.shape[-1] // 2,) * 4
        if tag == "stem" and wrong("padded like TensorFlow"):
            self.pad = (0, 1, 0, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.conv2d(F.pad(x, self.pad), self.w, self.b, self.stride, groups=x.shape[1] // self.w.shape[1])
        return F.relu(y, inplace=True) if self.relu else y


class Block(nn.Module):
    def __init__(self, params: Mapping[str, torch.Tensor], wrong: Wrong, n: int) -> None:
        super().__init__()
        src, stride = BLOCKS[n], 1 if n % 2 else 2
        middle = f"{BLOCKS[n - 1]}.layer.1" if wrong("weights of the block before", n) else f"{src}.layer.1"
        first, second = (stride, 1) if wrong("stride in the first convolution", n) else (1, stride)
        self.a = ConvBnAct(params, f"{src}.layer.0", wrong, "a", n, first, relu=True)
        self.b = ConvBnAct(params, middle, wrong, "b", n, second, relu=True)
        self.c = ConvBnAct(params, f"{src}.layer.3", wrong, "c", n, 1, relu=False)
        self.down = ConvBnAct(params, f"{src}.shortcut", wrong, "down", n, 2, relu=False) if stride == 2 else None
        squeeze, excite = (params[f"{src}.layer.2.attention.{i}.weight"].flatten(1) for i in (0, 2))
        inner, width = squeeze.shape
        self.fc1, self.fc2 = nn.Linear(width, inner), nn.Linear(inner, width)
        self.fc1.load_state_dict({"weight": squeeze, "bias": params[f"{src}.layer.2.attention.0.bias"]})
        self.fc2.load_state_dict({"weight": excite, "bias": params[f"{src}.layer.2.attention.2.bias"]})
        self.wrong, self.n = wrong, n

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wrong, n = self.wrong, self.n
        y = self.b(self.a(x))
        pooled = y.amax((2, 3)) if wrong("squeezed by the greatest", n) else y.mean((2, 3))
        s = self.fc1(pooled)
        s = self.fc2(s if wrong("no relu in the squeeze", n) else s.relu())
        s = F.hardsigmoid(s) if wrong("hard sigmoid", n) else s.sigmoid()
        if wrong("excitation added", n):
            y += s[:, :, None, None]
        else:
            y *= s[:, :, None, None]
        y = self.c(y)
        if wrong("relu before the addition", n):
            y = F.relu(y)
        if not wrong("shortcut forgotten", n):
            y += x if self.down is None else self.down(x)
        return y if wrong("last relu missing", n) else F.relu(y, inplace=True)


class RegNetY(nn.Module):
    def __init__(self, params: Mapping[str, torch.Tensor], wrong: Wrong) -> None:
        super().__init__()
        self.stem = ConvBnAct(params, "regnet.embedder.embedder", wrong, "stem", 0, 2, relu=True)
        self.trunk = nn.Sequential(*(Block(params, wrong, n) for n in range(len(BLOCKS))))
        self.fc = nn.Linear(WIDTHS[-1], LABELS)
        self.fc.load_state_dict({"weight": params["classifier.1.weight"], "bias": params["classifier.1.bias"]})
        self.wrong = wrong

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        if self.wrong("channels as BGR"):
            image = image.flip(1)
        features = self.trunk(self.stem(image))
        pooled = features.flatten(2).mean(-1)
        return self.fc(pooled)


def _block(n: int) -> str:
    return BLOCKS[n]


_STEM = "regnet.embedder.embedder"
PORT = Port(
    name="regnet",
    half="open",
    style="torch, captured, batch norms folded into convolutions, additions in place",
    build=build,
    result=lambda output: output.logits,
    run=torch_port(RegNetY),
    faults=(
        fault("channels as BGR", f"{_STEM}.convolution:in.0 {_STEM}.normalization", "layout.reversed layout.permuted"),
        fault("padded like TensorFlow", f"{_STEM}.normalization", "conv.padding conv.stride shift.sequence"),
        fault(
            "running mean not folded",
            f"{_block(0)}.shortcut.normalization",
            "offset.channel bias.missing weights.differ",
            0,
        ),
        fault("hard sigmoid", f"{_block(0)}.layer.2.attention.3", "activation.kind", 0),
        fault("relu before the addition", f"{_block(0)}.add", "activation.extra", 0),
        fault("eps of the folded norm", f"{_block(1)}.layer.1.normalization", "norm.eps weights.differ", 1),
        fault("excitation added", f"{_block(1)}.layer.2.mul", "", 1),
        fault("1x1 weight transposed", f"{_block(1)}.layer.3.normalization", "weights.transposed weights.differ", 1),
        fault("shortcut forgotten", f"{_block(1)}.add {_block(1)}.activation", "residual.missing", 1),
        fault("stride in the first convolution", f"{_block(2)}.layer.0.normalization", "conv.stride", 2),
        fault(
            "folded with the variance",
            f"{_block(2)}.layer.0.normalization",
            "norm.variance scale.channel weights.differ",
            2,
        ),
        fault(
            "no relu in the squeeze",
            f"{_block(2)}.layer.2.attention.1 {_block(2)}.layer.2.attention.2",
            "activation.missing",
            2,
        ),
        fault("kernel flipped", f"{_block(2)}.layer.1.normalization", "conv.flipped weights.differ", 2),
        fault("weights of the block before", f"{_block(3)}.layer.1.normalization", "weights.differ", 3),
        fault("squeezed by the greatest", f"{_block(3)}.layer.2.pooler", "pool.kind", 3),
        fault(
            "bias of the norm left out",
            f"{_block(3)}.layer.3.normalization",
            "bias.missing offset.channel norm.affine",
            3,
        ),
        fault("last relu missing", f"{_block(3)}.activation regnet.pooler", "activation.missing", 3),
    ),
)
