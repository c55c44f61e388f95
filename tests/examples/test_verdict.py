"""The verdict of the debugger on a generated text and on the way to it."""

from __future__ import annotations

import random
from collections import defaultdict
from itertools import pairwise

import pytest

from tests.examples.conftest import EXAMPLE
from tests.examples.verdicts import LENGTH, Generation, Judge, Verdict, noise

pytestmark = pytest.mark.xdist_group("examples")

WORDS = (EXAMPLE / "weights" / "words.txt").read_text(encoding="utf-8").split()
USUAL = [0.5] * 9
BANDS = [{"low": 0.3, "mean": share, "high": 0.7} for share in USUAL]
# near what debug_python.py measures
QUALITY = {"real_words": 0.2, "common_pairs": 0.4}


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Judge:
    return Judge.build(tmp_path_factory.mktemp("verdict"))


def text_of(words: list[str]) -> str:
    return " ".join(random.Random(0).choices(words, k=60))[:LENGTH]


def pseudo_words(count: int) -> list[str]:
    """Words by the frequencies of letter pairs alone, as a half-trained model writes them."""
    generator = random.Random(0)
    after = defaultdict(list)
    for word in WORDS:
        for letter, following in pairwise(word):
            after[letter].append(following)
    made: list[str] = []
    while len(made) < count:
        word = generator.choice(WORDS)[0]
        while len(word) < 7:
            word += generator.choice(after[word[-1]])
        if word not in WORDS:
            made.append(word)
    return made


SENSELESS = "model: its weights, its inputs, or the vocabulary"
STUCK = "transition kernel, delta sigma, or a generator that does not vary"
GENERATIONS = {
    "improving": (Generation(text_of(WORDS), USUAL), ""),
    "noise": (Generation(noise(2), USUAL), SENSELESS),
    "repeated": (Generation("e" * LENGTH, USUAL), "sampling: how a character is drawn"),
    "loop": (Generation(text_of(["the", "and", "then"]), USUAL), "sampling: the generator repeats itself"),
    "unchanged": (Generation(noise(2), [0.01] * 9, first=noise(2)), STUCK),
    "nonsense": (Generation(text_of(pseudo_words(100)), USUAL), "model or score"),
    "nonfinite": (Generation(noise(2), USUAL, non_finite=3), "model: its inputs, above all sigma"),
}


@pytest.mark.parametrize("kind", GENERATIONS)
def test_each_kind_of_text_has_its_verdict_and_suspect(judge: Judge, kind: str) -> None:
    generation, suspect = GENERATIONS[kind]
    assert judge.verdicts([generation], BANDS, QUALITY, WORDS) == [Verdict(kind, suspect)]


def test_noise_that_changes_too_much_points_to_the_sampler(judge: Judge) -> None:
    (verdict,) = judge.verdicts([Generation(noise(2), [0.9] * 9)], BANDS, QUALITY, WORDS)
    assert verdict.suspect == "score, transition kernel or schedule"


def test_without_a_word_list_words_are_not_judged(judge: Judge) -> None:
    texts = [text_of(WORDS), noise(2), "e" * LENGTH]
    told = judge.verdicts([Generation(text, USUAL) for text in texts], BANDS, QUALITY, [])
    assert [verdict.kind for verdict in told] == ["unknown", "unknown", "repeated"]
