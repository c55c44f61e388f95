"""Byte-pair tokenizer with a vocabulary and a merges file, in GPT-2's format."""

from __future__ import annotations

import json
import re
from collections import Counter
from itertools import pairwise
from pathlib import Path

WORD = re.compile(r" ?[A-Za-z]+| ?[0-9]+|\s+| ?[^\sA-Za-z0-9]+")
MERGES = 64
TRAINING_TEXT = (
    "the other day there was a man on the other side of the river, and he was there with another one; they were there "
    "in the morning, in the evening, and then they went in. hello, how are you? the weather is rather warm in the north"
    " and everyone there is thinking of the sun. hear the wind and the rain, here and there, another and another. "
)


def byte_characters() -> list[str]:
    """Return a printable character for each byte, as GPT-2 has them."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    table = {byte: chr(byte) for byte in printable} | {byte: chr(256 + n) for n, byte in enumerate(others)}
    return [table[byte] for byte in range(256)]


class Tokenizer:
    """Turns text into ids: words, their bytes, and merges by rank."""

    def __init__(self, vocabulary: dict[str, int], merges: list[tuple[str, str]]) -> None:
        self.vocabulary = vocabulary
        self.ranks = {pair: rank for rank, pair in enumerate(merges)}
        self.characters = byte_characters()

    @classmethod
    def load(cls, folder: Path) -> Tokenizer:
        vocabulary = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
        lines = (folder / "merges.txt").read_text(encoding="utf-8").splitlines()
        return cls(vocabulary, [tuple(line.split(" ")) for line in lines if line and not line.startswith("#")])

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text."""
        words = (word.encode("utf-8") for word in WORD.findall(text))
        return [self.vocabulary[piece] for word in words for piece in self._pieces(word)]

    def _pieces(self, word: bytes) -> list[str]:
        pieces = [self.characters[byte] for byte in word]
        while len(pieces) > 1:
            ranked = [(self.ranks.get(pair, len(self.ranks)), n) for n, pair in enumerate(pairwise(pieces))]
            rank, place = min(ranked)
            if rank == len(self.ranks):
                break
            pieces[place : place + 2] = ["".join(pieces[place : place + 2])]
        return pieces


def train(text: str = TRAINING_TEXT, merges: int = MERGES) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Return the vocabulary and the merges that a text gives: each time its commonest pair."""
    characters = byte_characters()
    words = Counter(tuple(characters[byte] for byte in word.encode("utf-8")) for word in WORD.findall(text))
    learned: list[tuple[str, str]] = []
    for _ in range(merges):
        pairs: Counter[tuple[str, str]] = Counter()
        for word, count in words.items():
            for pair in pairwise(word):
                pairs[pair] += count
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        learned.append(best)
        words = Counter({_merged(word, best): count for word, count in words.items()})
    vocabulary = {piece: number for number, piece in enumerate([*characters, *("".join(pair) for pair in learned)])}
    return vocabulary, learned


def _merged(word: tuple[str, ...], pair: tuple[str, str]) -> tuple[str, ...]:
    pieces, place = [], 0
    while place < len(word):
        both = word[place : place + 2] == pair
        pieces.append("".join(pair) if both else word[place])
        place += 2 if both else 1
    return tuple(pieces)
