"""Ids, positions and vocabularies."""

from __future__ import annotations

import numpy as np
import pytest

from tests.diagnose.values.planted import confidence_in, diagnosed, first_cause, noisy, normal

RANDOM = np.random.default_rng(0)
IDS = RANDOM.integers(5, 500, (2, 12))


@pytest.mark.parametrize(
    ("candidate", "says"),
    [
        (IDS + 1, "all are +1 off"),
        (np.concatenate([np.full((2, 1), 1), IDS[:, :-1]], 1), "has 1, 1 in front"),
        (np.concatenate([IDS[:, 1:], np.full((2, 1), 2)], 1), "which the reference has in front"),
        (np.where(IDS[1, 3] == IDS, 7, IDS), "1 of 24 differ, first at [1, 3]: 7 in place of"),
        (np.stack([IDS[0], IDS[1][[0, 1, 5, 3, 4, 2, 6, 7, 11, 9, 10, 8]]]), "the same ids in another order"),
    ],
    ids=["offset", "start token", "start token missing", "one", "exchanged"],
)
def test_ids_that_differ_say_how(candidate: np.ndarray, says: str) -> None:
    found = diagnosed(IDS, candidate, "input_ids")
    assert found[0].cause == "ids.mismatch"
    assert says in found[0].evidence
    assert "tokenizer" in found[0].fix


def test_padding_on_the_other_side_is_named() -> None:
    ids = np.concatenate([IDS[:1], np.zeros((1, 4), int)], 1)
    found = diagnosed(ids, np.roll(ids, 4, -1), "input_ids")
    assert "padding (0) is on the left in the candidate" in found[0].evidence


@pytest.mark.parametrize("more", [1, 3])
def test_more_ids_than_there_should_be(more: int) -> None:
    longer = np.concatenate([np.full((2, more), 1), IDS], 1)
    found = diagnosed({"ids": IDS + 0, "x": normal(3)}, {"ids": np.where(longer == 1, 1, longer), "x": normal(3)})
    assert not found or found[0].cause == "ids.mismatch"


def test_positions_that_count_padding() -> None:
    seen = np.ones((2, 20), int)
    seen[1, :4] = 0
    positions = np.maximum(seen.cumsum(1) - 1, 0)
    found = diagnosed(positions, np.broadcast_to(np.arange(20), (2, 20)), "position_ids")
    assert found[0].cause == "position.offset"
    assert "4 in place of 0" in found[0].evidence or "1 in place of 0" in found[0].evidence


def test_positions_that_start_elsewhere() -> None:
    positions = np.arange(20)[None]
    found = diagnosed(positions, positions + 2, "position_ids")
    assert found[0].cause == "position.offset"
    assert found[0].fix


def test_other_names_for_the_same_ids_are_another_vocabulary() -> None:
    ids = RANDOM.integers(0, 20, (2, 60))
    found = diagnosed(ids, RANDOM.permutation(20)[ids], "input_ids")
    assert found[0].cause == "vocab.mismatch"


def test_columns_of_logits_in_another_order_are_another_vocabulary() -> None:
    logits = normal(6, 100)
    found = diagnosed(logits, noisy(logits[:, RANDOM.permutation(100)]), "logits")
    assert found[0].cause == "vocab.mismatch"
    assert "100 entries" in found[0].evidence


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_quantised_numbers_are_no_ids(dtype: type) -> None:
    values = RANDOM.integers(0, 100, (4, 30)).astype(dtype)
    other = RANDOM.integers(0, 100, (4, 30)).astype(dtype)
    found = diagnosed(values, other)
    assert not [one for one in found if one.cause in ("ids.mismatch", "vocab.mismatch", "position.offset")]


def test_whole_numbers_below_0_are_no_ids() -> None:
    values = RANDOM.integers(-300, 300, (4, 30))
    assert first_cause(values, 2 * values) == "scale.constant"


def test_a_label_that_stands_for_nothing_keeps_ids_ids() -> None:
    labels = np.where(IDS < 100, -100, IDS)
    assert confidence_in("ids.mismatch", diagnosed(labels, np.where(labels == labels.max(), 3, labels), "labels")) > 0


WORDS = {93: (601, 602), 17: (603, 604, 605)}
TEXT = np.array([7, 93, 8, 9, 6, 5, 17, 10, 11, 20, 21, 22, 93, 12, 13, 14, 15])


def cut_otherwise(ids: np.ndarray) -> np.ndarray:
    return np.array([piece for number in ids for piece in WORDS.get(int(number), (int(number),))])


@pytest.mark.parametrize("length", [None, 17], ids=["longer", "cut off"])
def test_words_cut_into_other_tokens(length: int | None) -> None:
    found = diagnosed(TEXT[None], cut_otherwise(TEXT)[None, :length], "input_ids")
    assert found[0].cause == "tokenizer.merges"
    assert "93 became 601 602, 17 became 603 604 605" in found[0].evidence
    assert "ids.mismatch" in found[0].implies


def test_words_cut_otherwise_are_found_before_much_padding() -> None:
    ids, cut = (np.concatenate([side, np.zeros(3000 - side.size, int)]) for side in (TEXT, cut_otherwise(TEXT)))
    assert first_cause(ids[None], cut[None], "input_ids") == "tokenizer.merges"


def test_pieces_that_should_be_several_tokens_are_one() -> None:
    assert first_cause(cut_otherwise(TEXT)[None], TEXT[None], "input_ids") == "tokenizer.merges"


@pytest.mark.parametrize(
    "candidate",
    [np.where(TEXT == 17, 18, TEXT), np.insert(TEXT, 5, 99), np.delete(TEXT, 5), TEXT[::-1], TEXT + 400],
    ids=["another word", "one more", "one fewer", "backwards", "another text"],
)
def test_other_ids_are_not_words_cut_otherwise(candidate: np.ndarray) -> None:
    assert not confidence_in("tokenizer.merges", diagnosed(TEXT[None], candidate[None], "input_ids"))


def test_one_word_alone_may_be_another_word() -> None:
    found = diagnosed(TEXT[None, 2:11], cut_otherwise(TEXT[2:11])[None], "input_ids")
    assert 0.3 < confidence_in("tokenizer.merges", found) < 0.9
