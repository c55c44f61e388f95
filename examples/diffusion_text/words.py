"""Words of a text and the share of generated words that are real ones."""

import re
from collections import Counter
from collections.abc import Iterable

_WORD = re.compile(r"[^\W\d_]+")
_PAIR = re.compile(r"(?=([^\W\d_][^\W\d_]))")
MIN_LETTERS = 3
COMMON_PAIRS = 100


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


def common_pairs(known: Iterable[str]) -> set[str]:
    """Return the commonest pairs of letters in a list of words."""
    counts = Counter(word[index : index + 2] for word in known for index in range(len(word) - 1))
    return set(sorted(counts, key=lambda pair: (-counts[pair], pair))[:COMMON_PAIRS])


def common_pair_share(text: str, pairs: set[str]) -> float:
    """Return the share of neighbouring letters that are a common pair; spaces and signs do not count."""
    found = _PAIR.findall(text.lower())
    return sum(pair in pairs for pair in found) / len(found) if found else 0.0
