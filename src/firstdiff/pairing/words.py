"""Split a tensor's name into words: separators, case and wrappers removed, synonyms folded."""

from __future__ import annotations

import re
from functools import lru_cache

from firstdiff.pairing.dialects import SYNONYMS, TRANSPARENT, WRAPPERS

Words = tuple[str, ...]

_WORD = re.compile(r"\d+|[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_A-Za-z]+")
_LONGEST = max(len(phrase.split()) for phrase in (*SYNONYMS, *TRANSPARENT, *WRAPPERS))
_FOLDED: dict[Words, Words] = {tuple(phrase.split()): tuple(meant.split()) for phrase, meant in SYNONYMS.items()}
_FOLDED |= {tuple(phrase.split()): () for phrase in TRANSPARENT}
_WRAPPERS = frozenset(tuple(phrase.split()) for phrase in WRAPPERS)


@lru_cache(maxsize=1 << 16)
def words_of(text: str) -> Words:
    """`self_attn.q_proj`, `SelfAttn/QProj` and `self-attention.query_proj` are all `self attn q proj`."""
    raw = tuple(word.lower() for word in _WORD.findall(text))
    found: list[str] = []
    place = 0
    while place < len(raw):
        taken, meant = _fold(raw, place)
        found += meant
        place += taken
    return tuple(found)


def unwrapped(words: Words, *, keep: int = 0) -> Words:
    """The words without the wrappers in front; the last `keep` words stay whatever they are."""
    while front := next((size for size in range(_LONGEST, 0, -1) if words[:size] in _WRAPPERS), 0):
        if len(words) - front < keep:
            break
        words = words[front:]
    return words


def _fold(raw: Words, place: int) -> tuple[int, Words]:
    for size in range(min(_LONGEST, len(raw) - place), 0, -1):
        meant = _FOLDED.get(raw[place : place + size])
        if meant is not None:
            return size, meant
    return 1, raw[place : place + 1]
