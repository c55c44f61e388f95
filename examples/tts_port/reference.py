"""Speak a text with a voice: `python reference.py TEXT.txt VOICE.wav [OUT.wav]`; FIRSTDIFF_TRACE leaves a trace."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch
from tts.pipeline import SEED, InputError, Pipeline, read_wav, write_wav
from tts.tokenizer import Tokenizer

import firstdiff as fd

HERE = Path(__file__).parent


def speak(text: Path, voice: Path, model: Path) -> torch.Tensor:
    """Return the sound, and leave a trace where FIRSTDIFF_TRACE says."""
    pipeline = Pipeline.load(model)
    try:
        words = text.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{text} cannot be read ({getattr(error, 'strerror', None) or error})") from error
    if not words:
        raise InputError(f"{text} is empty: there is nothing to say")
    ids, wave = torch.tensor([Tokenizer.load(model).encode(words)]), read_wav(voice)
    with torch.no_grad():
        if not os.environ.get("FIRSTDIFF_TRACE"):
            return pipeline(ids, wave)[0]
        with fd.capture(pipeline, os.environ["FIRSTDIFF_TRACE"], seed=SEED):
            return pipeline(ids, wave)[0]


def main(arguments: list[str]) -> int:
    if len(arguments) not in (2, 3):
        print("usage: python reference.py TEXT.txt VOICE.wav [OUT.wav]", file=sys.stderr)
        return 2
    try:
        sound = speak(Path(arguments[0]), Path(arguments[1]), Path(os.environ.get("TTS_MODEL", HERE / "model")))
    except (InputError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    if len(arguments) == 3:
        write_wav(Path(arguments[2]), sound.numpy())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
