"""A keyword spotter: sound to mel bands to convolutions, in numpy, frames first and convolutions as products."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from firstdiff.testing.ports.mathematics import gelu, gelu_tanh
from firstdiff.testing.ports.port import Array, Port, Tap, Weights, Wrong, fault, numpy_port
from firstdiff.testing.zoo.architectures import Architecture

RATE, FFT, HOP, MELS, CHANNELS, CLASSES, SAMPLES = 8000, 64, 16, 12, 20, 6, 800


def mel_filters() -> np.ndarray:
    """Triangles over frequency, as tall as librosa's with `norm=None`."""
    highest = float(2595 * np.log10(1 + RATE / 2 / 700))
    centres = 700 * (10 ** (np.linspace(0.0, highest, MELS + 2) / 2595) - 1)
    bins = np.linspace(0, RATE / 2, FFT // 2 + 1)
    rise = (bins[:, None] - centres[:-2]) / (centres[1:-1] - centres[:-2])
    fall = (centres[2:] - bins[:, None]) / (centres[2:] - centres[1:-1])
    return np.maximum(0, np.minimum(rise, fall)).astype(np.float32)


class MelSpectrogram(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(FFT))
        self.register_buffer("filters", torch.from_numpy(mel_filters()))

    def forward(self, wave: torch.Tensor) -> torch.Tensor:
        spectrum = torch.stft(wave, FFT, HOP, window=self.window, return_complex=True)  # type: ignore[arg-type]
        power = spectrum.abs().pow(2)
        mel = torch.matmul(power.transpose(1, 2), self.filters)  # type: ignore[arg-type]
        return torch.clamp(mel, min=1e-5).log()


class KeywordSpotter(nn.Module):
    """Log mel bands, two convolutions, the mean over time, classes."""

    def __init__(self) -> None:
        super().__init__()
        self.mel = MelSpectrogram()
        self.register_buffer("mean", torch.linspace(-1, 1, MELS))
        self.register_buffer("std", torch.linspace(1.5, 2.5, MELS))
        self.conv1 = nn.Conv1d(MELS, CHANNELS, 5, stride=2, padding=2)
        self.norm1 = nn.BatchNorm1d(CHANNELS)
        self.conv2 = nn.Conv1d(CHANNELS, CHANNELS, 3, padding=2, dilation=2)
        self.act = nn.GELU()
        self.classes = nn.Linear(CHANNELS, CLASSES)

    def forward(self, wave: torch.Tensor) -> torch.Tensor:
        mel = self.mel(wave)
        mel = (mel - self.mean) / self.std
        x = functional.relu(self.norm1(self.conv1(mel.transpose(1, 2))))
        x = self.act(self.conv2(x)) + x
        return self.classes(x.mean(-1))


def waves(generator: torch.Generator, batch: int) -> dict[str, torch.Tensor]:
    time = torch.arange(SAMPLES) / RATE
    pitch = 200 + 900 * torch.rand(batch, 3, 1, generator=generator)
    tones = torch.sin(2 * torch.pi * pitch * time).sum(1) * torch.linspace(0.2, 1, SAMPLES)
    return {"wave": 0.2 * tones + 0.05 * torch.randn(batch, SAMPLES, generator=generator)}


def spot(w: Weights, inputs: dict[str, Array], tap: Tap, wrong: Wrong) -> Array:
    logmel = tap("feat/logmel", log_mel(inputs["wave"], tap, wrong))
    if wrong("normalised by itself"):
        feat = (logmel - logmel.mean(1, keepdims=True)) / logmel.std(1, keepdims=True)
    elif wrong("mean only taken away"):
        feat = logmel - w["mean"]
    else:
        feat = (logmel - w["mean"]) / (w["std"] ** 2 if wrong("divided by the variance") else w["std"])
    feat = tap("feat/cmvn", feat)
    pad = (0, 4) if wrong("padding at the end only") else (2, 2)
    x = tap("net/c1", conv(feat, w["conv1.weight"], w["conv1.bias"], pad, stride=2, wrong=wrong))
    scale = w["norm1.weight"] / np.sqrt(w["norm1.running_var"] + np.float32(1e-3 if wrong("norm eps") else 1e-5))
    x = x * scale + (w["norm1.bias"] - w["norm1.running_mean"] * scale)
    x = tap("net/bn1", x)
    x = tap("net/r1", np.where(x > 0, x, 0.01 * x).astype(np.float32) if wrong("leaky relu") else np.maximum(x, 0))
    dilation = 1 if wrong("dilation missing") else 2
    y = tap("net/c2", conv(x, w["conv2.weight"], w["conv2.bias"], (dilation, dilation), dilation=dilation))
    y = tap("net/g2", gelu_tanh(y) if wrong("tanh gelu") else gelu(y))
    x = y if wrong("residual missing") else x + y
    pooled = tap("net/pool", x.max(1) if wrong("largest instead of mean") else x.mean(1))
    return tap("net/out", pooled @ w["classes.weight"].T + w["classes.bias"])


def log_mel(wave: Array, tap: Tap, wrong: Wrong) -> Array:
    half = FFT // 2
    if wrong("padded with zeros"):
        padded = np.pad(wave, ((0, 0), (half, half)))
    elif wrong("frames not centred"):
        padded = np.pad(wave, ((0, 0), (0, FFT)))
    else:
        padded = np.pad(wave, ((0, 0), (half, half)), mode="reflect")
    count = 1 + wave.shape[1] // HOP
    hop = HOP - 1 if wrong("hop") else HOP
    frames = np.stack([padded[:, start : start + FFT] for start in range(0, count * hop, hop)][:count], 1)
    length = FFT - 1 if wrong("symmetric window") else FFT
    window = (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(FFT) / length)).astype(np.float32)
    if wrong("hamming window"):
        window = (0.54 - 0.46 * np.cos(2 * np.pi * np.arange(FFT) / FFT)).astype(np.float32)
    spectrum = np.fft.rfft(frames * window).astype(np.complex64)
    amplitude = np.abs(spectrum)
    power = tap("feat/power", amplitude if wrong("amplitude for power") else amplitude**2)
    filters = mel_filters()
    if wrong("filters of equal area"):
        filters = filters / filters.sum(0)
    mel = tap("feat/mel", power @ filters)
    floor = np.float32(1e-2 if wrong("floor of the logarithm") else 1e-5)
    logmel = np.log(np.maximum(mel, floor))
    return logmel / np.log(np.float32(10)) if wrong("logarithm to base 10") else logmel


def conv(
    x: Array,
    kernel: Array,
    bias: Array,
    pad: tuple[int, int],
    stride: int = 1,
    dilation: int = 1,
    wrong: Wrong | None = None,
) -> Array:
    """A convolution over time, channels last: windows as rows, one product."""
    width = kernel.shape[2]
    padded = np.pad(x, ((0, 0), pad, (0, 0)))
    count = (padded.shape[1] - dilation * (width - 1) - 1) // stride + 1
    taps = np.arange(count)[:, None] * stride + np.arange(width) * dilation
    rows = padded[:, taps].reshape(len(x), count, -1)
    weight = kernel.transpose(2, 1, 0)
    if wrong is not None and wrong("kernel flipped"):
        weight = weight[::-1]
    return rows @ weight.reshape(-1, len(kernel)) + bias


_NORMALISED = "root.div"
PORT = Port(
    name="spectral",
    half="open",
    style="numpy taps, frames first, convolutions as products",
    build=lambda: Architecture("spectral", KeywordSpotter, waves).build(17),
    result=lambda output: output,
    run=numpy_port(spot),
    faults=(
        fault("normalised by itself", _NORMALISED, "normalise.mean_std"),
        fault(
            "divided by the variance",
            _NORMALISED,
            "normalise.mean_std scale.channel",
        ),
        fault("mean only taken away", _NORMALISED, "normalise.mean_std scale.channel"),
        fault("padding at the end only", "conv1", "shift.sequence conv.padding"),
        fault("norm eps", "norm1", "norm.eps scale.channel"),
        fault("leaky relu", "root.relu", "activation.kind"),
        fault("dilation missing", "conv2", "conv.dilation"),
        fault("tanh gelu", "act", "activation.kind"),
        fault("residual missing", "root.mean classes:in.0", "residual.missing"),
        fault("largest instead of mean", "root.mean classes:in.0", "pool.kind"),
        fault("padded with zeros", "mel.pow", ""),
        fault("frames not centred", "mel.pow", "shift.sequence audio.delay"),
        fault("hop", "mel.pow", "audio.hop"),
        fault("symmetric window", "mel.pow", "audio.window"),
        fault("hamming window", "mel.pow", "audio.window"),
        fault("amplitude for power", "mel.pow", "audio.power"),
        fault("filters of equal area", "mel.matmul", "scale.channel weights.differ"),
        fault("floor of the logarithm", "mel.log mel", "values.clipped"),
        fault("logarithm to base 10", "mel", "audio.log_base scale.constant"),
        fault("kernel flipped", "conv1", "conv.flipped weights.differ"),
    ),
)
