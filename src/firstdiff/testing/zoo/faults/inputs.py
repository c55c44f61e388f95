"""Mistakes before the model: token ids, pictures, their normalisation."""

from __future__ import annotations

import torch

from firstdiff.testing.zoo.architectures.transformer_models import VOCABULARY
from firstdiff.testing.zoo.fault import Site, Subject, fault

_TEXT = "gpt2 llama bert t5 moe"
_GIVEN = Site("root", given=True)
_PICTURES = {"vit": "pixel_values", "diffusion": "picture", "whisper": "input_features"}


@fault(
    "ids shifted",
    "shift.sequence",
    "ids.mismatch",
    on=_TEXT,
    why="both are said of ids, the evidence names the shift",
)
def shifted(subject: Subject) -> Site:
    subject.inputs["input_ids"] = subject.inputs["input_ids"].roll(subject.random.choice([1, -1]), 1)
    return _GIVEN


@fault(
    "ids off by one",
    "ids.mismatch",
    "offset.constant",
    on=_TEXT,
    why="both are said of ids, the evidence names the offset",
)
def off_by_one(subject: Subject) -> Site:
    subject.inputs["input_ids"] = subject.inputs["input_ids"] - 1
    return _GIVEN


@fault("another token in the middle", "ids.mismatch", on=_TEXT)
def one_token(subject: Subject) -> Site:
    ids = subject.inputs["input_ids"].clone()
    ids[0, 5] = (ids[0, 5] + 7) % VOCABULARY
    subject.inputs["input_ids"] = ids
    return _GIVEN


@fault("a merge of the tokenizer missing", "tokenizer.merges", on=_TEXT)
def merge_missing(subject: Subject) -> Site:
    """One word of each text is two tokens; what comes after it moves on, and the last one is cut off."""
    ids = subject.inputs["input_ids"].clone()
    at = subject.random.randrange(2, ids.shape[1] - 3)
    for number, row in enumerate(ids):
        pieces = torch.tensor([1 + number, 2 + number])  # no tokens of any text here
        row.copy_(torch.cat([row[:at], pieces, row[at + 1 : -1]]))
    subject.inputs["input_ids"] = ids
    return _GIVEN


@fault(
    "another vocabulary",
    "vocab.mismatch",
    "ids.mismatch",
    on=_TEXT,
    why="two dozen ids of which few repeat do not tell another numbering from another text",
)
def vocabulary(subject: Subject) -> Site:
    """The same words under other numbers."""
    seed = torch.Generator().manual_seed(subject.random.randrange(1 << 30))
    subject.inputs["input_ids"] = torch.randperm(VOCABULARY, generator=seed)[subject.inputs["input_ids"]]
    return _GIVEN


@fault("picture not normalised", "normalise.mean_std", on="vit diffusion whisper")
def not_normalised(subject: Subject) -> Site:
    name = _PICTURES[subject.architecture]
    given = subject.inputs[name]
    channels = given.shape[1]
    shape = (1, channels, *(1 for _ in given.shape[2:]))
    mean = torch.tensor([0.485, 0.456, 0.406, 0.5] * channels)[:channels].reshape(shape)
    std = torch.tensor([0.229, 0.224, 0.225, 0.25] * channels)[:channels].reshape(shape)
    subject.inputs[name] = given * std + mean
    return _GIVEN


@fault("picture of 0 to 255", "scale.constant", on="vit diffusion")
def bytes_not_scaled(subject: Subject) -> Site:
    name = _PICTURES[subject.architecture]
    subject.inputs[name] = subject.inputs[name] * 255
    return _GIVEN


@fault("picture with rows and columns swapped", "layout.transpose", on="vit diffusion")
def rows_and_columns(subject: Subject) -> Site:
    name = _PICTURES[subject.architecture]
    subject.inputs[name] = subject.inputs[name].transpose(-1, -2).contiguous()
    return _GIVEN


@fault("colours reversed", "layout.reversed", on="vit diffusion")
def colours(subject: Subject) -> Site:
    name = _PICTURES[subject.architecture]
    subject.inputs[name] = subject.inputs[name].flip(1)
    return _GIVEN
