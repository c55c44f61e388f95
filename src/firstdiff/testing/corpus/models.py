"""The models of the corpus, in two halves: limits are chosen on one and scored on the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

from firstdiff.testing.corpus import trained
from firstdiff.testing.corpus.generated import generated
from firstdiff.testing.zoo.architectures import ARCHITECTURES, Built

Half = Literal["choose", "score"]


@dataclass(frozen=True, slots=True)
class CorpusModel:
    """A model with its inputs.

    half: which half it belongs to
    seed: chooses the inputs, and random weights
    skip: variations that take too long for so many layers, or that it cannot run in
    """

    name: str
    half: Half
    build: Callable[[int], Built]
    seed: int = 0
    trained: bool = False
    skip: frozenset[str] = frozenset()


def _generated(kind: str, layers: int, half: Half, *, massive: bool = False) -> CorpusModel:
    name = f"{kind}, {layers} layers{', massive' if massive else ''}"
    return CorpusModel(name, half, partial(_build_generated, kind, layers, massive))


def _build_generated(kind: str, layers: int, massive: bool, seed: int) -> Built:
    return generated(kind, layers, seed, massive=massive)


def _zoo(name: str, half: Half, skip: frozenset[str] = frozenset()) -> CorpusModel:
    return CorpusModel(f"zoo's {name}", half, ARCHITECTURES[name].build, skip=skip)


_IN_HALF = frozenset({"bf16", "fp16", "order, bf16", "sdpa, bf16", "batch, bf16"})  # torch has no FFT in those types
_LONG = frozenset({"cached steps", "compile", "left padding", "right padding", "batch", "batch, bf16", "export"})
MODELS: dict[str, CorpusModel] = {
    model.name: model
    for model in (
        CorpusModel("SmolLM2-135M", "choose", trained.smollm2, trained=True, skip=_LONG),
        _generated("gpt2", 3, "choose", massive=True),
        _generated("qwen2", 28, "choose", massive=True),
        _generated("bert", 8, "choose"),
        _generated("opt", 4, "choose", massive=True),
        _generated("t5", 2, "choose"),
        _generated("vit", 6, "choose"),
        _zoo("vocoder", "choose", _IN_HALF),
        _zoo("whisper", "choose"),
        CorpusModel("MiniLM-L6", "score", trained.minilm, seed=1, trained=True),
        CorpusModel("MiniLM-L6, other text", "score", trained.minilm, seed=13, trained=True),
        CorpusModel("Resemblyzer", "score", trained.resemblyzer, trained=True),
        CorpusModel("SmolLM2-135M, other text", "score", trained.smollm2, seed=1, trained=True, skip=_LONG),
        CorpusModel("SmolLM2-135M, a third text", "score", trained.smollm2, seed=12, trained=True, skip=_LONG),
        _generated("llama", 12, "score", massive=True),
        _generated("mistral", 6, "score"),
        _generated("gemma", 4, "score"),
        _generated("neox", 6, "score"),
        _generated("roberta", 3, "score"),
        _zoo("diffusion", "score"),
        _zoo("convnet", "score"),
    )
}
