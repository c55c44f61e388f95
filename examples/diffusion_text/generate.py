"""Generate text with the trained model.

python generate.py --prefix "ROMEO:" --samples 3 --steps 64 --seed 1 --gif denoising.gif
"""

import argparse
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import torch
from model import WEIGHTS, DiffusionText, load_model
from sampler import LogScores, Sampler, Step, decode, fixed_characters

import firstdiff as fd
from firstdiff.errors import UsageError


def torch_log_scores(model: DiffusionText) -> LogScores:
    """Return the model as a function of arrays."""

    def run(ids: np.ndarray, sigma: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            scores: np.ndarray = model(torch.from_numpy(ids), torch.from_numpy(sigma)).numpy()
        return scores

    return run


def sampler_for(model: DiffusionText) -> Sampler:
    """Return a sampler that runs the torch model."""
    config = model.config
    return Sampler(torch_log_scores(model), config.vocab_size, config.block_size, config.sigma_min, config.sigma_max)


def write_gif(path: Path, frames: list[str]) -> None:
    """Write the texts as an animation; characters that the last step changed are red."""
    try:
        from PIL import Image, ImageDraw, ImageFont
    except ImportError:
        raise SystemExit("--gif needs Pillow: run `pip install pillow`") from None
    font = ImageFont.load_default(16)
    columns, cell_width, cell_height = 32, 12, 22
    rows = -(-len(frames[0]) // columns)
    images = []
    for previous, text in zip([frames[0], *frames], frames, strict=False):
        image = Image.new("RGB", (columns * cell_width + 16, rows * cell_height + 16), "white")
        canvas = ImageDraw.Draw(image)
        for position, character in enumerate(text):
            row, column = divmod(position, columns)
            colour = "black" if character == previous[position] else "#c0271f"
            shown = "↵" if character == "\n" else character
            canvas.text((8 + column * cell_width, 8 + row * cell_height), shown, colour, font)
        images.append(image)
    durations = [80] * (len(images) - 1) + [3000]
    images[0].save(path, save_all=True, append_images=images[1:], duration=durations, loop=0)


def main() -> None:
    parser = argparse.ArgumentParser(description="Generate text with the discrete-diffusion model.")
    parser.add_argument("--weights", type=Path, default=WEIGHTS, help="folder that train.py wrote")
    parser.add_argument("--prefix", default="", help="text to begin with")
    parser.add_argument("--suffix", default="", help="text to end with")
    parser.add_argument("--samples", type=int, default=1)
    parser.add_argument("--steps", type=int, help="denoising steps (default: those of metadata.json)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--trace", type=Path, help="record every stage of every step into this folder")
    parser.add_argument("--gif", type=Path, help="write the denoising of the first sample as an animation")
    args = parser.parse_args()
    model, vocab = load_model(args.weights)
    frames: list[str] = []
    last: Step | None = None
    try:
        fixed = fixed_characters(args.prefix, args.suffix, vocab, model.config.block_size)
        steps = sampler_for(model).generate(
            args.seed, args.steps or model.config.steps, range(args.samples), fixed, args.temperature
        )
        with fd.record(args.trace, seed=args.seed) if args.trace else nullcontext():
            for last in steps:
                frames.append(decode(last.ids[0], vocab))
    except (ValueError, UsageError) as error:
        raise SystemExit(str(error)) from None
    assert last is not None
    texts = [decode(row, vocab) for row in last.sampled]
    if args.gif:
        write_gif(args.gif, [*frames, texts[0]])
    print("\n----\n".join(texts))


if __name__ == "__main__":
    main()
