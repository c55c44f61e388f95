"""The whole pipeline, its seeded weights and its files."""

from __future__ import annotations

import json
import math
import wave
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

import firstdiff as fd
from firstdiff.rng import Rng
from tts import tokenizer
from tts.encoders import Semantic, Speaker
from tts.flow import Flow, noise_for
from tts.gpt import GPT, START, Generation
from tts.mel import SAMPLE_RATE, MelSpectrogram
from tts.vocoder import FRAME, Vocoder

WEIGHTS_SEED, SEED = 7, 42
CODES_AT_LEAST = 8
NORMED = {"parametrizations.weight.original0": "weight_g", "parametrizations.weight.original1": "weight_v"}


class InputError(Exception):
    """An input that cannot be used, in one sentence."""


class Pipeline(nn.Module):
    """ids [1, tokens] and a voice [samples] -> sound [1, samples]"""

    def __init__(self) -> None:
        super().__init__()
        self.mel, self.speaker, self.semantic = MelSpectrogram(), Speaker(), Semantic()
        self.gpt, self.flow, self.vocoder = GPT(), Flow(), Vocoder()

    def forward(self, ids: Tensor, voice: Tensor) -> Tensor:
        fd.tap("tokenizer.ids", ids)
        mel = self.mel(voice)
        speaker, semantic = self.speaker(mel), self.semantic(mel)
        self.gpt(speaker, semantic, ids, torch.full((1, 1), START))
        count = CODES_AT_LEAST + ids.shape[1] // 2
        codes, latents = self.generation(speaker, semantic, ids, count, SEED)
        fd.tap("gpt.codes", codes)
        fd.tap("gpt.latents", latents)
        noise = fd.tap("flow.noise", noise_for(count, SEED))
        return self.vocoder(self.flow(latents, mel, speaker, noise))

    @classmethod
    def load(cls, folder: Path) -> Pipeline:
        """Return the pipeline with the weights of a folder that `write_model` wrote."""
        path = folder / "model.safetensors"
        if not path.is_file():
            raise InputError(f"{path} is not there: run `python make_model.py` first")
        pipeline = cls().eval()
        names = {_stored_name(name): name for name in pipeline.state_dict()}
        pipeline.load_state_dict({names[stored]: values for stored, values in load_file(path).items()})
        pipeline.generation = Generation(pipeline.gpt)
        return pipeline


def _stored_name(name: str) -> str:
    for parametrized, plain in NORMED.items():
        name = name.replace(parametrized, plain)
    return name


def write_model(folder: Path) -> None:
    """Write weights, vocabulary, merges and a voice of three seconds; the same bytes each time."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = Rng(WEIGHTS_SEED)
    state = {_stored_name(name): values for name, values in Pipeline().state_dict().items()}
    weights = {name: _initial(name, tuple(values.shape), rng) for name, values in sorted(state.items())}
    weights["vocoder.post.weight_v"] = _harmonics(tuple(state["vocoder.post.weight_v"].shape), rng)
    save_file(
        {name: torch.from_numpy(values).float() for name, values in weights.items()}, folder / "model.safetensors"
    )
    vocabulary, merges = tokenizer.train()
    text = json.dumps(vocabulary, ensure_ascii=False, indent=0)
    (folder / "vocab.json").write_text(text, encoding="utf-8")
    lines = ["#version: 0.2", *(" ".join(pair) for pair in merges), ""]
    (folder / "merges.txt").write_text("\n".join(lines), encoding="utf-8")
    write_wav(folder / "voice.wav", voice())


def _initial(name: str, shape: tuple[int, ...], rng: Rng) -> np.ndarray:
    """Values that keep the size of what goes through: 1 / sqrt(inputs) for products, about 1 for scales."""
    drawn = np.asarray(rng.normal(shape))
    if name.endswith("weight_g"):
        return 0.8 + 0.1 * drawn
    if name.endswith("bias"):
        return 0.1 * drawn
    if len(shape) == 1:
        return 1 + 0.1 * drawn
    if ".prompt." in name and not name.startswith(("gpt.prompt.speaker", "gpt.prompt.semantic")):
        return 0.5 * drawn
    return drawn / math.sqrt(math.prod(shape[1:]))


def _harmonics(shape: tuple[int, ...], rng: Rng) -> np.ndarray:
    """Rows are samples of a frame: each channel adds a wave of its own, so that the sound is a chord and no noise."""
    samples = np.arange(FRAME)[:, None, None]
    frequencies = np.linspace(1, 8, shape[1])[None, :, None]
    phases = rng.uniform((1, *shape[1:]))
    return np.sin(2 * np.pi * (samples * frequencies / FRAME + phases)) / math.sqrt(math.prod(shape[1:]))


def voice(seconds: float = 3.0) -> np.ndarray:
    """Return a voice: a gliding tone with overtones in syllables, and a little noise."""
    time = np.arange(int(seconds * SAMPLE_RATE)) / SAMPLE_RATE
    phase = 2 * np.pi * np.cumsum(140 + 12 * np.sin(2 * np.pi * 0.7 * time)) / SAMPLE_RATE
    tone = sum(np.sin(k * phase) / k * (1 + 0.5 * np.sin(2 * np.pi * (1.1 + 0.3 * k) * time)) for k in range(1, 12))
    syllables = 0.6 + 0.4 * np.sin(2 * np.pi * 3.1 * time)
    return 0.375 * syllables * tone + 0.003 * np.asarray(Rng(WEIGHTS_SEED, 1).normal(len(time)))


def write_wav(path: Path, samples: np.ndarray) -> None:
    """Write 16-bit mono sound."""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(SAMPLE_RATE)
        file.writeframes(np.round(np.clip(samples, -1, 1) * 32767).astype("<i2").tobytes())


def read_wav(path: Path) -> Tensor:
    """Return the samples of a 16-bit mono file at 22,050 Hz."""
    try:
        with wave.open(str(path), "rb") as file:
            kind = file.getnchannels(), file.getsampwidth(), file.getframerate()
            samples = np.frombuffer(file.readframes(file.getnframes()), "<i2")
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror or error})") from error
    except (EOFError, wave.Error) as error:
        raise InputError(f"{path} cannot be read as a wav file ({str(error) or 'it ends too early'})") from error
    if kind != (1, 2, SAMPLE_RATE):
        found = f"{kind[0]} channel(s) of {8 * kind[1]} bits at {kind[2]} Hz"
        raise InputError(f"{path} has {found}; it takes one channel of 16 bits at {SAMPLE_RATE} Hz")
    if len(samples) < SAMPLE_RATE // 2:
        raise InputError(f"{path} has {len(samples)} samples; a voice of half a second ({SAMPLE_RATE // 2}) is needed")
    return torch.from_numpy(samples.astype(np.float32) / 32768)
