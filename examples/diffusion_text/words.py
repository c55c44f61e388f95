"""Words of a text and the share of generated words that are real ones."""

import re
from collections.abc import Iterable

_WORD = re.compile(r"[^\W\d_]+")
MIN_LETTERS = 3


def split_words(text: str) -> list[str]:
    """Return the words of three letters or more, in small letters."""
    return [word.lower() for word in _WORD.findall(text) if len(word) >= MIN_LETTERS]


def words_of(text: str) -> list[str]:
    """Return the different words of a text, sorted."""
    return sorted(set(split_words(text)))


def real_word_share(samples: Iterable[str], known: set[str]) -> float:
    """Return the share of the samples' words that are known ones; 0 where there is no word."""
    words = [word for sample in samples for word in split_words(sample)]
    return sum(word in known for word in words) / len(words) if words else 0.0
