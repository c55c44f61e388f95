"""Generate samples and print the share of their words that the training text has.

    python evaluate.py

The last line is `real words: NN.N %`, of all words of three letters or more.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from generate import sampler_for
from model import WEIGHTS, load_model
from sampler import decode
from words import real_word_share


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure how many generated words are real ones.")
    parser.add_argument("--weights", type=Path, default=WEIGHTS, help="folder that train.py wrote")
    parser.add_argument("--samples", type=int, default=50)
    parser.add_argument("--steps", type=int, default=128)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--temperature", type=float, default=0.85, help="below 1 the likely is drawn more often")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    model, vocab = load_model(args.weights)
    known = set((args.weights / "words.txt").read_text(encoding="utf-8").split())
    ids = np.zeros((0, 0), dtype=np.int64)
    for step in sampler_for(model).generate(args.seed, args.steps, range(args.samples), temperature=args.temperature):
        ids = step.sampled
    texts = [decode(row, vocab) for row in ids]
    for number, text in enumerate(texts):
        print(f"---- sample {number}\n{text}")
    print(f"real words: {100 * real_word_share(texts, known):.1f} %")


if __name__ == "__main__":
    main()
